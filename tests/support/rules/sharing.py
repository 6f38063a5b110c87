"""Rules for random schedules of operations on jobs that share resources; and what must hold of their permits."""

from collections import defaultdict
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from hypothesis import strategies as st
from hypothesis.stateful import invariant, rule

from jobexec.conf import get_settings
from jobexec.exceptions import JobLocked, JobNotFound, JobStateError
from jobexec.executor.execute_now import execute
from jobexec.models import BlockedJob, BreakerState, Job, Resource
from jobexec.operations import (
    activate,
    hold_resource,
    move_to_dead_letter,
    release_resource,
    requeue,
    retry_now,
    set_due_date,
    set_resource_limits,
    suspend,
)
from jobexec.operations.resources.calls import Breakers
from jobexec.operations.resources.promote import blocked_resources, promote
from jobexec.operations.values.acquired_job import AcquiredJob

LIMITS: dict[str, int | None] = {"two": 2, "customer:*": 1, "spread": None, "frail": None}
RESOURCES = {
    "two": {"limit": LIMITS["two"]},
    "customer:*": {"limit": LIMITS["customer:*"]},
    "spread": {"rate": "3/PT30S"},
    "frail": {"breaker": {"minimum_calls": 2, "window": 4, "wait": "PT15S", "trial_calls": 2}},
}
TRIALS = 2
COUNT, PERIOD = 3, timedelta(seconds=30)
ENDLESS = float("inf")
limited = st.sampled_from(["two", "customer:a"])
resources = st.sampled_from([None, None, None, "two", "two", "customer:a", "customer:b", "spread", "frail"])


class Sharing:
    """A part of a state machine, which has `alias`, `clock`, `hands`, `pick()`, `held()` and the like."""

    alias: str
    clock: Any

    def __init__(self) -> None:
        super().__init__()
        self.permits: dict[str, set[UUID]] = defaultdict(set)
        self.limits: dict[str, int | None] = {}
        self.granted: list[datetime] = []
        self.open: dict[str, datetime | None] = {}
        self.shared: list[UUID] = []
        self.breakers = Breakers(get_settings().resources)

    def pick_shared(self, index: int) -> UUID:
        return self.shared[index % len(self.shared)]

    def now_permitted(self) -> dict[str, set[UUID]]:
        found: dict[str, set[UUID]] = defaultdict(set)
        for pk, name in Job.objects.using(self.alias).exclude(resource=None).values_list("pk", "resource"):
            found[str(name)].add(pk)
        return found

    def judge(self, job: AcquiredJob, failure: str = "") -> None:
        """The outcome of a run is written, and counts for a breaker."""
        if job.resource is not None:
            self.breakers.judge(self.alias, {job.resource: [failure]})

    def breaker(self) -> Resource:
        return Resource.objects.using(self.alias).filter(pk="frail").first() or Resource(name="frail")

    def limit_of(self, name: str) -> float:
        if name == "frail":
            row = self.breaker()
            return ENDLESS if row.breaker_state == BreakerState.CLOSED else TRIALS - row.trials
        entry = "customer:*" if name.startswith("customer:") else name
        for found in (self.limits.get(name), self.limits.get(entry), LIMITS[entry]):
            if found is not None:
                return found or ENDLESS
        return ENDLESS

    def is_open(self, name: str) -> bool:
        if name == "frail":
            row = self.breaker()
            return row.breaker_state == BreakerState.OPEN and (row.trial_time or self.clock.now) > self.clock.now
        until = self.open.get(name)
        return name in self.open and (until is None or until > self.clock.now)

    def check_new_permits(self) -> None:
        """After something that may give permits: no more than the limit, or than there were, and none too soon."""
        for name, found in self.now_permitted().items():
            new = found - self.permits[name]
            assert not new or len(found) <= self.limit_of(name), f"{len(found)} permits of {name}"
            assert not (new and self.is_open(name)), f"a permit of {name}, which is held open"
            if name == "spread":
                self.granted += [self.clock.now] * len(new)
            self.permits[name] = found
        for first, last in zip(self.granted, self.granted[COUNT:], strict=False):
            assert last - first >= PERIOD, "more permits than the rate allows"

    @rule(limit=st.sampled_from([100, 100, 1]))
    def promote(self, limit: int) -> None:
        """All nodes look at once, until there is nothing to give."""
        while self.look(limit):
            pass

    def look(self, limit: int) -> int:
        before = BlockedJob.objects.using(self.alias).count()
        moved = promote(self.alias, blocked_resources(self.alias), limit).moved
        assert moved == before - BlockedJob.objects.using(self.alias).count()
        self.check_new_permits()
        return moved

    @rule(index=st.integers(0, 50), any_of_them=st.booleans(), success=st.booleans())
    def execute_one(self, index: int, any_of_them: bool, success: bool) -> None:
        try:
            job = execute(self.pick(index) if any_of_them else self.pick_shared(index), self.alias, "by hand")
        except (JobLocked, JobNotFound, JobStateError):
            return
        self.check_new_permits()
        if success:
            self.complete(job)
        else:
            self.fail(job)

    @rule(name=st.sampled_from(["two", "customer:*", "customer:a"]), limit=st.sampled_from([None, 0, 1, 3]))
    def limit_a_resource(self, name: str, limit: int | None) -> None:
        set_resource_limits(name, limit=limit, using=self.alias)
        self.limits[name] = limit

    @rule(name=limited, on=st.booleans(), ahead=st.sampled_from([None, 15]))
    def hold_a_resource(self, name: str, on: bool, ahead: int | None) -> None:
        if on:
            self.open.pop(name, None)
            release_resource(name, using=self.alias)
            return
        self.open[name] = self.clock.now + timedelta(seconds=ahead) if ahead else None
        hold_resource(name, until=self.open[name], using=self.alias)
        assert self.now_permitted()[name] <= self.held(), "a job that has not begun keeps its permit"

    @rule(name=resources.filter(bool), count=st.integers(1, 4))
    def share(self, name: str, count: int) -> None:
        for _ in range(count):
            self.create("", False, 0, 0, name)

    @rule(index=st.integers(0, 20), seconds=st.sampled_from([-5, 5, 60]))
    def put_off(self, index: int, seconds: int) -> None:
        set_due_date(self.pick_shared(index), self.clock.now + timedelta(seconds=seconds), using=self.alias)

    @rule(index=st.integers(0, 20), verb=st.sampled_from([move_to_dead_letter, suspend, activate, requeue, retry_now]))
    def adjust_a_shared_one(self, index: int, verb: Any) -> None:
        verb(self.pick_shared(index), using=self.alias)

    @rule(index=st.integers(0, 20), verbs=st.sampled_from([(move_to_dead_letter, requeue), (suspend, activate)]))
    def there_and_back(self, index: int, verbs: Any) -> None:
        for verb in verbs:
            verb(self.pick_shared(index), using=self.alias)

    @invariant()
    def permits_are_given_by_promotion_alone(self) -> None:
        found = self.now_permitted()
        for name in found.keys() | self.permits.keys():
            assert found[name] <= self.permits[name], f"permits of {name} that nobody gave"
            self.permits[name] = found[name]
        rows = BlockedJob.objects.using(self.alias)
        assert not rows.filter(resource=None, waits_for=None).exists(), "blocked by nothing"

    def run_to_the_end(self) -> None:
        """Nothing is held back for ever: whatever has happened, all that may run comes to run."""
        for name in list(self.open):
            release_resource(name, using=self.alias)
        self.open.clear()
        for _ in range(200):
            self.go_on()
            if self.is_at_rest():
                break
        left = BlockedJob.objects.using(self.alias).filter(waits_for=None)
        assert not left.exists(), f"blocked for ever: {list(left.values_list('resource', 'due_date'))}"

    def go_on(self, seconds: int = 60) -> None:
        """A round of everything that the nodes do, after a while."""
        self.tick(seconds)
        self.look_at_all_that_waits()
        self.run_all()

    def look_at_all_that_waits(self) -> None:
        self.promote(100)

    def is_at_rest(self) -> bool:
        blocked = BlockedJob.objects.using(self.alias).filter(waits_for=None)
        return not (blocked.exists() or Job.objects.using(self.alias).exists())
