"""What the tests of the backend share: TASKS with one alias on the database of the test, and the tasks of a shop."""

import importlib
from datetime import UTC, datetime

import pytest
from django.db import OperationalError, connections

from jobexec import clock
from jobexec.backends.compat import Task, task_backends
from jobexec.backends.results import LiveTaskResult
from jobexec.clock import FrozenClock
from jobexec.executor.job_executor import JobExecutor
from jobexec.handlers import registry
from tests.support.waiting import threads, until

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
BACKEND = "jobexec.backends.JobExecutorBackend"
QUICK = {"WAIT_TIME": 0.01, "MAX_WAIT": 0.1, "MAX_WAIT_WHEN_LISTENING": 0.1}


@pytest.fixture
def frozen():
    """It is NOW, for as long as the test does not say otherwise."""
    with FrozenClock(NOW) as clock:
        yield clock


@pytest.fixture(autouse=True)
def configure(settings):
    """A function that changes JOBEXEC; `engine` holds keys for every engine."""

    def change(engine=None, only=None, **keys):
        engines = {name: dict(engine or {}) for name in connections if only in (None, name)}
        settings.JOBEXEC = {"ENGINES": engines, "CATEGORIES": ["default", "mail"], **keys}

    change()
    return change


@pytest.fixture
def backend(request, settings):
    """A function that changes the OPTIONS of the one alias in TASKS, or adds others."""
    database = request.getfixturevalue("alias") if "alias" in request.fixturenames else "default"

    def change(others=None, queues=(), **options):
        made = {"DATABASE": database, "CATEGORIES": {"emails": "mail"}, **options}
        settings.TASKS = {"default": {"BACKEND": BACKEND, "QUEUES": queues, "OPTIONS": made}, **(others or {})}
        return task_backends["default"]

    change()
    return change


@pytest.fixture
def shop(backend):
    """The module with the tasks, all of them known."""
    with registry.isolated():
        module = importlib.import_module("tests.support.shop")
        for value in vars(module).values():
            if isinstance(value, Task):
                task_backends["default"].validate_task(value)
        module.seen.clear()
        module.hooks.clear()
        yield module


@pytest.fixture
def make_executor(configure, alias):
    """A function that makes an executor from settings; all are stopped at the end, and leave no thread behind."""
    made = []

    def make(engine=None, **keys):
        configure({**QUICK, **(engine or {})}, only=alias, **{"GRACE_PERIOD": 10, "THREADS": 2, **keys})
        made.append(JobExecutor())
        return made[-1]

    yield make
    for executor in made:
        executor.stop(5)
    until(lambda: not threads())
    clock.forget()


@pytest.fixture
def away_once(monkeypatch):
    """The database is away when the first result of a run is loaded; the ids of those are in the list."""
    load, failed = LiveTaskResult.load, []

    def fail(result):
        if not failed:
            failed.append(result.id)
            raise OperationalError("server closed the connection unexpectedly")
        load(result)

    monkeypatch.setattr(LiveTaskResult, "load", fail)
    return failed
