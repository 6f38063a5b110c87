"""The database's time, which :mod:`jobexec.clock` follows."""

from __future__ import annotations

from datetime import UTC, datetime

from django.core import mail
from django.db import connections

from jobexec import clock

from .dialect import dialect

#: Seconds for which a process that only enqueues derives the database's time from its own monotonic clock.
_GOOD_FOR = 60.0


def database_time(using: str) -> datetime | None:
    """Return the database server's time; None where it is this machine's (SQLite)."""
    connection, statement = connections[using], dialect(using).current_time
    if statement is None:
        return None
    with connection.cursor() as cursor:
        cursor.execute(statement + connection.features.bare_select_suffix)
        time: datetime = cursor.fetchone()[0]
    return time if time.tzinfo else time.replace(tzinfo=UTC)


def synchronise_clock(using: str) -> datetime:
    """Read the database's time, set :mod:`jobexec.clock` to it and return it.

    The clock lags by the return trip from the database and is never ahead: if half of the round trip were added, a
    process that was paused while sending the query, however long, would count half of its pause and could take living
    nodes for dead. The skew of this node's clock does not matter.
    """
    time = database_time(using)
    if time is not None:
        clock.synchronise(using, time, clock.monotonic())
    return clock.now(using)


def time_of(using: str) -> datetime:
    """Query the database's time, for a process that checks a lease and has no heartbeat to set its clock."""
    time = None if clock.is_frozen() else database_time(using)
    return time or clock.now(using)


def keep_time(using: str) -> None:
    """Make :func:`jobexec.clock.now` return the database's time before the caller writes a timestamp.

    A process without a heartbeat, such as a web server, asks once a minute; its own clock may be wrong by any amount.
    No effect where the database's time is this machine's (SQLite), and in Django's test environment, where tests move
    the time, perhaps with time-machine.
    """
    if clock.is_stale(using, _GOOD_FOR) and dialect(using).current_time is not None and not under_test():
        synchronise_clock(using)


def under_test() -> bool:
    """Whether Django's test environment is set up."""
    return hasattr(mail, "outbox")
