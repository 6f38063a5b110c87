"""Results of tasks against recovery, look-ups and requeues; and a node that is killed while it writes one."""

import threading

import pytest

from jobexec.models import JOB_TABLES, DeadLetterJob, Job, JobLog, TaskResult
from jobexec.operations import delete_jobs, fail_jobs, release_jobs, requeue
from jobexec.operations.settle.complete import complete_with_results
from jobexec.operations.tasks.results import find_task_result
from jobexec.operations.values.run import Result
from tests.concurrency.test_settle_races import servers
from tests.support.factories import a_failure, a_run, acquire, make_job, make_row, tables_of, work
from tests.support.machines.killed import Killed, killed_at
from tests.support.threads import finish, held, start, wait_until_waiting

pytestmark = pytest.mark.transactional
TASK = {"task_backend": "default", "handler_type": "shop.tasks.greet"}


def complete(alias, job):
    return complete_with_results(alias, [(job, a_run(alias), Result('"done"'))])


def fail(alias, job, **values):
    return fail_jobs(alias, [(job, a_failure(**values), a_run(alias))])


@servers
@pytest.mark.parametrize("end", [complete, fail])
def test_a_late_end_waits_and_keeps_nothing(alias, end):
    job = work(alias, "one:1", **TASK)
    with held(alias) as inside:
        assert inside(lambda: release_jobs(alias, [job])) == 1
        late = start(alias, lambda: end(alias, job))
        wait_until_waiting(alias, late)
    assert finish(late) == ({job.id} if end is complete else [None])
    assert not TaskResult.objects.using(alias).exists()
    assert find_task_result(job.id, alias).status == "READY"


@servers
@pytest.mark.parametrize("end", [complete, fail])
def test_until_its_commit_an_attempt_runs_and_from_then_on_it_has_ended(alias, end):
    job = work(alias, "one:1", **TASK)
    with held(alias) as inside:
        inside(lambda: end(alias, job))
        sight = find_task_result(job.id, alias)
        assert (sight.status, sight.worker_ids) == ("RUNNING", ["one"]), "it waits for nobody"
    sight = find_task_result(job.id, alias)
    assert sight.status == ("SUCCESSFUL" if end is complete else "READY")
    assert sight.worker_ids == ["node"]


@pytest.mark.gate
@servers
def test_a_look_never_misses_a_task_nor_counts_an_attempt_twice(alias):
    """It is acquired, fails, is requeued and so on; whoever looks sees each attempt once, in the order of things."""
    pk = make_job(alias, **TASK, retries=1).pk
    done, seen = threading.Event(), []

    def live():
        try:
            for _ in range(15):
                (job,) = acquire(alias, "node:1")
                assert fail(alias, job, kind="fatal") != [None]
                assert requeue(pk, using=alias)
            (job,) = acquire(alias, "node:1")
            assert complete(alias, job) == set()
        finally:
            done.set()

    future = start(alias, live)
    while not done.is_set():
        sight = find_task_result(pk, alias)
        assert sight is not None, "nowhere"
        attempts, errors = len(sight.worker_ids), len(sight.errors)
        assert attempts - errors == (sight.status in ("RUNNING", "SUCCESSFUL")), sight
        seen.append(attempts)
    finish(future)
    assert seen == sorted(seen), "an attempt is never taken back"
    assert find_task_result(pk, alias).worker_ids == ["node"] * 16


@servers
def test_deleting_a_dead_letter_and_requeueing_it_is_one_or_the_other(alias):
    row = make_row(DeadLetterJob, alias, **TASK)
    with held(alias) as inside:
        assert inside(lambda: requeue(row.pk, using=alias))
        late = start(alias, lambda: delete_jobs(row.pk, using=alias))
        wait_until_waiting(alias, late)
    assert finish(late).changed == [], "it is no longer where it was"
    assert tables_of(alias) == {row.pk: [Job]}
    assert find_task_result(row.pk, alias).status == "READY"


@pytest.mark.gate
@pytest.mark.parametrize("end", ["complete", "fail", "cancel", "requeue"])
def test_killed_on_any_line(alias, end):
    """All that ends an attempt is written, or nothing of it; and whoever comes next can do it."""
    number, killed = 0, 0
    while True:
        number += 1
        job = _prepared(alias, end)
        before = _written(alias)
        try:
            with killed_at(alias, number):
                _ENDS[end](alias, job)
        except Killed:
            killed += 1
            assert _written(alias) == before
            _ENDS[end](alias, job)
            assert _written(alias) != before
            continue
        finally:
            _clear(alias)
        break
    assert killed >= 1


_ENDS = {
    "complete": complete,
    "fail": fail,
    "cancel": lambda alias, job: delete_jobs(job.id, using=alias),
    "requeue": lambda alias, job: requeue(job.id, using=alias),
}


def _prepared(alias, end):
    job = work(alias, "one:1", **TASK, retries=1)
    if end == "requeue":
        fail(alias, job)
    elif end == "cancel":
        release_jobs(alias, [job])
    return job


def _written(alias):
    tables = [*JOB_TABLES, TaskResult, JobLog]
    return [list(table._base_manager.using(alias).order_by("pk").values()) for table in tables]


def _clear(alias):
    for table in [*JOB_TABLES, TaskResult, JobLog]:
        table._base_manager.using(alias).all().delete()


def test_a_commit_in_doubt_is_tried_again_and_writes_once(alias):
    job = work(alias, "one:1", **TASK)
    assert complete(alias, job) == set()  # and its confirmation is lost
    before = _written(alias)
    assert complete(alias, job) == {job.id}, "which then means done"
    assert _written(alias) == before
    assert tables_of(alias) == {}
    assert find_task_result(job.id, alias).return_value == "done"
