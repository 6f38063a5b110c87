"""What the tables of the pages for those who come from elsewhere name is there, and says what it should."""

import re
import shlex
from io import StringIO
from pathlib import Path
from uuid import UUID

import pytest

import jobexec
from jobexec import exceptions, operations, signals
from jobexec.handlers.options import JobOptions
from jobexec.management.commands.jobs import Command
from jobexec.management.jobs.actions import ACTIONS
from jobexec.recurrence import parse
from jobexec.retry import RetryPlan

HOW_TO = Path(__file__).parents[2] / "docs" / "how-to" / "migrate"
THEIRS = {"JobAborted", "RetryTask", "RetryStrategy"}
PAGES = sorted(HOW_TO.glob("from-*.md"))


@pytest.fixture(params=PAGES, ids=lambda page: page.stem)
def text(request):
    return request.param.read_text()


def test_there_are_such_pages():
    assert [page.stem for page in PAGES] == [
        *("from-celery", "from-django-q2", "from-django-tasks-db", "from-huey", "from-procrastinate")
    ]


def test_plans_and_schedules_are_understood(text):
    plans = re.findall(r'retries="([^"]+)"', text)
    schedules = re.findall(r'schedule="([^"…]+)"', text) + re.findall(r'`"(R\d*/[^"]+)"`', text)
    assert plans
    for plan in plans:
        assert RetryPlan.parse(plan).attempts > 0
    for schedule in schedules:
        assert parse(schedule, "Europe/Berlin")


def test_options_of_calls_are_options(text):
    for options in re.findall(r"`using\(([^)`]*)\)", text):
        for name in re.findall(r"(\w+)=", options):
            assert name in JobOptions.__annotations__


def test_commands_are_understood(text):
    parser = Command(stdout=StringIO(), stderr=StringIO()).create_parser("manage.py", "jobs")
    for command in re.findall(r"`manage\.py jobs ([^`]+)`", text):
        words = [str(UUID(int=5)) if word == "ID" else word for word in shlex.split(command)]
        parser.parse_args(words)


def test_names_are_there(text):
    for name in re.findall(r"`jobexec\.operations\.(\w+)", text):
        assert hasattr(operations, name)
    for name in re.findall(r"`((?:job|node)_[a-z]+(?:_[a-z]+)?)`", text):
        assert hasattr(signals, name)
    for name in re.findall(r"`(?:raise )?((?:DoNot|Retry|Job|Duplicate)[A-Z]\w+)", text):
        assert name in THEIRS or name in jobexec.__all__ or hasattr(exceptions, name)
    for action in re.findall(r"`(?:manage\.py )?jobs ([a-z]+)", text):
        assert action in ACTIONS
