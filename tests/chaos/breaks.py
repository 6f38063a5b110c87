"""Guards of jobexec, taken away on purpose in the nodes: the judge must notice each.

These replace functions of jobexec in processes of the tests; jobexec itself has no such switch.
"""

import json
import time
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

from jobexec import clock
from jobexec.executor import job_executor
from jobexec.executor.loops import promotion, recovery
from jobexec.executor.loops.follow_ups import FollowUps
from jobexec.executor.nodes import node
from jobexec.executor.run import execution
from jobexec.models import ExecutorNode, Job, NodeState, ResultStatus, ScheduleFiring
from jobexec.operations.acquire import acquire
from jobexec.operations.acquire import candidates as page
from jobexec.operations.enqueue import unique, unique_keys
from jobexec.operations.history import task_rows
from jobexec.operations.messages import deliver, publish
from jobexec.operations.resources import promote
from jobexec.operations.rows import tallies
from jobexec.operations.rows.exclusive import unlock_instances
from jobexec.operations.schedules import firing as schedule_firing
from jobexec.operations.settle import complete, fail, recover
from jobexec.operations.sql.locks import atomic, lock_rows
from jobexec.processes.engine import boundary, step, triggers
from jobexec.processes.handlers import steps
from jobexec.processes.models import Execution, ProcessInstance
from jobexec.processes.models.instance import RUNNING
from jobexec.processes.store import lock


def fencing() -> None:
    """A settlement takes any row for its own, whoever holds it meanwhile."""

    def still_ours(using: str, owner: str, jobs: Iterable[Any]) -> set[Any]:
        rows = lock_rows(Job.objects.using(using).filter(pk__in=[job.id for job in jobs]).order_by("pk"))
        return set(rows.values_list("pk", flat=True))

    def lock_ours(using: str, jobs: Iterable[Any]) -> dict[Any, Job]:
        # Under the names of the acquisitions that are to be settled, whatever the rows say now.
        rows = lock_rows(Job.objects.using(using).filter(pk__in=[job.id for job in jobs]).order_by("pk"))
        found = {row.pk: row for row in rows}
        return {(job.id, job.lock_owner, job.revision): found[job.id] for job in jobs if job.id in found}

    complete.returns_rows = lambda using: False  # the statement that looks and deletes at once cannot be broken
    complete._may_roll_back = lambda using, jobs: False  # nor can that which deletes all or nothing
    complete.can_log_runs = lambda using: False
    complete._still_ours = still_ours
    fail._lock_ours = lock_ours


def atomic_fence() -> None:
    """An atomic job commits although its row is no longer its own."""
    complete = execution.complete_alone

    def complete_alone(outcome: Any, run: Any) -> bool:
        complete(outcome, run)
        return True

    execution.complete_alone = complete_alone


def lock_row() -> None:
    """No lock of a process instance is looked at or taken."""
    page.has_statements = lambda request: False  # the statement that looks at the locks cannot be broken
    page.without_locked_instances = lambda queryset: queryset
    acquire.lock_instances = lambda using, owner, instances: set(instances)


def lease() -> None:
    """A node past its lease goes on as if it were good."""
    node.Node.good = property(lambda self: self._row is not None)  # type: ignore[method-assign,assignment]
    node.Node.owns = lambda self, lock_owner: lock_owner == self.owner  # type: ignore[method-assign]


def turn() -> None:
    """A page passes over a sibling that somebody just locks, and takes those behind it."""
    acquire.out_of_turn = lambda request, page: set()


def judging() -> None:
    """Who was cut off itself declares others dead as soon as it is back."""
    node.Node.may_judge = property(lambda self: True)  # type: ignore[method-assign,assignment]


def recover_living() -> None:
    """Recovery takes the jobs of nodes that live."""

    def declare_dead(using: str, *, but: str = "") -> list[Any]:
        nodes = ExecutorNode.objects.using(using)
        nodes.exclude(lock_owner=but).update(state=NodeState.DEAD)
        return list(nodes.filter(state=NodeState.DEAD))

    recovery.declare_dead = declare_dead


def sibling_commit() -> None:
    """A sibling starts while the outcome of the one before it still waits to be committed."""

    def settle_later(self: Any, outcome: Any, siblings: Any) -> None:
        self.submit(outcome)
        self.pool.park(siblings)
        self.pool.resume([siblings])

    job_executor.JobExecutor.settle_before = settle_later  # type: ignore[method-assign]


def lost_run_charge() -> None:
    """Every lost run costs a retry."""

    def release_page(using: str, condition: Any, node_name: str, charged: Any) -> int:
        with atomic(using):
            rows = list(lock_rows(Job.objects.using(using).filter(condition), skip_locked=True)[:200])
            for row in rows:
                owner = row.lock_owner or ""
                recover._charge(using, row, node_name, charged)
                unlock_instances(using, owner, {row.serial_key} - {""})
        return len(rows)

    recover._release_page = release_page


def schedule_row() -> None:
    """Nodes that meet a schedule which is due do not wait for each other, and a firing that is noted is no matter."""
    schedule_firing.lock_rows = lambda rows, **how: rows

    def make(using: str, jobs: Any, row: Any, times: Any) -> int:
        for moment in times.fire:
            job = jobs.enqueue(using, row.handler_type, row.handler_configuration, row.options, moment)
            firing = ScheduleFiring(schedule_id=row.pk, fire_time=moment, job_id=job.pk)
            ScheduleFiring.objects.using(using).bulk_create([firing], ignore_conflicts=True)
        return len(times.fire)

    schedule_firing._make = make


def unique_key() -> None:
    """Whoever has seen that a key is free takes it, without another look when its row is locked."""

    def take_over(self: Any) -> None:
        rows = {holder.row: self.open.pop(key) for key, holder in self._seen.items()}
        if rows:
            unique_keys.hand_over(self.using, rows, self._expiration)

    unique.Claim._take_over = take_over  # type: ignore[method-assign]


def task_fence() -> None:
    """What a task returned is kept although its job is no longer ours."""

    def delete_and_keep(using: str, owner: str, jobs: Any, runs: Any, results: Any, counted: bool) -> set[Any]:
        with atomic(using):
            rows = list(lock_rows(Job.objects.using(using).filter(pk__in=results).order_by("pk")))
            ours = complete._still_ours(using, owner, jobs)
            complete._write_successes(using, owner, [job for job in jobs if job.id in ours], runs)
            done = ResultStatus.SUCCESSFUL
            ends = {
                pk: task_rows.End(done, clock.now(using), run, (), json.loads(results[pk].text))
                for pk, run in runs.items()
            }
            task_rows.write_ends(using, rows, ends)
            Job.objects.using(using).filter(pk__in=ours).delete()
        return {job.id for job in jobs} - ours

    complete._delete_and_keep = delete_and_keep


def resource_row() -> None:
    """Nodes that look for permits of a resource at the same moment do not wait for each other."""

    def resources(using: str, names: Any) -> tuple[dict[str, Any], Counter[str]]:
        known = promote._rows(using, names)
        missing = [promote._new(name) for name in sorted(names) if name not in known]
        if missing:
            promote.insert_missing(using, promote.Resource, missing)
        return promote._rows(using, names), promote.in_use(using, names)

    promote._locked = resources


def rate() -> None:
    """A permit that was taken does not put off the next one."""
    promote.permit_time_after = lambda row, rate, taken, now: now


def root_lock() -> None:
    """Steps of one process instance do not wait for each other."""
    lock.lock_rows = lambda rows, **how: rows
    lock._locked_row = lambda using, root, **how: ProcessInstance.objects.using(using).filter(pk=root).first()


def token_check() -> None:
    """A timer fires wherever its token has gone meanwhile."""
    at_token = triggers._at_token

    def anywhere(moves: Any, token: Any, node: Any, variables: Any) -> bool:
        if node.attached_to is None:
            return at_token(moves, token, node, variables)
        boundary.fire(moves, token, node, variables)
        return True

    def trigger(moves: Any, owner: Any, element: str, activity: Any, variables: Any) -> bool:
        place = moves.rows.find(owner)
        return place is not None and anywhere(moves, place, moves.process(place).node(element), variables)

    step.triggers.trigger = trigger  # type: ignore[assignment]


def job_check() -> None:
    """A job whose step is committed already takes the job that its token waits for now for itself.

    Each step is taken alone: together with others, a step and the end of its job are one transaction.
    """

    def token_with_job(moves: Any, token: Any, job: Any, *states: Any) -> Any:
        found = moves.rows.token(token)
        return found if found is not None and found.state in states else None

    def waiting(context: Any, job: Any = None) -> Any:
        rows = Execution.objects.using(context.using).filter(pk=context.job.execution_id)
        row = rows.values_list("root_id", "pk", "activity_id").first()
        if row is None or row[2] is None:
            return None
        return steps._Waiting(row[0], row[1], row[2], definition="")

    step._token_with_job = token_with_job
    steps._waiting = waiting


def shared_lock() -> None:
    """Steps that are written together do not lock their process instances."""

    def not_locked(using: str, roots: Any) -> tuple[dict[Any, ProcessInstance], set[Any]]:
        rows = ProcessInstance.objects.using(using).filter(pk__in=set(roots), state__in=RUNNING)
        found = {row.pk: row for row in rows}
        # Widens the gap that the lock closes: the steps of a group are so short that they would seldom meet in it.
        time.sleep(0.05)
        return found, set()

    lock.locked_now = not_locked


def shared_busy() -> None:
    """A job is over although its step was left, because another transaction had locked the process instance."""
    proceed_together = steps.proceed_together

    def none_waits(using: str, ends: Any) -> set[Any]:
        proceed_together(using, ends)
        return set()

    steps.proceed_together = none_waits


def shared_job() -> None:
    """A result that is written together with others is taken by whatever job its token waits for now."""

    def token_with_job(moves: Any, token: Any, job: Any, *states: Any) -> Any:
        found = moves.rows.token(token)
        return found if found is not None and found.state in states else None

    step._token_with_job = token_with_job


def message_look() -> None:
    """Nobody looks for the messages that are kept, or still to come, for a job that begins or ends to wait."""
    deliver._messages_of = lambda using, ids, **how: dict.fromkeys(ids)


def message_id() -> None:
    """A message is inserted whatever its id."""
    insert = publish._insert

    def blindly(using: str, row: Any, now: Any) -> Any:
        row.message_id = None
        return insert(using, row, now)

    publish._insert = blindly


def tally() -> None:
    """Dead letters are not counted in their batches."""
    count = tallies.count

    def count_others(using: str, sizes: Any, **factors: int) -> None:
        if "failed" not in factors:
            count(using, sizes, **factors)

    tallies.count = count_others


def tally_fence() -> None:
    """A child of a batch is counted as completed although its job is no longer ours."""

    def delete(using: str, owner: str, jobs: Any, runs: Any, results: Any) -> set[Any]:
        with atomic(using):
            lost = complete._delete_plain(using, owner, jobs, runs, results)
            tallies.count(using, tallies.batches_of(jobs), completed=1)
        return lost

    complete._delete = delete


def permit_count() -> None:
    """Permits that are taken are not counted."""
    locked = promote._locked
    promote._locked = lambda using, names: (locked(using, names)[0], Counter())


def cut_off() -> None:
    """A node begins what it holds, although it knows that no job of that resource may begin."""
    promotion.Promotion._recall = lambda self, names: None  # type: ignore[method-assign]
    promotion.Promotion.lets_begin = lambda self, job: True  # type: ignore[method-assign]


def trial() -> None:
    """When the time for trial calls has come, a breaker lets everything through."""
    room_of = promote.room_of

    def as_closed(row: Any, limits: Any, used: int, now: Any) -> Any:
        over = row.trial_time is not None and row.trial_time <= now
        return room_of(row, replace(limits, breaker=None) if over else limits, used, now)

    promote.room_of = as_closed


def follow_up() -> None:
    """A job of the same process instance does not wait for the one that has enqueued it."""
    committed = FollowUps._committed

    def of_no_instance(self: FollowUps, jobs: Any) -> Any:
        run, back = committed(self, jobs)
        for job in run:
            job.exclusive = False
        return run, back

    FollowUps._committed = of_no_instance  # type: ignore[method-assign]


GUARDS: dict[str, Callable[[], None]] = {
    "fencing": fencing,
    "atomic-fence": atomic_fence,
    "lock-row": lock_row,
    "lease": lease,
    "turn": turn,
    "judging": judging,
    "recover-living": recover_living,
    "sibling-commit": sibling_commit,
    "lost-run-charge": lost_run_charge,
    "schedule-row": schedule_row,
    "unique-key": unique_key,
    "task-fence": task_fence,
    "resource-row": resource_row,
    "rate": rate,
    "root-lock": root_lock,
    "token-check": token_check,
    "job-check": job_check,
    "shared-lock": shared_lock,
    "shared-busy": shared_busy,
    "shared-job": shared_job,
    "message-look": message_look,
    "message-id": message_id,
    "tally": tally,
    "tally-fence": tally_fence,
    "permit-count": permit_count,
    "cut-off": cut_off,
    "trial": trial,
    "follow-up": follow_up,
}
