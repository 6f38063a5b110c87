"""The examples of docs/how-to/django-tasks/use-django-tasks.md and docs/reference/tasks-backend.md run."""

import re
import sys
from datetime import date
from importlib import import_module

import pytest

from demo_project.bookings.models import Booking
from jobexec.backends.compat import task_backends
from jobexec.backends.config import known_keys
from jobexec.backends.options import OF_HANDLER, task_options
from jobexec.executor.execute_now import execute_now
from jobexec.handlers import registry
from jobexec.models import TimerJob
from tests.support.executor import run_one
from tests.support.suite.databases import ROOT

REFERENCE = (ROOT / "docs" / "reference" / "tasks-backend.md").read_text()
pytestmark = [pytest.mark.transactional, pytest.mark.databases("sqlite")]


@pytest.fixture
def tasks(backend):
    with registry.isolated():
        yield import_module("docs.examples.tasks")
    del sys.modules["docs.examples.tasks"]


@pytest.fixture
def booking(alias):
    return Booking.objects.create(
        visitor="Ada Byron",
        email="ada@example.org",
        city="Rome",
        arrival=date(2027, 5, 7),
        departure=date(2027, 5, 10),
    )


def test_a_task_and_its_result(alias, tasks, booking):
    result = tasks.count_nights.enqueue(booking.pk)
    run_one(alias)
    result.refresh()
    assert result.return_value == 3


def test_options_of_a_task_and_of_a_call(alias, tasks, booking):
    id = tasks.pay(booking, "4711")
    row = TimerJob.objects.get(pk=id)
    assert (row.category, row.retry_plan, row.process_instance_id) == ("mail", "R5/PT5M", f"booking-{booking.pk}")
    assert tasks.state(id) == "attempt 1 is to come"
    execute_now(id)
    assert tasks.state(id) == f"{booking.pk} is paid"


def test_the_context(alias, tasks):
    result = tasks.print_tickets.enqueue([1, 2, 3])
    run_one(alias)
    result.refresh()
    assert result.return_value == 3


def test_the_settings_of_the_reference_are_right(alias, tasks, settings, configure):
    configure(CATEGORIES=["default", "mail"], ENGINES=["default"])
    (code,) = re.findall(r"```python\n(TASKS = .*?)```", REFERENCE, re.DOTALL)
    values = {}
    exec(code, values)
    del values["TASKS"]["default"]["OPTIONS"]["DATABASE"]  # there is none of that name
    settings.TASKS = values["TASKS"]
    # The task that it names, and where this test's tasks are.
    assert {message.id for message in task_backends["default"].check()} <= {"jobexec.W009", "jobexec.W010"}


def test_the_reference_names_all_options():
    for name in (*task_options(), *OF_HANDLER):
        assert f"`{name}`" in REFERENCE, name
    assert {"DATABASE", "CATEGORIES", "TASK_OPTIONS"} < set(known_keys())
