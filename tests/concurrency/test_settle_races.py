"""An outcome against recovery, moves against moves, timers of two nodes, look-ups during moves."""

from collections import Counter
from datetime import timedelta
from functools import partial

import pytest

from jobexec import clock
from jobexec.models import JOB_TABLES, DeadLetterJob, ExclusiveLock, ExecutorNode, Job, JobLog, SuspendedJob, TimerJob
from jobexec.operations import (
    cancel,
    complete_jobs,
    delete_jobs,
    fail_job,
    find_job,
    find_states,
    recover_node,
    release_jobs,
    set_priority,
    trigger_due_timers,
)
from jobexec.operations.nodes.leases import Renewal, declare_dead, renew_lease
from jobexec.operations.rows.move import move
from jobexec.operations.settle.recover import release_strays
from tests.support.factories import a_failure, a_run, acquire, make_job, make_node, make_row, tables_of, work
from tests.support.threads import finish, held, start, together, undo, wait_until_waiting

pytestmark = pytest.mark.transactional
servers = pytest.mark.databases("postgresql", "mariadb")


def dead_node_with_jobs(alias, count=2):
    node = make_node(alias)
    for _ in range(count):
        make_job(alias, process_instance_id="p")
    jobs = acquire(alias, node.lock_owner)
    ExecutorNode.objects.using(alias).update(lease_expiration_time=clock.now(alias) - timedelta(seconds=1))
    assert declare_dead(alias) == [node]
    return node, jobs


@servers
def test_recovery_passes_over_what_is_just_being_settled(alias):
    node, (first, second) = dead_node_with_jobs(alias)
    with held(alias) as inside:
        assert inside(lambda: complete_jobs(alias, [(first, a_run(alias))])) == {first.id}
        assert finish(start(alias, lambda: recover_node(alias, node))) == 1
        assert ExecutorNode.objects.using(alias).exists(), "its row goes last"
        assert ExclusiveLock.objects.using(alias).exists(), "so does what it excludes"
    assert tables_of(alias) == {second.id: [Job]}, "the outcome came in time, and counted"
    assert recover_node(alias, node) == 0
    assert not ExecutorNode.objects.using(alias).exists()
    assert not ExclusiveLock.objects.using(alias).exists()


@servers
@pytest.mark.parametrize("outcome", ["complete", "fail", "release"])
def test_a_late_outcome_waits_for_recovery_and_does_not_count(alias, outcome):
    node, (first, second) = dead_node_with_jobs(alias)
    settle = {
        "complete": lambda: complete_jobs(alias, [(first, a_run(alias))]),
        "fail": lambda: fail_job(alias, first, a_failure(), a_run(alias)),
        "release": lambda: release_jobs(alias, [first]),
    }[outcome]
    with held(alias) as inside:
        assert inside(lambda: recover_node(alias, node)) == 2
        late = start(alias, settle)
        wait_until_waiting(alias, late)
    assert not finish(late)
    assert tables_of(alias) == {first.id: [Job], second.id: [Job]}
    row = Job.objects.using(alias).get(pk=first.id)
    assert (row.lost_runs, row.attempts, row.lock_owner) == (1, 0, None)


@servers
@pytest.mark.parametrize("first_to_begin", ["end", "release", "stray"])
def test_a_release_beside_the_end_of_a_sibling_frees_the_process_instance(alias, first_to_begin):
    """Each would find the other's job still locked, and leave the instance to it: locked for ever.

    Two threads of a node can do that: one commits an atomic job or a step, another gives back a follow-up.
    """
    rows = [make_job(alias, process_instance_id="p") for _ in range(2)]
    done, back = acquire(alias, "node")
    end = lambda: complete_jobs(alias, [(done, a_run(alias))])  # noqa: E731
    release = {
        "end": lambda: release_jobs(alias, [back]),
        "release": lambda: release_jobs(alias, [back]),
        "stray": lambda: release_strays(alias, "node", lambda: [done]),
    }[first_to_begin]
    first, second = (end, release) if first_to_begin == "end" else (release, end)
    with held(alias) as inside:
        inside(first)
        late = start(alias, second)
        wait_until_waiting(alias, late)
    finish(late)
    assert tables_of(alias) == {rows[1].pk: [Job]}
    assert not ExclusiveLock.objects.using(alias).exists()
    assert [job.id for job in acquire(alias, "node")] == [back.id]


@servers
def test_two_recoveries_count_a_lost_run_once(alias):
    node, jobs = dead_node_with_jobs(alias, 12)
    counts = together(alias, *[lambda: recover_node(alias, node)] * 3)
    assert sum(counts) == 12
    recover_node(alias, node)
    rows = Job.objects.using(alias).values_list("lost_runs", "lock_owner", "revision")
    assert set(rows) == {(1, None, jobs[0].revision + 1)}
    assert not ExecutorNode.objects.using(alias).exists()


@servers
@pytest.mark.parametrize("first", ["heartbeat", "declaration"])
def test_of_a_heartbeat_and_a_declaration_of_death_one_wins(alias, first):
    node = make_node(alias)
    ExecutorNode.objects.using(alias).update(lease_expiration_time=clock.now(alias) - timedelta(seconds=1))
    verbs = [lambda: renew_lease(alias, node, timedelta(seconds=30)), lambda: declare_dead(alias)]
    now, then = verbs if first == "heartbeat" else reversed(verbs)
    with held(alias) as inside:
        won = inside(now)
        loser = start(alias, then)
        wait_until_waiting(alias, loser)
    lost = finish(loser)
    assert (won, lost) == ((Renewal(), []) if first == "heartbeat" else ([node], None))


@servers
@pytest.mark.parametrize("end", ["commit", "rollback"])
def test_the_second_mover_passes_over_the_row(alias, end):
    row = make_job(alias)
    with held(alias) as inside:
        inside(lambda: move(row, TimerJob, due_date=clock.now(alias)))
        assert finish(start(alias, lambda: move(row, DeadLetterJob))) is None
        if end == "rollback":
            inside(undo)
    assert tables_of(alias) == {row.pk: [TimerJob if end == "commit" else Job]}


def test_of_many_movers_one_wins(alias):
    for _ in range(8):
        row = make_job(alias)
        moved = together(alias, *(partial(move, row, to) for to in (TimerJob, SuspendedJob, DeadLetterJob)))
        assert [type(one) for one in moved if one] == tables_of(alias)[row.pk]


@servers
def test_timers_that_another_node_is_moving_are_passed_over(alias):
    due = clock.now(alias) - timedelta(minutes=1)
    for _ in range(5):
        make_row(TimerJob, alias, due_date=due)
    with held(alias) as inside:
        assert inside(lambda: trigger_due_timers(alias, 3)) == 3
        assert finish(start(alias, lambda: trigger_due_timers(alias, 10))) == 2
    assert Job.objects.using(alias).count() == 5


def test_timers_of_several_nodes_move_once(alias):
    rows = [make_row(TimerJob, alias, due_date=clock.now(alias)) for _ in range(45)]

    def loop():
        count = 0
        while TimerJob.objects.using(alias).exists():
            count += trigger_due_timers(alias, 4)
        return count

    assert sum(together(alias, loop, loop, loop)) == 45
    assert tables_of(alias) == {row.pk: [Job] for row in rows}
    assert set(Job.objects.using(alias).values_list("revision", flat=True)) == {2}


@pytest.mark.gate
def test_a_moving_job_is_never_seen_nowhere(alias):
    row = make_job(alias)
    over = []

    def mover():
        current = row
        for turn in range(60):
            current = move(current, JOB_TABLES[(turn + 1) % len(JOB_TABLES)])
        over.append(True)

    def looker():
        looks = Counter()
        while not over:
            assert row.pk in find_states([row.pk], alias)
            looks[type(find_job(row.pk, alias))] += 1
        return looks

    _, looks = together(alias, mover, looker)
    assert len(looks) > 1, "it was seen in several tables"


@servers
def test_deleting_waits_for_the_acquirer_and_is_refused(alias):
    row = make_job(alias)
    with held(alias) as inside:
        inside(lambda: acquire(alias, "one"))
        other = start(alias, lambda: delete_jobs(row, using=alias))
        wait_until_waiting(alias, other)
    assert finish(other).skipped == {row.pk: "it is running or queued on one"}
    assert Job.objects.using(alias).exists()


@servers
def test_changing_a_job_that_is_just_settled_finds_it_gone(alias):
    job = work(alias)
    with held(alias) as inside:
        inside(lambda: complete_jobs(alias, [(job, a_run(alias))]))
        other = start(alias, lambda: set_priority(job.id, 5, using=alias))
        wait_until_waiting(alias, other)
    assert finish(other).skipped == {job.id: "it has changed in the meantime"}
    assert tables_of(alias) == {}


@servers
def test_a_completion_that_waits_for_a_row_keeps_nobody_from_writing_to_the_log(alias):
    """MariaDB numbers the rows of INSERT ... SELECT under a lock of the table, which it keeps while it waits."""
    jobs = [work(alias) for _ in range(3)]
    with held(alias) as inside:
        inside(lambda: set_priority(jobs[1].id, 7, using=alias))
        completion = start(alias, lambda: complete_jobs(alias, [(job, a_run(alias)) for job in jobs]))
        wait_until_waiting(alias, completion)
        waiting = make_job(alias)
        assert cancel(waiting.pk, using=alias)
        assert JobLog.objects.using(alias).filter(job_id=waiting.pk).exists()
        other = make_job(alias)
        assert inside(lambda: cancel(other.pk, using=alias))
    assert finish(completion) == {job.id for job in jobs}
