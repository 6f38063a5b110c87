"""Promotes blocked jobs of one engine, and watches the circuit breakers of their resources."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Collection, Container, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import chain
from uuid import UUID

from jobexec import clock
from jobexec.conf.resources import BreakerProfile
from jobexec.operations.resources.calls import Breakers, counts
from jobexec.operations.resources.limits import cut_off_among
from jobexec.operations.resources.pass_on import is_possible, pass_on
from jobexec.operations.resources.promote import Promotion as Promoted
from jobexec.operations.resources.promote import blocked_resources, promote
from jobexec.operations.settle.complete import Freed
from jobexec.operations.settle.release import release_jobs
from jobexec.operations.sql.errors import is_conflict
from jobexec.operations.values.acquired_job import AcquiredJob

from ...runtime.threads import SELDOM, Loop
from ..nodes.node import Node
from ..run.outcomes import Outcome
from .follow_ups import FollowUps, PermitHome

#: The most jobs of one resource that one transaction promotes.
_PAGE = 500
#: The most permits that the settlement passes on itself.
_FEW = 32
_SHORTLY = 0.02
#: Failures that tell nothing about the resource: the job chose its time, or the handler is not here.
_NEUTRAL = ("snoozed", "interrupted", "cancelled", "unknown", "conflict")


class Promotion(Loop):
    """Gives blocked jobs their permits: when a job has come, a permit was returned, or a rate or a breaker allows it.

    Every node does, without a leader. What a killed process leaves undone is found by the heartbeat of any node.
    """

    keeps_connection = True  # connecting would come between a free permit and the next job

    def __init__(self, node: Node, listening: Callable[[], bool], follow_ups: FollowUps | None = None) -> None:
        super().__init__(f"jobexec-promotion-{node.using}")
        self.node, self._listening, self._follow_ups = node, listening, follow_ups
        self._lock = threading.Lock()
        self._asked: set[str] = set()
        self._everything = True
        self._ended: list[Outcome] = []
        #: When to look at a resource again, by the monotonic clock.
        self._due: dict[str, float] = {}
        #: Resources of which no job may begin now.
        self.cut_off: frozenset[str] = frozenset()
        #: The jobs that this node holds, and what gives back those of these resources that wait for a thread.
        self.in_hand: Callable[[], Iterable[AcquiredJob]] = lambda: ()
        self.withdraw: Callable[[Collection[str]], object] = lambda names: None
        #: Jobs that this node held while none of their resource could begin, by id and revision.
        self._recalled: frozenset[tuple[UUID, int]] = frozenset()
        self.breakers = Breakers(node.settings.resources)
        #: Seconds between two looks where there are no notifications.
        self._patience = node.engine.wait_time.total_seconds()

    def start(self) -> None:
        self._everything = True
        super().start()

    # Called by other threads.

    def ask(self, name: str = "") -> None:
        """Check this resource, or all of them without a name."""
        with self._lock:
            if name:
                self._asked.add(name)
            else:
                self._everything = True
        self.wake()

    @contextmanager
    def passing_on(self, outcomes: Sequence[Outcome]) -> Iterator[Freed | None]:
        """Enter it around the writing of successes; what it yields passes their permits on to jobs for this node.

        None if nothing can be passed on. The permits that are not are left to the loop, and so are those of many jobs:
        these are short, and the next commit need not wait for their promotion.
        """
        names = Counter(each.work.resource for each in outcomes if each.work.resource is not None)
        possible = {name: count for name, count in names.items() if self._passes_on(name)}
        home = self._follow_ups.of_permits() if self._follow_ups is not None and possible else None
        if home is None or sum(possible.values()) > min(_FEW, home.room()):
            yield None
            return
        passed = _Passed(self.node.using, possible, home)
        try:
            yield passed
        except BaseException:
            home.fail()
            raise
        home.arrive(passed.jobs)
        for outcome in outcomes:
            outcome.passed_on = outcome.work.resource in passed.names

    def _passes_on(self, name: str) -> bool:
        known = self.node.settings.resources
        entry = known.covering(name)
        if entry is None or name in self.cut_off:
            return False
        limits = known[entry]
        # A breaker is to judge first. A rate does not depend on what ends.
        return limits.breaker is None and limits.rate is None and is_possible(self.node.using)

    def ended(self, outcomes: Iterable[Outcome]) -> None:
        """These runs are settled, and their permits returned."""
        found = [each for each in outcomes if each.work.resource is not None and not each.passed_on]
        if found:
            with self._lock:
                self._ended += found
            self.wake()

    def lets_begin(self, job: AcquiredJob) -> bool:
        """Whether a job that this node holds may begin, as far as its resource is concerned."""
        return job.resource not in self.cut_off and (job.id, job.revision) not in self._recalled

    @property
    def held(self) -> set[str]:
        """The resources of the jobs that this node holds."""
        return {job.resource for job in self.in_hand() if job.resource is not None}

    # The thread.

    def run_once(self) -> float:
        if not self.node.good:
            return 0.2  # a heartbeat will decide whether this node goes on
        try:
            return self._look()
        except Exception as error:
            self.ask()  # what was asked for must not be lost
            if not is_conflict(error):
                raise
            return _SHORTLY

    def _look(self) -> float:
        freed = self._judge()
        with self._lock:
            names, everything = self._asked | freed, self._everything or not self._listening()
            self._asked, self._everything = set(), False
        now = clock.monotonic()
        names |= {name for name, due in self._due.items() if due <= now}
        if everything:
            names.update(blocked_resources(self.node.using), self.cut_off)
            # The notification that a breaker has been opened may be lost, or none may exist.
            names |= cut_off_among(self.node.using, self.held - names)
        moved = self._promote(names, freed) if names else 0
        longest = self.node.engine.max_wait.total_seconds()
        if moved or names.difference(self.cut_off):
            self._patience = self.node.engine.wait_time.total_seconds()
        else:
            self._patience = min(longest, self._patience * self.node.engine.wait_increase_factor)
        return self._wait()

    def _promote(self, names: set[str], freed: set[str]) -> int:
        using = self.node.using
        # Before trial calls are let through: what came after the last look would be more of them.
        self._recall(self.cut_off & names)
        result = self._promoted(names, freed)
        self.cut_off = (self.cut_off - names) | result.cut_off
        self._recall(result.cut_off)
        now = clock.now(using)
        for name in names:
            self._due.pop(name, None)
        for name, moment in result.again.items():
            wait = 0.0 if moment is None else max(0.0, (moment - now).total_seconds())
            self._due[name] = clock.monotonic() + wait
        return result.moved

    def _recall(self, names: Collection[str]) -> None:
        """Let no job that is here now begin any more with the permit that it has."""
        if names or self._recalled:
            here = {(job.id, job.revision): job.resource for job in self.in_hand()}
            self._recalled = frozenset(job for job, name in here.items() if name in names or job in self._recalled)
        if names:
            self.withdraw(names)

    def _promoted(self, names: set[str], freed: set[str]) -> Promoted:
        home = self._follow_ups.of_permits() if self._follow_ups is not None else None
        try:
            with self.node.writing:
                result = promote(self.node.using, names, _PAGE, freed, home)
        except BaseException:
            if home is not None:
                home.fail()
            raise
        if home is not None:
            home.arrive(result.kept)
        return result

    def _wait(self) -> float:
        # The heartbeat sees what a lost notification would have announced.
        longest = SELDOM if self._listening() else self._patience
        return max(0.0, min([longest, *(due - clock.monotonic() for due in self._due.values())]))

    def _judge(self) -> set[str]:
        """Pass the runs that have ended to the breakers; returns the resources whose permits were returned."""
        using = self.node.using
        with self._lock:
            ended, self._ended = self._ended, []
        self.breakers.judge(using, told(ended, self.breakers))
        return {outcome.work.resource for outcome in ended if outcome.work.resource is not None}


class _Passed:
    """The permits that one transaction passes on: called before its end."""

    def __init__(self, using: str, possible: Container[str], home: PermitHome) -> None:
        self._using, self._possible, self._home = using, possible, home
        #: The resources of which all permits are passed on, and the jobs of this node that have got them.
        self.names, self.jobs = set[str](), list[AcquiredJob]()

    def __call__(self, freed: Mapping[str, int]) -> None:
        wanted = {name: count for name, count in freed.items() if name in self._possible}
        if not wanted:
            return
        self.jobs, others = pass_on(self._using, wanted, self._home)
        if others:
            release_jobs(self._using, others)
        moved = Counter(job.resource for job in chain(self.jobs, others))
        self.names = {name for name, count in wanted.items() if count == moved[name]}


def told(outcomes: Iterable[Outcome], breakers: Breakers) -> dict[str, list[str]]:
    """The calls in these outcomes that count, by resource: '' for a success, or the reason of a failure."""
    found: dict[str, list[str]] = {}
    for outcome in outcomes:
        name = outcome.work.resource or ""
        profile = breakers.profile_of(name)
        if profile is not None and (call := call_of(outcome, profile)) is not None:
            found.setdefault(name, []).append(call)
    return found


def call_of(outcome: Outcome, profile: BreakerProfile) -> str | None:
    """'' for a call that succeeded, the reason for one that failed; None for one that does not count."""
    run, failure = outcome.run, outcome.failure
    if run is None or not outcome.began or (failure is not None and failure.kind in _NEUTRAL):
        return None
    if failure is not None and counts(_names(failure.error), profile):
        return failure.message.partition("\n")[0] or "an error without a message"
    if profile.slow_call is not None and run.duration > profile.slow_call.total_seconds():
        return f"a call that took {run.duration:.1f} seconds"
    return ""


def _names(error: BaseException | None) -> set[str]:
    return {f"{kind.__module__}.{kind.__qualname__}" for kind in type(error).__mro__}
