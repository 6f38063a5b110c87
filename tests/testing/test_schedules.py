"""Schedules fire when the test moves the time."""

from datetime import UTC, datetime, timedelta

import pytest

from jobexec import InvalidJob
from jobexec.handlers import schedules
from jobexec.models import Job, Schedule
from jobexec.operations.schedules.manage import save_schedule
from jobexec.testing import ManualExecutor


def test_what_the_code_declares_fires_in_a_round(alias, handle, frozen_at_noon):
    ran = []
    handle(lambda: ran.append(frozen_at_noon.now), name="shop.report", database=alias)
    schedules.declare("shop.report", "0 15 * * *", "UTC")
    executor = ManualExecutor(alias)
    assert executor.tick() == []
    frozen_at_noon.advance(timedelta(hours=3))
    assert [each.handler for each in executor.tick()] == ["shop.report"]
    assert executor.tick() == []
    assert ran == [datetime(2026, 3, 1, 15, tzinfo=UTC)]


def test_they_fire_without_running(alias, shop, frozen_at_noon, executor):
    save_schedule(alias, name="hourly", handler_type="shop.send", expression="R/PT1H", args=[1])
    frozen_at_noon.advance(timedelta(hours=2, seconds=1))
    assert executor.run_schedules() >= 1
    assert executor.run_schedules() == 0
    assert Job.objects.using(alias).count() >= 1
    assert shop.done == []


def test_until_empty_does_not_wait_for_schedules(alias, shop, frozen_at_noon, executor):
    save_schedule(alias, name="hourly", handler_type="shop.send", expression="R/PT1H", args=[1])
    assert executor.run_until_empty(advance=True) == []


def test_a_schedule_that_cannot_fire_is_raised(alias, handle, frozen_at_noon, executor):
    handle(lambda: None, name="shop.report", database=alias)
    save_schedule(alias, name="hourly", handler_type="shop.report", expression="R/PT1H")
    Schedule.objects.using(alias).update(handler_configuration={"args": [1], "kwargs": {}})
    frozen_at_noon.advance(timedelta(hours=2))
    with pytest.raises(InvalidJob):
        executor.run_schedules()
