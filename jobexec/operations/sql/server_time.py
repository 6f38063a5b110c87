"""The database's own time, by which :mod:`jobexec.clock` goes."""

from __future__ import annotations

from datetime import UTC, datetime

from django.core import mail
from django.db import connections

from jobexec import clock

#: Seconds for which a process that only enqueues carries on the database's time by its own monotonic clock.
_GOOD_FOR = 60.0

# now() would be the start of the transaction, and CURRENT_TIMESTAMP is in the session's time zone on MySQL.
_TIME = {"postgresql": "SELECT clock_timestamp()", "mysql": "SELECT UTC_TIMESTAMP(6)"}


def database_time(using: str) -> datetime | None:
    """The database's own clock; None where it is this machine's (SQLite)."""
    statement = _TIME.get(connections[using].vendor)
    if statement is None:
        return None
    with connections[using].cursor() as cursor:
        cursor.execute(statement)
        time: datetime = cursor.fetchone()[0]
    return time if time.tzinfo else time.replace(tzinfo=UTC)


def synchronise_clock(using: str) -> datetime:
    """Read the database's time and set :mod:`jobexec.clock` by it; returns it.

    Behind by the way back from the database, and never ahead: a process that is paused on the way there, however long,
    must not take living nodes for dead because it counts half of its pause. The skew of this node's clock does not
    matter.
    """
    time = database_time(using)
    if time is not None:
        clock.synchronise(using, time, clock.monotonic())
    return clock.now(using)


def time_of(using: str) -> datetime:
    """The database's time, asked now, for whoever judges a lease and has no heartbeat that sets his clock."""
    time = None if clock.is_frozen() else database_time(using)
    return time or clock.now(using)


def keep_time(using: str) -> None:
    """Let :func:`jobexec.clock.now` tell the database's time to whoever is about to write a moment.

    A process without a heartbeat, a web server say, asks once a minute; its own clock may be wrong by any amount. Not
    in Django's test environment: there a test moves the time, with time-machine perhaps.
    """
    if clock.is_stale(using, _GOOD_FOR) and not under_test():
        synchronise_clock(using)


def under_test() -> bool:
    """Whether Django's test environment is set up."""
    return hasattr(mail, "outbox")
