"""Executors as processes, and jobs whose traces are lines in a file."""

import pytest
from django.db import connections

from tests.support.factories import make_job
from tests.support.machines import processes


@pytest.fixture
def run(request):
    """A function that starts an executor on the test's database: `run("--threads", "2", THREADS=4)`.

    `apps` are installed besides those of the tests: their handlers are known to this executor only.
    """
    alias = request.getfixturevalue("alias") if "alias" in request.fixturenames else None
    started = []

    def start(*arguments, env=None, apps=(), **keys):
        jobexec = {**processes.QUICK, **keys}
        environment = processes.environment(alias, apps, JOBEXEC=jobexec) | (env or {})
        started.append(processes.Process(processes.command(*arguments), environment))
        return started[-1]

    yield start
    for process in started:
        process.close()


@pytest.fixture(autouse=True)
def engines(settings):
    """Here, in the test, every database is an engine; the children have one, called default."""
    settings.JOBEXEC = {"ENGINES": {name: {} for name in connections}, "CATEGORIES": ["default", "mail"]}


@pytest.fixture
def trace(tmp_path):
    """The file of traces; `lines()` are its lines so far."""

    class Trace:
        path, go = tmp_path / "trace", tmp_path / "go"

        def lines(self):
            return self.path.read_text().splitlines() if self.path.exists() else []

        def texts(self):
            return [line.rsplit(" ", 1)[0] for line in self.lines()]

    return Trace()


@pytest.fixture
def enqueue(alias, trace):
    """A function that makes a job of `tests.process.jobs`: `enqueue("note", "text", priority=3)`."""

    def make(name, *arguments, **columns):
        columns["handler_type"] = f"tests.process.jobs.{name}"
        columns["handler_configuration"] = {"args": [str(trace.path), *arguments], "kwargs": {}}
        return make_job(alias, **columns)

    return make
