"""Operators' changes to resources: their limits and rates, and breakers that are held open or closed."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from jobexec import clock, signals
from jobexec.conf import get_settings
from jobexec.conf.messages import check_moment
from jobexec.conf.resources import is_name
from jobexec.conf.resources import rate as parsed_rate
from jobexec.exceptions import InvalidJob
from jobexec.json_values import shown
from jobexec.models import BreakerState, Resource

from ..audit import audited, note
from ..history.incidents import close_breaker_incident
from ..notify.signals import announce
from ..notify.wake import wake_for_resources
from ..resources.breaker import take_back
from ..resources.promote import locked_resources
from ..sql.locks import atomic
from ..targets.for_each import database_of

MAX_LIMIT = 1_000_000


@audited
def set_resource_limits(name: str, *, limit: int | None = None, rate: str = "", using: str | None = None) -> Resource:
    """Override the limit and the rate of a resource, or of a pattern in RESOURCES, in the whole cluster, from now on.

    A ``limit`` of None and a ``rate`` of '' are those of RESOURCES; a limit of 0 is no limit. Running jobs are not
    affected: with a lower limit, no other job starts until enough have ended. Raises
    :class:`~jobexec.exceptions.InvalidJob`.
    """
    _check_known(name, patterns=True)
    if limit is not None and (not isinstance(limit, int) or isinstance(limit, bool) or not 0 <= limit <= MAX_LIMIT):
        raise InvalidJob(f"limit: expected a whole number from 0 to {MAX_LIMIT}, or None, got {shown(limit)}.")
    if rate:
        _check_rate(rate)
    return _change(using, name, limit=limit, rate=rate or "")


@audited
def hold_resource(
    name: str, *, state: str = BreakerState.OPEN.value, until: datetime | None = None, using: str | None = None
) -> Resource:
    """Hold a resource open, so that none of its jobs starts, or closed, regardless of its breaker.

    Without an end (``until``), it is held until :func:`release_resource`. If it is held open, jobs that have a permit
    and have not begun wait again; running jobs finish. Raises :class:`~jobexec.exceptions.InvalidJob`.
    """
    _check_known(name, patterns=False)
    if state not in (BreakerState.OPEN, BreakerState.CLOSED):
        raise InvalidJob(f"state: expected 'open' or 'closed', got {shown(state)}.")
    moment, database = check_moment("until", until), database_of(None, using)
    if moment is not None and moment <= clock.now(database):
        raise InvalidJob(f"until: expected a time in the future, got {moment}.")
    row = _change(using, name, hold=str(state), hold_until=moment)
    if state == BreakerState.OPEN:
        take_back(database, name)
    return row


@audited
def release_resource(name: str, *, using: str | None = None) -> Resource:
    """Undo :func:`hold_resource`, and close the breaker. Raises :class:`~jobexec.exceptions.InvalidJob`."""
    _check_known(name, patterns=False)
    closed = {"breaker_state": BreakerState.CLOSED.value, "trial_time": None, "trials": 0, "reason": ""}
    row = _change(using, name, hold="", hold_until=None, **closed)
    announce(signals.breaker_changed, database_of(None, using), Resource, name=name, state=row.breaker_state)
    return row


def _check_known(name: Any, *, patterns: bool) -> None:
    known = get_settings().resources
    fits = is_name(name) and (name in known if name.endswith("*") else known.covering(name) is not None)
    if not fits or (name.endswith("*") and not patterns):
        entries = ", ".join(map(repr, known)) or "which is empty"
        what = "an entry of RESOURCES, or a name that one covers" if patterns else "a name that RESOURCES covers"
        raise InvalidJob(f"resource: expected {what} ({entries}), got {shown(name)}.")


def _check_rate(value: Any) -> None:
    try:
        parsed_rate(value)
    except ValueError as error:
        raise InvalidJob(f"rate: expected {error}, got {shown(value)}.") from None


def _change(using: str | None, name: str, **changes: Any) -> Resource:
    database = database_of(None, using)
    with atomic(database):
        row = locked_resources(database, [name])[name]
        old = {column: getattr(row, column) for column in changes}
        note(database, "resource", name, old=old, new=changes, count=0)
        if "breaker_state" in changes and row.breaker_state != changes["breaker_state"]:
            row.breaker_time = clock.now(database)
            close_breaker_incident(database, name)
        for column, value in changes.items():
            setattr(row, column, value)
        row.save(using=database, update_fields=[*changes, "breaker_time"])
        wake_for_resources(database, ["" if name.endswith("*") else name])
    return row
