"""Collects outcomes and commits them in groups; outlives the pool."""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress

from jobexec.operations.sql.dialect import keep_plans
from jobexec.operations.sql.errors import is_conflict, one_line
from jobexec.operations.sql.session import is_of_connection
from jobexec.operations.values.acquired_job import AcquiredJob
from jobexec.operations.values.log_fields import log_fields

from ...runtime.connections import refresh_connections, rest_connections_outside
from ...runtime.threads import Deadline, Service, is_alive, spawn
from ..nodes.node import Node
from ..pool.pool import Pool
from ..run.execution import fail_after_run
from ..run.outcomes import Outcome, PassingOn, unreachable, write, write_alone, write_shared

logger = logging.getLogger("jobexec.settlement")

_GROUP = 500
#: If this many outcomes wait for their commits, no more jobs are acquired until half of them are written. They take
#: memory, and if the process is killed, their jobs run again.
_MOST_WAITING = 4 * _GROUP
#: Seconds that an urgent outcome waits for others, and how many must be expected in that time to be worth the wait.
#: A commit takes about as long, and those that come meanwhile share the next one anyway.
_SOON, _WORTH_IT = 0.002, 10
_IDLE_SECONDS = 5.0
_FIRST_PAUSE, _LONGEST_PAUSE = 0.1, 5.0
#: Seconds before another try of what only waits for others.
_FIRST_WAIT, _LONGEST_WAIT = 0.002, 0.1


class Settlement(Service):
    """One thread that writes the outcomes of one engine: at once when idle, in groups when busy.

    An outcome leaves the buffer only after its commit was confirmed; an outcome in doubt is tried again, and "no row"
    then means that it was settled or taken over, never that it is lost. Outcomes of one process instance are settled
    in order of arrival. Siblings that waited for a commit return to ``pool``.
    """

    def __init__(self, node: Node, after_failure: Callable[[], object], pool: Pool | None = None) -> None:
        self._node, self._after_failure, self._pool = node, after_failure, pool
        #: Called with outcomes that are settled.
        self.after_outcomes: Callable[[Sequence[Outcome]], object] = lambda outcomes: None
        self.passing_on: PassingOn | None = None
        self._within = node.settings.settle_within.total_seconds()
        self._changed = threading.Condition(threading.RLock())
        self._buffer: deque[Outcome] = deque()
        self._committing: list[Outcome] = []
        self._wanting_room: list[Callable[[], object]] = []
        #: Its thread waits for the first outcome, or for more of them.
        self._rests = self._gathers = False
        #: Among the outcomes it gathers there is an urgent one.
        self._hurries = False
        self._flushed = False
        self._stopping = False
        self._give_up = threading.Event()
        self._closed = False
        self._thread: threading.Thread | None = None

    # Called by worker threads.

    def submit(self, outcome: Outcome) -> None:
        """Accept an outcome; returns at once, and nearly always without a lock."""
        self._buffer.append(outcome)
        # In this order: a settlement thread about to rest sets its flag first, and then looks at the buffer.
        if self._rests or (self._gathers and self._is_enough(outcome)):
            self._rests = self._gathers = False  # one notification is enough
            with self._changed:
                self._changed.notify_all()

    def _is_enough(self, outcome: Outcome) -> bool:
        """Whether the thread need not gather any longer, now that this one has come."""
        return len(self._buffer) >= _GROUP or (not self._hurries and outcome.urgent)

    def has_room(self, on_room: Callable[[], object]) -> bool:
        """Whether outcomes are written as fast as jobs end; if not, ``on_room`` is called once later."""
        if len(self._buffer) < _MOST_WAITING:
            return True
        with self._changed:
            if len(self._buffer) < _MOST_WAITING:  # they have been written meanwhile
                return True
            self._wanting_room.append(on_room)
            return False

    def flush(self) -> None:
        """Write now: no more outcomes will come soon."""
        if self._buffer:
            with self._changed:
                self._flushed = True
                self._changed.notify_all()

    def settle(self, outcome: Outcome) -> bool:
        """Accept an outcome and wait until it is committed; returns whether it counted."""
        outcome.settled = threading.Event()
        with self._changed:  # so that _let_go() cannot come in between
            self.submit(outcome)
            if self._closed:
                return False
        outcome.settled.wait()
        return outcome.counted

    def jobs_in_hand(self) -> list[AcquiredJob]:
        """All jobs whose outcomes are not committed yet."""
        with self._changed:
            return [outcome.work for outcome in (*self._committing, *_copy(self._buffer))]

    @property
    def empty(self) -> bool:
        """Everything accepted is committed."""
        with self._changed:
            return not (self._buffer or self._committing)

    @property
    def alive(self) -> bool:
        return is_alive(self._thread)

    # Start and stop.

    def start(self) -> None:
        if self._thread is None:
            with self._changed:
                self._stopping = self._closed = False
            # An event for each start: a thread that did not end in time must not be revived.
            give_up = self._give_up = threading.Event()
            self._thread = spawn(f"jobexec-settlement-{self._node.using}", lambda: self._work(give_up))

    def stop(self, timeout: float) -> bool:
        """Write the rest; recovery runs the jobs again whose outcomes cannot be written in time."""
        if self._thread is None:
            return True
        with self._changed:
            self._stopping = True
            self._changed.notify_all()
        self._thread.join(timeout)
        self._give_up.set()
        self._thread.join(1.0)
        stopped = not self._thread.is_alive() and self.empty
        self._thread = None
        self._let_go()
        return stopped

    def _let_go(self) -> None:
        """Release the threads that wait for a sibling's commit: no thread will write the rest."""
        with self._changed:
            self._closed = True
            for outcome in (*self._committing, *_copy(self._buffer)):
                if outcome.settled is not None:
                    outcome.settled.set()

    # The thread.

    def _work(self, give_up: threading.Event) -> None:
        failures = 0
        while not give_up.is_set() and (group := self._take()):
            left: list[Outcome] = list(group)
            error: BaseException | None = None
            try:
                keep_plans(self._node.using)  # here, so that only the connection of this thread changes
                if self._lease_decided(group):
                    left, error = self._commit(group)
            except BaseException as unforeseen:  # the thread must not die: everything would wait for ever
                error = unforeseen
            refresh_connections()
            with self._changed:
                self._put_back(left)
                self._committing = []
                told = self._wanting_room if len(self._buffer) <= _MOST_WAITING // 2 else []
                self._wanting_room = [] if told else self._wanting_room
            for on_room in told:
                on_room()
            failures = failures + 1 if error else 0
            if error:
                self._pause(error, failures, give_up)
            else:
                self._rest(len(left) == len(group), give_up)

    def _pause(self, error: BaseException, failures: int, give_up: threading.Event) -> None:
        level = logging.WARNING if failures == 1 else logging.DEBUG
        with suppress(Exception):  # a project's logging filter that fails must not cost the thread
            logger.log(level, "Outcomes wait for the database %s: %s", self._node.using, one_line(error))
        give_up.wait(min(_LONGEST_PAUSE, _FIRST_PAUSE * 2 ** min(failures - 1, 10)))

    def _put_back(self, left: Sequence[Outcome]) -> None:
        self._buffer.extendleft(reversed(left))

    def _rest(self, nothing_written: bool, give_up: threading.Event) -> None:
        """Called after each group without an error."""

    def _take(self) -> list[Outcome]:
        with self._changed:
            while True:
                self._rests = True
                if self._buffer or self._stopping:
                    break
                if not self._changed.wait(_IDLE_SECONDS):
                    rest_connections_outside(self._changed)
            self._rests = False
            self._gather()
            group = [self._buffer.popleft() for _ in range(min(len(self._buffer), _GROUP))]
            self._committing = group
            return group

    def _gather(self) -> None:
        """Let a group grow while jobs end faster than commits; an urgent outcome waits only briefly, or not at all."""
        deadline, soon = Deadline(self._within), Deadline(min(self._within, _SOON))
        while True:
            self._gathers = True
            if not self._more_may_come():
                break
            self._hurries = self._hurries or any(outcome.urgent for outcome in _copy(self._buffer))
            left = (soon if self._hurries else deadline).left
            if not left or (self._hurries and not self._many_come_soon()):
                break
            self._changed.wait(left)
        self._gathers = self._hurries = self._flushed = False

    def _more_may_come(self) -> bool:
        if self._stopping or self._flushed or len(self._buffer) >= _GROUP:
            return False
        return self._pool is not None and self._pool.busy

    def _many_come_soon(self) -> bool:
        return self._pool is not None and self._pool.ends_within(_SOON) >= _WORTH_IT

    def _lease_decided(self, group: Sequence[Outcome]) -> bool:
        """Past its lease a node settles nothing until a heartbeat has found out whether the rows are still its own."""
        owner = group[-1].work.lock_owner
        return owner != self._node.owner or self._node.good or self._node.wait_until_decided(owner, 0.2)

    def _commit(self, group: Sequence[Outcome]) -> tuple[list[Outcome], Exception | None]:
        """Write a group; returns the outcomes that could not be written, to be tried again, and the reason."""
        using = self._node.using
        try:
            with self._node.writing:
                waiting = self._write(using, group)
        except Exception as error:
            for outcome in group:
                outcome.in_doubt = True
            if unreachable(using, error):
                return list(group), error
            text = "A group of outcomes could not be written on %s (%s); writing them one by one"
            logger.warning(text, using, one_line(error))
            return self._one_by_one(using, group)
        self._tell([each for each in group if each not in waiting] if waiting else group)
        return waiting, None

    def _write(self, using: str, group: Sequence[Outcome]) -> list[Outcome]:
        """Write a group; returns those that have to wait for others."""
        write(using, group, self.passing_on)
        return []

    def _write_alone(self, using: str, outcome: Outcome) -> bool:
        """Write one outcome; returns whether it is written, and need not wait for others."""
        write_alone(using, outcome)
        return True

    def _one_by_one(self, using: str, group: Sequence[Outcome]) -> tuple[list[Outcome], Exception | None]:
        """An outcome that the database refuses for its content, or for a lock on one row, must not hold up others.

        Except later ones for the same job: releasing a job before its timeout is written would undo the timeout.
        """
        left: list[Outcome] = []
        reason = None
        for index, outcome in enumerate(group):
            if any(each.work.id == outcome.work.id for each in left):
                left = [*left, outcome]
                continue
            try:
                written = self._write_alone(using, outcome)
            except Exception as error:
                left, reason = [*left, outcome], error
                if unreachable(using, error):
                    return [*left, *group[index + 1 :]], reason
            else:
                if written:
                    self._tell([outcome])
                else:
                    left = [*left, outcome]
        return left, reason

    def _tell(self, outcomes: Sequence[Outcome]) -> None:
        self._node.meters.ended(outcomes)
        if any(outcome.failure for outcome in outcomes):
            self._after_failure()
        self.after_outcomes(outcomes)
        self._let_siblings_go_on(outcomes)
        for outcome in outcomes:
            if outcome.run is not None and not outcome.counted:
                with suppress(Exception):
                    _log_uncounted(outcome)
            if outcome.settled is not None:
                outcome.settled.set()

    def _let_siblings_go_on(self, outcomes: Sequence[Outcome]) -> None:
        waiting = [outcome for outcome in outcomes if outcome.siblings]
        if waiting and self._pool is not None:
            self._pool.resume([outcome.siblings for outcome in waiting if outcome.counted and outcome.siblings])
            for outcome in waiting:
                if not outcome.counted and outcome.siblings:
                    # Another node took it over, and with it the process instance; or a commit in doubt settled it, and
                    # then the siblings are still locked by us.
                    for sibling in outcome.siblings:
                        self.submit(Outcome(sibling))
                    self._pool.resume([outcome.siblings], go_on=False)


class SharedSettlement(Settlement):
    """Writes the outcomes with a :class:`~jobexec.handlers.base.SharedEnd`.

    An outcome that has to wait for a row that others hold is tried again and again, and holds up no other.
    """

    #: A context in which created jobs can stay with this node.
    at_home: Callable[[Sequence[Outcome]], AbstractContextManager[object]] = staticmethod(lambda group: nullcontext())
    _rounds = 0
    _started = False

    def start(self) -> None:
        """Its thread starts with the first outcome."""
        self._started = True

    def stop(self, timeout: float) -> bool:
        with self._changed:
            self._started = False
        return super().stop(timeout)

    def submit(self, outcome: Outcome) -> None:
        super().submit(outcome)
        if self._thread is None:
            with self._changed:
                if self._started:
                    super().start()

    @property
    def alive(self) -> bool:
        return self._thread is None or super().alive

    def _put_back(self, left: Sequence[Outcome]) -> None:
        self._buffer.extend(left)

    def _rest(self, nothing_written: bool, give_up: threading.Event) -> None:
        self._rounds = self._rounds + 1 if nothing_written else 0
        if nothing_written:
            give_up.wait(min(_LONGEST_WAIT, _FIRST_WAIT * 2 ** min(self._rounds - 1, 10)))

    def _write(self, using: str, group: Sequence[Outcome]) -> list[Outcome]:
        shared = [outcome for outcome in group if outcome.shared is not None]
        if len(shared) < len(group):  # some have become failures that could not be written yet
            write(using, [outcome for outcome in group if outcome.shared is None])
        if not shared:
            return []
        with self.at_home(shared):
            return write_shared(using, shared)

    def _write_alone(self, using: str, outcome: Outcome) -> bool:
        if outcome.shared is None:
            return super()._write_alone(using, outcome)
        try:
            return not self._write(using, [outcome])
        except Exception as error:
            if is_of_connection(error):
                raise
            if is_conflict(error):
                return False
            fail_after_run(outcome, error)
        return super()._write_alone(using, outcome)


def _copy(outcomes: deque[Outcome]) -> list[Outcome]:
    """A copy of a deque to which other threads append meanwhile."""
    while True:
        with suppress(RuntimeError):  # it was changed during iteration
            return list(outcomes)


def _log_uncounted(outcome: Outcome) -> None:
    extra = log_fields(outcome.work, outcome=outcome.name)
    if outcome.in_doubt:
        text = "Job %s: an earlier attempt to settle it succeeded, or its lock was lost"
        logger.info(text, outcome.work.id, extra=extra)
    else:
        logger.warning("Job %s: its lock was lost; this outcome is discarded", outcome.work.id, extra=extra)
