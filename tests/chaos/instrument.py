"""What a node tells the journal beside its runs, what is wrong with its clock, and which guard it lacks."""

import os
from collections.abc import Callable
from datetime import datetime, timedelta, tzinfo
from functools import partial, wraps
from typing import Any

from jobexec import clock, signals
from jobexec.executor.loops import settlement
from jobexec.executor.loops.follow_ups import FollowUps
from jobexec.executor.run.outcomes import PassingOn
from jobexec.handlers.schedules import HandlerJobs
from jobexec.operations.enqueue.create import Pattern
from jobexec.operations.nodes import leases
from jobexec.operations.resources import calls

from . import breaks
from .journal import Journal, now


def install(journal: Journal) -> None:
    """Called once in every node, before it starts."""
    shift, broken = float(os.environ.get("JOBEXEC_CHAOS_SHIFT", "0")), os.environ.get("JOBEXEC_CHAOS_BREAK", "")
    journal.write("process", shift=shift, broken=broken)
    if shift:
        clock.datetime = _shifted(timedelta(seconds=shift))  # type: ignore[misc]
    if broken:
        breaks.GUARDS[broken]()
    _tell_leases(journal)
    _tell_settlement(journal)
    _tell_follow_ups(journal)
    _tell_events(journal)
    _tell_breakers(journal)
    tell_schedules(journal)


def _of_people(job: Any) -> bool:
    """Whether people have enqueued it: those of batches and of the history tell no runs."""
    return str(job.handler_type).startswith("tests.chaos.")


def _shifted(by: timedelta) -> type[datetime]:
    """What the clock module takes for the wall clock."""

    class Shifted(datetime):
        @classmethod
        def now(cls, tz: tzinfo | None = None) -> datetime:  # type: ignore[override]
            return datetime.now(tz) + by

    return Shifted


def _tell_leases(journal: Journal) -> None:
    """A lease is told before the node itself believes in it, and starts when the database was asked."""

    def lease(owner: str, start: float, length: timedelta) -> None:
        journal.write("lease", owner=owner, start=start, until=start + length.total_seconds())

    register, renew = leases.register_node, leases.renew_lease

    @wraps(register)
    def register_node(using: str, profile: Any, lease_time: timedelta, **rest: Any) -> Any:
        start = now()
        row = register(using, profile, lease_time, **rest)
        lease(row.lock_owner, start, lease_time)
        return row

    @wraps(renew)
    def renew_lease(using: str, node: Any, lease_time: timedelta, **load: Any) -> Any:
        start = now()
        renewed = renew(using, node, lease_time, **load)
        if renewed:
            lease(node.lock_owner, start, lease_time)
        return renewed

    leases.register_node, leases.renew_lease = register_node, renew_lease


def _tell_settlement(journal: Journal) -> None:
    """Before outcomes are written, for what begins before that line begins before the commit."""
    write = settlement.write

    @wraps(write)
    def told(using: str, outcomes: Any, passing_on: PassingOn | None = None) -> None:
        ran = [outcome.work for outcome in outcomes if outcome.run and _of_people(outcome.work)]
        runs = [[work.id, work.attempts + 1] for work in ran]
        journal.write("settling", runs=runs)
        write(using, outcomes, passing_on)

    settlement.write = told


def _tell_follow_ups(journal: Journal) -> None:
    """Jobs that stay with this node, before it has them."""
    arrive = FollowUps.arrive

    @wraps(arrive)
    def told(self: FollowUps, followers: Any, jobs: Any) -> None:
        journal.write("stays", jobs=[job.id for job in jobs])
        arrive(self, followers, jobs)

    FollowUps.arrive = told  # type: ignore[method-assign]


def _tell_breakers(journal: Journal) -> None:
    """The lines before and after a breaker is opened, or perhaps closed, for the whole cluster."""

    def told(deed: str, function: Callable[..., bool]) -> Callable[..., bool]:
        @wraps(function)
        def call(using: str, name: str, *rest: Any) -> bool:
            journal.write(f"breaker-{deed}s", resource=name)
            done = function(using, name, *rest)
            journal.write(f"breaker-{deed}ed", resource=name, done=done)
            return done

        return call

    calls.open_breaker = told("open", calls.open_breaker)
    calls.count_trials = told("count", calls.count_trials)


def tell_created(tell: Callable[[Any], None]) -> None:
    """Call this with each row that is inserted, in the transaction that inserts it if that has more to do."""
    create, create_many = Pattern.create, Pattern.create_many

    @wraps(create)
    def told(self: Pattern, *args: Any, **kwargs: Any) -> Any:
        row = create(self, *args, **kwargs)
        tell(row)
        return row

    @wraps(create_many)
    def told_many(self: Pattern, *args: Any, **kwargs: Any) -> Any:
        rows = create_many(self, *args, **kwargs)
        for row in rows:
            tell(row)
        return rows

    Pattern.create, Pattern.create_many = told, told_many  # type: ignore[method-assign]


def tell_schedules(journal: Journal) -> None:
    """Each job that a schedule makes, before its commit. Whether it came to that is in the table of firings."""
    enqueue = HandlerJobs.enqueue

    @wraps(enqueue)
    def told(self: HandlerJobs, using: str, handler: str, configuration: Any, options: Any, due_date: datetime) -> Any:
        row = enqueue(self, using, handler, configuration, options, due_date)
        columns = {"instance": "", "exclusive": row.exclusive, "atomic": row.atomic, "retries": row.retries}
        job = {"id": row.pk, "kind": "scheduled", "tenant": "", **columns}
        journal.write("creating", jobs=[job], scheduled_for=due_date.timestamp())
        return row

    HandlerJobs.enqueue = told  # type: ignore[method-assign,assignment]


_receivers: list[Callable[..., object]] = []  # signals hold them weakly


def _on(signal: Any, tell: Callable[..., object]) -> None:
    _receivers.append(tell)
    signal.connect(tell)


def _tell_outcome(journal: Journal, job: Any, attempt: int, result: str, **more: Any) -> None:
    if _of_people(job):
        journal.write("outcome", job=job.id, attempt=attempt, result=result, **more)


def _tell_events(journal: Journal) -> None:
    outcome = partial(_tell_outcome, journal)

    def completed(jobs: Any, **kwargs: Any) -> None:
        for work in jobs:
            outcome(work, work.attempts + 1, "done", owner=work.lock_owner)

    def failed(job: Any, error: Any, **kwargs: Any) -> None:
        outcome(job, job.attempts, "failed", error=type(error).__name__)

    def dead(job: Any, error: Any, **kwargs: Any) -> None:
        outcome(job, job.attempts, "dead", error=type(error).__name__)

    def cancelled(jobs: Any, **kwargs: Any) -> None:
        for job in jobs:
            outcome(job, 0, "cancelled")

    _on(signals.job_completed, completed)
    _on(signals.job_cancelled, cancelled)
    _on(signals.job_failed, failed)
    _on(signals.job_dead_lettered, dead)
    _on(signals.node_lost, lambda node, **kwargs: journal.write("declared", owner=node.lock_owner))
    _on(signals.node_stopped, lambda node, **kwargs: journal.write("left", owner=node.lock_owner))
