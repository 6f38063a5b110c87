"""Report completions of external jobs to counters in this process: by the job's type, not as a row.

Receivers of the signal ``job_completed`` get the row, which the database has to return and Python to build for each
completion. That is too expensive for counting.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from django.db import connections

from ..sql.on_commit import after_commit

_listeners: list[Callable[[str], None]] = []


def listen(listener: Callable[[str], None]) -> None:
    """Call ``listener`` with the type of each job completed in this process; once, even if it is added repeatedly."""
    if listener not in _listeners:
        _listeners.append(listener)


def unlisten(listener: Callable[[str], None]) -> None:
    """Undo :func:`listen`; an unknown listener is ignored."""
    if listener in _listeners:
        _listeners.remove(listener)


def completed(using: str, type: str) -> None:
    """Report a completed job when the current transaction commits."""
    for listener in _listeners:
        after_commit(connections[using], partial(listener, type))
