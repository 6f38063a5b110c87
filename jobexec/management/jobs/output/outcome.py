"""The report of the command about changes."""

from __future__ import annotations

import getpass
import socket
from collections.abc import Callable

from django.utils.translation import ngettext

from jobexec.models import OperatorType
from jobexec.operations.targets.for_each import OperationResult
from jobexec.operations.values.operator import Operator

from .screen import Exit, Screen


def _jobs_left(count: int) -> str:
    return ngettext("%(count)d job was skipped:", "%(count)d jobs were skipped:", count) % {"count": count}


def tell(
    operation: str,
    done: Callable[[int], str],
    result: OperationResult,
    screen: Screen,
    left: Callable[[int], str] = _jobs_left,
) -> int:
    """Report changed jobs, and jobs left alone with the reasons; return the exit code.

    ``done`` and ``left`` build the message for a number of rows.
    """
    if screen.json:
        skipped = {str(id): reason for id, reason in result.skipped.items()}
        screen.tell({"operation": operation, "changed": result.changed, "skipped": skipped})
        return Exit.LEFT_ALONE if skipped else Exit.DONE
    count = len(result.changed)
    screen.say(done(count), screen.style.SUCCESS if count else str)
    if not result.skipped:
        return Exit.DONE
    screen.say(left(len(result.skipped)), screen.style.WARNING)
    for id, reason in result.skipped.items():
        screen.say(f"  {id}  {reason}")
    return Exit.LEFT_ALONE


def operator(command: str, action: str) -> Operator:
    """The operator for the audit log of ``manage.py COMMAND ACTION``."""
    return Operator(OperatorType.COMMAND, user(), f"{command} {action}".rstrip(), socket.gethostname())


def user() -> str:
    """The user name according to the operating system; '' if unknown."""
    try:
        return getpass.getuser()
    except (KeyError, OSError, ImportError):
        return ""
