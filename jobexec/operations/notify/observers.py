"""Watchers that learn of jobs as soon as they are inserted, before the commit: for tests of a project's jobs."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import TypeAlias

from ..values.inserted_rows import NewJob

#: Called with the database alias and the rows that one call has inserted, in order, in the thread that inserted them.
#: Its exceptions reach the caller that enqueues.
Watcher: TypeAlias = Callable[[str, Sequence[NewJob]], object]

_watchers: list[Watcher] = []


class _Thread(threading.local):
    def __init__(self) -> None:
        #: The rows inserted by each unfinished call, the innermost last.
        self.calls: list[list[tuple[str, Sequence[NewJob]]]] = []


_thread = _Thread()


def watch(watcher: Watcher) -> None:
    """Call ``watcher`` for all jobs inserted in this process, including those that are rolled back later."""
    _watchers.append(watcher)


def unwatch(watcher: Watcher) -> None:
    """Undo :func:`watch`; an unknown watcher is ignored."""
    if watcher in _watchers:
        _watchers.remove(watcher)


def tell_watchers(using: str, jobs: Sequence[NewJob]) -> None:
    """Report inserted rows. Costs nothing without watchers."""
    if not (_watchers and jobs):
        return
    if _thread.calls:
        _thread.calls[-1].append((using, jobs))
        return
    for watcher in tuple(_watchers):
        watcher(using, jobs)


class told_afterwards:
    """Report the rows inserted in a block to watchers when it ends, and none if it raises.

    Enter it before the call's own transaction, so that an exception of a watcher does not roll back the insert.
    """

    def __enter__(self) -> None:
        _thread.calls.append([])

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        inserted = _thread.calls.pop()
        if kind is None:
            for using, jobs in inserted:
                tell_watchers(using, jobs)
