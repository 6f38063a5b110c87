"""Batches of jobs: who adds, ends, retries and seals at the same moment."""

import pytest
from django.db import connections

import jobexec
from jobexec import clock
from jobexec.models import Batch, BatchTally, DeadLetterJob, Job, TimerJob
from jobexec.operations import complete_jobs, move_to_dead_letter, requeue
from jobexec.operations.batches.jobs import MONITOR
from jobexec.operations.batches.watch import watch
from jobexec.operations.batches.work import lock_batch
from tests.support.factories import a_run, acquire
from tests.support.threads import finish, held, start, together, wait_until_waiting

#: SQLite has one writer: there, transactions that write do not overlap.
pytestmark = [pytest.mark.transactional, pytest.mark.databases("postgresql", "mariadb")]


@pytest.fixture
def work(alias, handle):
    def work():
        pass

    return handle(work, database=alias)


@pytest.fixture
def tell(alias, handle):
    def tell(what):
        pass

    return handle(tell, database=alias)


@pytest.fixture
def begin(alias, tell):
    return lambda: jobexec.batch(using=alias, on_success=tell.s("success"), on_failure=tell.s("failure"))


def told(alias):
    rows = Job.objects.using(alias).filter(handler_type="tests.tell")
    return [row.handler_configuration["args"][0] for row in rows]


def asleep(alias):
    row = TimerJob.objects.using(alias).get(handler_type=MONITOR)
    return row.due_date > clock.now(alias)


def complete(alias, *jobs):
    return complete_jobs(alias, [(job, a_run(alias)) for job in jobs])


def test_several_add_at_the_same_time_without_waiting(alias, begin, work):
    batch = begin()
    with held(alias) as inside:
        inside(lambda: batch.add(work.s()))
        finish(start(alias, lambda: batch.add_many([work.s(), work.s()])))
    assert batch.progress().total == 3


def test_sealing_waits_for_those_that_add(alias, begin, work):
    batch = begin()
    with held(alias) as inside:
        inside(lambda: batch.add(work.s()))
        sealing = start(alias, batch.seal)
        wait_until_waiting(alias, sealing)
        assert batch.state == "open"
    finish(sealing)
    assert batch.state == "running" and batch.progress().total == 1
    watch(alias, batch.id, 0)
    assert batch.state == "running", "the job that was added in time is open"


def test_the_monitor_adds_up_without_waiting_for_those_that_add(alias, begin, work):
    if connections[alias].vendor == "mysql":
        pytest.skip("there a shared lock excludes the change of the row: the monitor waits")
    batch = begin()
    batch.add(work.s())
    with held(alias) as inside:
        inside(lambda: batch.add(work.s()))
        finish(start(alias, lambda: watch(alias, batch.id, 0)))
        assert batch.row.total == 1
    assert batch.progress().total == 2


def test_outcomes_do_not_wait_for_the_batch(alias, begin, work):
    batch = begin()
    batch.add(work.s())
    jobs = acquire(alias)
    with held(alias) as inside:
        inside(lambda: lock_batch(alias, batch.id, to_delete=True))
        assert finish(start(alias, lambda: complete(alias, *jobs)))
    assert batch.progress().completed == 1


def test_the_last_two_end_at_the_same_time(alias, begin, work):
    """Neither sees the other before both have committed; the last one wakes the monitor."""
    with begin() as batch:
        batch.add_many([work.s(), work.s()])
    TimerJob.objects.using(alias).filter(handler_type=MONITOR).update(due_date=batch.row.create_time.replace(year=3000))
    first, second = acquire(alias)
    with held(alias) as inside:
        inside(lambda: complete(alias, first))
        finish(start(alias, lambda: complete(alias, second)))
        assert asleep(alias)
    assert not asleep(alias)
    watch(alias, batch.id, 0)
    assert batch.state == "completed" and told(alias) == ["success"]


def test_two_monitors_call_once(alias, begin, work):
    """As after an operator has activated a batch whose monitor was only slow."""
    with begin() as batch:
        pass
    together(alias, *[lambda: watch(alias, batch.id, 0)] * 3)
    assert batch.state == "completed" and told(alias) == ["success"]


def test_a_batch_does_not_end_while_a_dead_letter_is_requeued(alias, begin, work):
    with begin() as batch:
        row = batch.add(work.s())
    move_to_dead_letter(row.pk, using=alias)
    with held(alias) as inside:
        inside(lambda: requeue(row.pk, using=alias))
        ending = start(alias, lambda: watch(alias, batch.id, 0))
        wait_until_waiting(alias, ending)
    finish(ending)
    assert batch.state == "running" and told(alias) == [] and batch.progress().open == 1


def test_a_dead_letter_requeued_while_the_batch_ends_reopens_it(alias, begin, work):
    with begin() as batch:
        row = batch.add(work.s())
    move_to_dead_letter(row.pk, using=alias)
    TimerJob.objects.using(alias).filter(handler_type=MONITOR).delete()
    with held(alias) as inside:
        inside(lambda: watch(alias, batch.id, 0))
        retrying = start(alias, lambda: requeue(row.pk, using=alias))
        wait_until_waiting(alias, retrying)
    finish(retrying)
    assert told(alias) == ["failure"] and batch.state == "running" and batch.progress().open == 1
    assert not DeadLetterJob.objects.using(alias).exists()
    monitors = Job.objects.using(alias).filter(handler_type=MONITOR)
    assert monitors.count() == 1


def test_a_batch_that_is_deleted_while_a_child_ends(alias, begin, work):
    batch = begin()
    batch.add(work.s())
    jobs = acquire(alias)
    with held(alias) as inside:
        inside(lambda: Batch.objects.using(alias).filter(pk=batch.id).delete())
        assert finish(start(alias, lambda: complete(alias, *jobs)))
    assert BatchTally.objects.using(alias).filter(batch_id=batch.id, completed=1).exists()
