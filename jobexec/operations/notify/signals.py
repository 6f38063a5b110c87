"""Send signals to the rest of the project after the commit."""

from __future__ import annotations

from functools import partial
from typing import Any

from django.db import connections
from django.dispatch import Signal

from jobexec import signals
from jobexec.models import AbstractJob, DeadLetterJob, Job

from ..audit import acting
from ..sql.on_commit import after_commit


def failure_signal(
    moved: AbstractJob, error: BaseException | None, *, handled: bool = False
) -> tuple[Signal, dict[str, Any]]:
    """Return the signal for a run that did not succeed, by the table its job is now in, and its arguments.

    ``handled``: it is in none, as its failure needs no operator.
    """
    if isinstance(moved, Job) and not handled:
        return signals.job_cancelled, {"jobs": [moved]}
    dead = isinstance(moved, DeadLetterJob)
    return signals.job_dead_lettered if dead else signals.job_failed, {"job": moved, "error": error}


def announce(signal: Signal, using: str, sender: type[Any], **values: Any) -> None:
    """Send a signal of :mod:`jobexec.signals` once the current transaction commits; an error in a receiver is logged.

    Costs nothing without receivers. A change that is rolled back is never announced. Changes made by a receiver are not
    attributed to the operator whose change it receives.
    """
    if signal.receivers and signal.has_listeners(sender):
        after_commit(connections[using], partial(_send, signal, sender=sender, using=using, **values))


def _send(signal: Signal, **values: Any) -> None:
    with acting(None):
        signal.send_robust(**values)
