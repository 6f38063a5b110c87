"""Completions that arrive together are settled together: in one statement and one commit.

Locks, and what a kill leaves: docs/explanation/locking.md, "External jobs".
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

from jobexec.operations import external
from jobexec.operations.external.types import Completion
from jobexec.operations.sql.dialect import dialect
from jobexec.operations.sql.errors import one_line
from jobexec.runtime.connections import clean_connections
from jobexec.runtime.database_threads import LONGEST_LINE, DatabaseThreads, Overloaded

logger = logging.getLogger("jobexec.gateway")

#: The maximum number of completions in a group.
GROUP = 100
#: The maximum number of groups at the same time: other calls need threads as well.
GROUPS = 4
#: Seconds after which completions no longer wait for the group before them.
PATIENCE = 0.02


class _Waiting(NamedTuple):
    completion: Completion
    loop: asyncio.AbstractEventLoop
    future: asyncio.Future[None]


class Completions:
    """Completes jobs of one database for the coroutines of this process, with ``threads``.

    While a thread settles a group, the completions that arrive form the next one; the thread continues with it, after
    other calls if all threads settle groups. None waits to be joined by others. Behind a group that takes long, another
    thread begins. Those that cannot share a statement follow alone, in any thread; ``alone`` calls them. Where
    databases have no such statement, all do.
    """

    def __init__(
        self, using: str, threads: DatabaseThreads, alone: Callable[[Callable[[], None]], None] | None = None
    ) -> None:
        self._using, self._threads, self._alone = using, threads, alone
        self._has_groups = dialect(using).writes_in_with
        self._lock = threading.Lock()
        self._waiting: deque[_Waiting] = deque()
        #: The number of threads that settle groups, or have been asked to.
        self._settling = 0
        #: When a look is due at completions that wait.
        self._look_at = 0.0

    async def complete(self, completion: Completion) -> None:
        """Complete a job; returns after the commit. It is carried out even if the caller is cancelled meanwhile.

        Raises the errors of :func:`~jobexec.operations.external.settle.complete_external_job`, and Overloaded.
        """
        loop = asyncio.get_running_loop()
        one = _Waiting(completion, loop, loop.create_future())
        if self._has_groups:
            self._join(one)
        else:
            self._threads.submit(partial(self._settle_alone, one))
        await one.future

    # In the event loop.

    def _join(self, one: _Waiting) -> None:
        with self._lock:
            if len(self._waiting) >= LONGEST_LINE:
                raise Overloaded
            self._waiting.append(one)
            begins = not self._settling
            self._settling += begins
        if begins:
            self._begin()
        elif (now := time.monotonic()) >= self._look_at:
            self._look_at = now + PATIENCE
            one.loop.call_later(PATIENCE, self._look, one)

    def _look(self, one: _Waiting) -> None:
        """Let another thread begin if ``one`` still waits for a group to end."""
        self._look_at = 0.0
        with self._lock:
            begins = self._settling < GROUPS and any(each is one for each in self._waiting)
            self._settling += begins
        if begins:
            self._begin()

    def _begin(self) -> None:
        try:
            self._threads.submit(self._settle, urgent=True)
        except Overloaded as error:  # the process ends
            with self._lock:
                self._settling -= 1
                left = [] if self._settling else list(self._waiting)
                for _ in left:
                    self._waiting.popleft()
            self._answer([(one, error) for one in left])

    # In a thread.

    def _settle(self) -> None:
        while group := self._next():
            try:
                self._settle_group(group)
                clean_connections()
            except Exception:  # those that wait must not wait for a thread that has gone
                logger.exception("The thread that settled %d completions goes on after an error", len(group))
            if self._gives_way():
                return

    def _gives_way(self) -> bool:
        """If all threads settle groups and other calls wait, continue behind those; return whether this is so."""
        if not (self._waiting and self._settling >= self._threads.most and self._threads.busy):
            return False
        try:
            self._threads.submit(self._settle, again=True)
        except Overloaded:  # the process ends
            return False
        return True

    def _next(self) -> list[_Waiting]:
        with self._lock:
            group = [self._waiting.popleft() for _ in range(min(len(self._waiting), GROUP))]
            if not group:
                self._settling -= 1
            return group

    def _settle_group(self, group: Sequence[_Waiting]) -> None:
        left = list(group)
        if len(group) > 1:
            try:
                outcomes = external.complete_external_jobs(self._using, [one.completion for one in group])
            except Exception as error:
                logger.debug("%d completions are tried one by one: %s", len(group), one_line(error))
            else:
                done = [(one, outcome) for one, outcome in zip(group, outcomes, strict=True) if outcome]
                self._answer([(one, None if outcome is True else outcome) for one, outcome in done])
                left = [one for one, outcome in zip(group, outcomes, strict=True) if not outcome]
        for number, one in enumerate(left, 1):
            if number == len(left):
                self._settle_alone(one)
            else:
                self._pass_on(one)

    def _pass_on(self, one: _Waiting) -> None:
        try:
            self._threads.submit(partial(self._settle_alone, one), urgent=True)
        except Overloaded as error:
            self._answer([(one, error)])

    def _settle_alone(self, one: _Waiting) -> None:
        error: BaseException | None = None
        call = partial(external.complete_external_job, self._using, **one.completion._asdict())
        try:
            call() if self._alone is None else self._alone(call)
        except BaseException as raised:
            error = raised
        self._answer([(one, error)])

    @staticmethod
    def _answer(answers: Sequence[tuple[_Waiting, BaseException | None]]) -> None:
        by_loop: dict[asyncio.AbstractEventLoop, list[tuple[asyncio.Future[None], BaseException | None]]] = {}
        for one, error in answers:
            by_loop.setdefault(one.loop, []).append((one.future, error))
        for loop, told in by_loop.items():
            try:
                loop.call_soon_threadsafe(_tell, told)
            except RuntimeError:
                logger.debug("The event loop has ended before %d completions were answered", len(told))


def _tell(answers: Sequence[tuple[asyncio.Future[None], BaseException | None]]) -> None:
    for future, error in answers:
        if future.done():
            continue  # the client has disconnected
        if error is None:
            future.set_result(None)
        else:
            future.set_exception(error)
