"""The examples of the how-to page on recurring jobs do what it says."""

import re
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from jobexec import job
from jobexec.clock import FrozenClock
from jobexec.conf import get_settings
from jobexec.executor.nodes.node import Node
from jobexec.handlers import registry
from jobexec.models import Job, Schedule
from jobexec.operations.schedules.manage import upcoming
from jobexec.recurrence import parse

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "jobs" / "recurring-jobs.md"
BLOCKS = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)

pytestmark = pytest.mark.django_db


def test_the_examples_run(settings: Any) -> None:
    settings.JOBEXEC = {"ENGINES": {"default": {}}}
    in_the_code, beside_it, by_hand = BLOCKS
    names: dict[str, Any] = {"__name__": "trips.jobs"}
    with FrozenClock(NOW), registry.isolated():
        job(name="demo_project.bookings.jobs.remind")(lambda city: None)
        exec(in_the_code, names)
        exec(beside_it, names)
        node = Node(get_settings(), get_settings().engine("default"), dict)
        node.register()
        rows = {row.name: row for row in Schedule.objects.exclude(declared="")}
        assert rows["trips.jobs.forget_old_trips"].next_time == datetime(2026, 3, 2, 3, tzinfo=UTC), "4 o'clock"
        assert rows["trips.jobs.count_trips"].next_time == NOW + timedelta(minutes=15)
        exec(by_hand, names)
        assert not Schedule.objects.filter(declared="").exists(), "deleted at the end"
        assert Job.objects.get().handler_configuration == {"args": [], "kwargs": {"city": "Rome"}}
        node.leave()


def test_the_expressions_of_the_table_are_understood() -> None:
    table = PAGE.read_text().split("| expression | meaning |")[1].split("\n\n")[0]
    expressions = [text for row in table.splitlines() for text in re.findall(r"`([^`]+)`", row.split(" | ")[0])]
    assert len(expressions) > 14
    for expression in expressions:
        assert parse(expression, "UTC", NOW).next_after(NOW - timedelta(days=366)), expression
    assert upcoming("0 9 * * 5L", 1, NOW, timezone="UTC") == [datetime(2026, 3, 27, 9, tzinfo=UTC)], "the last Friday"


def test_the_threshold_is_what_the_page_says() -> None:
    assert get_settings().misfire_threshold == timedelta(seconds=60)
