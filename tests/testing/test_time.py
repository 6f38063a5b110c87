"""Time that a test controls: by a clock of jobexec's, and by time-machine."""

from datetime import UTC, datetime, timedelta

import pytest
import time_machine

from jobexec import clock, history_handler, record_history
from jobexec.models import HistoryJob, TimerJob
from jobexec.testing import ManualExecutor, advance, controlled_clock

NOON = datetime(2031, 3, 1, 12, tzinfo=UTC)


class TestControlledClock:
    def test_is_moved_by_the_test_only(self):
        with controlled_clock(NOON) as controlled:
            assert clock.now() == NOON
            assert controlled.advance(timedelta(hours=1)) == NOON + timedelta(hours=1)
            assert advance(60) == clock.now() == NOON + timedelta(hours=1, minutes=1)
            assert controlled.move_to(NOON + timedelta(days=1)) == clock.now()
            with pytest.raises(ValueError, match="cannot go back"):
                controlled.move_to(NOON)
            with pytest.raises(ValueError, match="aware datetime"):
                controlled.move_to(datetime(2040, 1, 1))

    def test_without_one_there_is_nothing_to_move(self):
        with pytest.raises(RuntimeError, match="controlled_clock"):
            advance(1)


class TestTimeMachine:
    """Jobexec knows nothing of it."""

    def test_due_dates_and_timers_follow_a_time_that_stands_still(self, alias, shop):
        with time_machine.travel(NOON, tick=False) as traveller:
            executor = ManualExecutor(alias)
            row = shop.send.using(delay=timedelta(hours=1)).enqueue(1)
            assert row.due_date == NOON + timedelta(hours=1)
            traveller.shift(timedelta(minutes=59, seconds=59))
            assert executor.run_until_empty() == []
            traveller.shift(1)
            assert [each.value for each in executor.run_until_empty()] == ["sent 1"]

    def test_and_one_that_goes_on(self, alias, shop):
        executor = ManualExecutor(alias)
        with time_machine.travel(NOON, tick=True) as traveller:
            row = shop.send.using(delay=timedelta(days=400)).enqueue(1)
            assert timedelta(days=400) <= row.due_date - NOON < timedelta(days=400, minutes=5)
            assert executor.run_until_empty() == []
            traveller.shift(timedelta(days=401))
            assert [each.value for each in executor.run_until_empty()] == ["sent 1"]

    def test_retries_follow(self, alias, shop):
        with time_machine.travel(NOON, tick=False) as traveller:
            executor = ManualExecutor(alias, reraise=False)
            shop.breaks.enqueue(1)
            executor.run_until_empty()
            assert TimerJob.objects.using(alias).get().due_date == NOON + timedelta(minutes=5)
            traveller.shift(timedelta(minutes=4))
            assert executor.run_until_empty() == []
            traveller.shift(timedelta(minutes=1))
            assert executor.run_until_empty()[0].dead

    def test_the_time_of_the_database_does_not_get_in_the_way(self, alias, shop):
        """An executor in this process has set the clock by its database before."""
        executor = ManualExecutor(alias)
        clock.synchronise(alias, clock.now(alias), clock.monotonic())
        shop.send.using(delay=60).enqueue(1)
        with time_machine.travel(timedelta(hours=1), tick=False):
            assert [each.value for each in executor.run_due()] == ["sent 1"]

    def test_a_controlled_clock_begins_where_the_travel_has_led(self):
        with time_machine.travel(NOON, tick=False), controlled_clock() as controlled:
            assert controlled.now == NOON


class TestHistory:
    @pytest.fixture
    def written(self, handle):
        written = []

        @history_handler("orders")
        def write(records):
            if any(record.data == "bad" for record in records):
                raise ValueError("bad")
            written.extend(record.data for record in records)

        return written

    def test_recorded_history_is_written(self, alias, executor, written):
        record_history("orders", 1, 2, using=alias)
        assert executor.run_history() == 1
        assert executor.run_history() == 0
        assert written == [1, 2]

    def test_until_empty_and_each_round(self, alias, executor, written):
        record_history("orders", 1, using=alias)
        assert executor.run_until_empty() == []
        record_history("orders", 2, using=alias)
        executor.tick()
        assert written == [1, 2]

    def test_what_cannot_be_written_is_raised_and_tried_again(self, alias, written):
        record_history("orders", "bad", using=alias)
        record_history("orders", 1, using=alias)
        with pytest.raises(ValueError, match="bad"):
            ManualExecutor(alias).run_history()
        assert written == [1]
        assert HistoryJob.objects.using(alias).get().attempts == 1
        assert ManualExecutor(alias, reraise=False).run_history() == 0


def test_a_round_moves_timers_and_runs_a_page(alias, shop, frozen_at_noon, executor):
    shop.send.using(delay=60).enqueue(1)
    assert executor.tick() == []
    frozen_at_noon.advance(60)
    assert executor.run_timers() == 1
    assert shop.done == []
    assert [each.value for each in executor.tick()] == ["sent 1"]


def test_a_round_begins_and_ends_suspensions(alias, shop, frozen_at_noon, executor):
    from jobexec import operations

    operations.suspend(tenant_id="acme", using=alias, until=frozen_at_noon.now + timedelta(hours=1))
    shop.send.using(tenant_id="acme").enqueue(1)
    assert executor.tick() == []
    frozen_at_noon.advance(timedelta(hours=1))
    executor.tick()
    assert shop.done == [1]
