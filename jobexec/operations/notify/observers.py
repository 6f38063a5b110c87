"""Who is told of jobs as soon as they are inserted, before the commit: what tests a project's jobs."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import TypeAlias

from jobexec.models import Job, TimerJob

#: Called with the database alias and the rows that one call has inserted, in order, in the thread that inserted them.
#: What it raises reaches whoever enqueues.
Watcher: TypeAlias = Callable[[str, Sequence[Job | TimerJob]], object]

_watchers: list[Watcher] = []


class _Thread(threading.local):
    def __init__(self) -> None:
        #: What each call that goes on has inserted, the innermost last.
        self.calls: list[list[tuple[str, Sequence[Job | TimerJob]]]] = []


_thread = _Thread()


def watch(watcher: Watcher) -> None:
    """Tell ``watcher`` of all jobs that are inserted in this process, also of those that are rolled back later."""
    _watchers.append(watcher)


def unwatch(watcher: Watcher) -> None:
    """Undo :func:`watch`; an unknown watcher is ignored."""
    if watcher in _watchers:
        _watchers.remove(watcher)


def tell_watchers(using: str, jobs: Sequence[Job | TimerJob]) -> None:
    """These rows have been inserted. Costs nothing while nobody watches."""
    if not (_watchers and jobs):
        return
    if _thread.calls:
        _thread.calls[-1].append((using, jobs))
        return
    for watcher in tuple(_watchers):
        watcher(using, jobs)


class told_afterwards:
    """Let watchers hear at the end of the block of what is inserted in it, and of nothing if the block raises.

    To be entered before a transaction of the call's own, so that a watcher that raises does not undo the insert.
    """

    def __enter__(self) -> None:
        _thread.calls.append([])

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        inserted = _thread.calls.pop()
        if kind is None:
            for using, jobs in inserted:
                tell_watchers(using, jobs)
