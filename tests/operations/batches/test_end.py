"""Batches: the end is seen at once; and what stands still because the job that carries it on is gone."""

import pytest

from jobexec.executor.execute_now import execute_now
from jobexec.models import BatchPart, DeadLetterJob, Job, SuspendedJob, TimerJob
from jobexec.operations import (
    activate_batch,
    batch_progress,
    cancel_batch,
    delete_jobs,
    move_to_dead_letter,
    start_batch,
    suspend_batch,
)
from jobexec.operations.batches.jobs import EXECUTION, MONITOR, SEED
from tests.support.batches import dead, dead_letters, left, own_jobs, run_next, run_to_the_end


@pytest.fixture
def commit(alias, django_capture_on_commit_callbacks):
    """What is done within it is committed at its end."""
    return lambda: django_capture_on_commit_callbacks(using=alias, execute=True)


def monitor_asleep(alias):
    return TimerJob.objects.using(alias).filter(handler_type=MONITOR).exists()


class TestTheEnd:
    def test_the_last_piece_wakes_the_monitor(self, alias, frozen, small, commit):
        batch = start_batch("requeue", dead_letters(alias, 3), using=alias)
        run_next(alias)
        first, second, monitor = own_jobs(alias)
        with commit():
            execute_now(monitor.pk, using=alias)
        assert monitor_asleep(alias), "pieces are open"
        with commit():
            execute_now(first.pk, using=alias)
        assert monitor_asleep(alias), "one is still open"
        with commit():
            execute_now(second.pk, using=alias)
        assert left(alias, batch) == {MONITOR: 1} and not monitor_asleep(alias)
        run_next(alias)
        batch.refresh_from_db()
        assert batch.state == "completed" and left(alias, batch) == {}

    def test_two_that_end_at_the_same_time(self, alias, frozen, small, commit):
        """Neither sees the other before both have committed; both look then, and the second finds nothing to do."""
        batch = start_batch("requeue", dead_letters(alias, 3), using=alias)
        run_next(alias)
        first, second, monitor = own_jobs(alias)
        execute_now(monitor.pk, using=alias)
        with commit():
            execute_now(first.pk, using=alias)
            execute_now(second.pk, using=alias)
        assert left(alias, batch) == {MONITOR: 1} and not monitor_asleep(alias)

    def test_a_monitor_that_goes_to_sleep_while_the_last_piece_ends(self, alias, frozen, small, commit):
        """The piece finds no monitor asleep, for that one has not committed; so the monitor looks, too."""
        batch = start_batch("requeue", dead_letters(alias, 1), using=alias)
        run_next(alias)
        (piece, monitor) = own_jobs(alias)
        with commit():
            execute_now(monitor.pk, using=alias)
            BatchPart.objects.using(alias).filter(job_id=piece.pk).update(end_time=frozen.now)
        assert left(alias, batch) == {EXECUTION: 1, MONITOR: 1} and not monitor_asleep(alias)

    def test_other_batches_sleep_on(self, alias, frozen, small, commit):
        other = start_batch("requeue", dead_letters(alias, 1), using=alias)
        run_next(alias)
        execute_now(own_jobs(alias, other).get(handler_type=MONITOR).pk, using=alias)
        batch = start_batch("requeue", dead_letters(alias, 1), using=alias)
        execute_now(own_jobs(alias, batch).get().pk, using=alias)
        with commit():
            execute_now(own_jobs(alias, batch).first().pk, using=alias)
        assert TimerJob.objects.using(alias).get().batch_id == other.pk


def seeding(alias, frozen):
    batch = start_batch("requeue", dead(alias).all(), using=alias)
    return batch, own_jobs(alias, batch).get(handler_type=SEED)


def running(alias, frozen):
    batch = start_batch("requeue", list(dead(alias).all()), using=alias)
    while own_jobs(alias, batch).filter(handler_type=SEED).exists():
        execute_now(own_jobs(alias, batch).get(handler_type=SEED).pk, using=alias)
    return batch, own_jobs(alias, batch).get(handler_type=MONITOR)


@pytest.mark.parametrize("begin", [seeding, running])
class TestStandingStill:
    @pytest.mark.gate
    @pytest.mark.parametrize("loss", [delete_jobs, move_to_dead_letter])
    def test_it_says_so_and_goes_on_when_it_is_activated(self, alias, frozen, small, begin, loss):
        dead_letters(alias, 6)
        batch, driver = begin(alias, frozen)
        assert not batch_progress(batch).stalled
        loss(driver.pk, using=alias)
        assert batch_progress(batch).stalled
        assert run_to_the_end(alias, frozen, batch).end_time is None
        assert batch_progress(batch).stalled
        activate_batch(batch.pk, using=alias)
        assert left(alias, batch) == {driver.handler_type: 1}
        assert not batch_progress(batch).stalled
        over = run_to_the_end(alias, frozen, batch)
        assert (over.state, over.changed, over.skipped) == ("completed", 6, 0)
        assert not batch_progress(over).stalled

    @pytest.mark.parametrize("table", [Job, TimerJob, SuspendedJob])
    def test_it_does_not_wherever_the_job_is(self, alias, frozen, small, begin, table):
        dead_letters(alias, 6)
        batch, driver = begin(alias, frozen)
        if table is TimerJob and driver.handler_type == MONITOR:
            execute_now(driver.pk, using=alias)
        if table is SuspendedJob:
            suspend_batch(batch.pk, using=alias)
        assert not batch_progress(batch).stalled
        before = left(alias, batch)
        activate_batch(batch.pk, using=alias)
        assert left(alias, batch) == before, "and no second one is made"

    def test_one_of_another_batch_is_none_of_its_own(self, alias, frozen, small, begin):
        dead_letters(alias, 6)
        batch, driver = begin(alias, frozen)
        other, _ = begin(alias, frozen)
        delete_jobs(driver.pk, using=alias)
        assert (batch_progress(batch).stalled, batch_progress(other).stalled) == (True, False)

    def test_what_is_cancelled_stands_still_for_good(self, alias, frozen, small, begin):
        batch, _ = begin(alias, frozen)
        cancelled = cancel_batch(batch.pk, using=alias)
        assert left(alias, batch) == {} and not batch_progress(cancelled).stalled
        assert not DeadLetterJob.objects.using(alias).exists()
