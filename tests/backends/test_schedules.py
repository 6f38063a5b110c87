"""A task that is made again and again, and what it becomes."""

from datetime import UTC, datetime, timedelta

import pytest

from jobexec import schedule
from jobexec.clock import FrozenClock
from jobexec.conf import get_settings
from jobexec.exceptions import InvalidSchedule
from jobexec.executor.nodes.node import Node
from jobexec.handlers import registry
from jobexec.handlers.schedules import declare
from jobexec.models import Job, Schedule
from jobexec.operations.schedules.firing import fire_due
from jobexec.operations.schedules.jobs import scheduled_jobs

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)


def start(alias):
    settings = get_settings()
    node = Node(settings, settings.engine(alias), dict)
    node.register()
    return node


def test_its_jobs_are_those_of_the_backend(alias, shop):
    schedule(shop.attempt, "R/PT1H")
    with FrozenClock(NOW) as clock:
        node = start(alias)
        row = Schedule.objects.using(alias).get()
        assert (row.name, row.next_time) == (shop.attempt.module_path, NOW + timedelta(hours=1))
        clock.tick(3600)
        assert fire_due(alias, scheduled_jobs(), 9).jobs == 1
        made = Job.objects.using(alias).get()
        assert (made.handler_type, made.task_backend, made.due_date) == (row.name, "default", clock.now)
        node.leave()


def test_what_needs_arguments_is_refused(alias, shop):
    with pytest.raises(InvalidSchedule, match="called without arguments"):
        schedule(shop.send, "R/PT1H")


def test_a_task_of_another_backend_is_declared_and_not_written(alias, configure, caplog):
    with registry.isolated():
        declare("shop.tasks.elsewhere", "R/PT1H")
        start(alias).leave()
    assert not Schedule.objects.using(alias).exists()
    assert "shop.tasks.elsewhere is not saved" in caplog.text
