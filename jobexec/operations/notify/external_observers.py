"""Tells whoever counts in this process that a job outside was completed: by its type, and not as a row.

Receivers of the signal ``job_completed`` are given the row, which the database has to return and Python to build for
each completion. That is more than counting may cost.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from django.db import transaction

_listeners: list[Callable[[str], None]] = []


def listen(listener: Callable[[str], None]) -> None:
    """Call ``listener`` with the type of each job that is completed here, from now on; once, however often it asks."""
    if listener not in _listeners:
        _listeners.append(listener)


def unlisten(listener: Callable[[str], None]) -> None:
    """No more."""
    if listener in _listeners:
        _listeners.remove(listener)


def completed(using: str, type: str) -> None:
    """A job was completed; told when the current transaction commits."""
    for listener in _listeners:
        transaction.on_commit(partial(listener, type), using=using, robust=True)
