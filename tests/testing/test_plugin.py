"""The pytest plugin, in this project and in others."""

import os
import subprocess
import sys
from datetime import timedelta

import pytest

from jobexec import clock
from jobexec.models import Job, TimerJob
from jobexec.testing import ManualExecutor

SETTINGS = """
SECRET_KEY = "only for tests"
USE_TZ = True
DATABASES = {"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"}}
INSTALLED_APPS = ["django.contrib.contenttypes", "rangefilter", "jobexec", "shop"]
JOBEXEC = {"ENGINES": {"default": {}}}
"""

JOBS = """
from jobexec import job

sent = []

@job
def send(order):
    sent.append(order)

@job
def broken():
    raise ValueError("no")
"""

TESTS = """
import pytest
from jobexec.testing import ManualExecutor
from shop import jobs

@pytest.fixture(autouse=True)
def nothing_sent():
    jobs.sent.clear()

@pytest.mark.parametrize("number", range(3))
def test_in_a_transaction(jobexec, number):
    jobs.send.enqueue(number)
    jobexec.assert_enqueued(jobs.send, args=[number], count=1)
    assert [each.outcome for each in jobexec.run_until_empty()] == ["successful"]
    assert jobs.sent == [number]

def test_without_one(transactional_db, jobexec):
    jobs.send.enqueue(1)
    jobexec.run_until_empty()
    assert jobs.sent == [1]

def test_the_name_that_hides_no_module(jobexec_executor, jobexec):
    assert jobexec_executor is jobexec and isinstance(jobexec_executor, ManualExecutor)

def test_immediate(jobexec_immediate):
    jobs.send.enqueue(1)
    assert jobs.sent == [1]

@pytest.mark.jobexec(reraise=False)
def test_options(jobexec, jobexec_clock):
    jobs.broken.enqueue()
    jobexec.run_until_empty(advance=True)
    assert jobexec.max_jobs == 50

def test_that_fails(jobexec):
    jobs.send.enqueue(1)
    jobexec.assert_enqueued(jobs.send, args=[2])
"""


@pytest.fixture
def project(tmp_path):
    """A folder in which pytest runs as a process of its own: `project(files, *arguments)`."""

    def run(files, *arguments, **variables):
        for name, content in files.items():
            path = tmp_path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(content)
        hidden = ("DJANGO_", "PYTEST_", "JOBEXEC_")
        environment = {key: value for key, value in os.environ.items() if not key.startswith(hidden)}
        command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-p", "no:rerunfailures", *arguments]
        environment |= {"PYTHONPATH": str(tmp_path), "PYTHONDONTWRITEBYTECODE": "1", **variables}
        return subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=100)

    return run


@pytest.mark.slow
def test_a_project_that_uses_it(project):
    files = {
        "settings.py": SETTINGS,
        "shop/__init__.py": "",
        "shop/jobs.py": JOBS,
        "test_shop.py": TESTS,
        "pytest.ini": "[pytest]\nDJANGO_SETTINGS_MODULE = settings\njobexec_max_jobs = 50\n",
    }
    ended = project(files, "--strict-markers", "--no-migrations", "-n", "0", "-ra")
    assert "1 failed, 7 passed" in ended.stdout, ended.stdout + ended.stderr
    assert "FAILED test_shop.py::test_that_fails" in ended.stdout
    # The assertion says what is there, and the trace ends in the test.
    assert "! order: expected 2, got 1" in ended.stdout
    assert "assertions.py" not in ended.stdout


@pytest.mark.slow
def test_a_project_without_django(project):
    """The plugin is installed, and nobody uses it."""
    test = """
        import os
        import sys

        loaded = [name for name in sys.modules if name.startswith("jobexec")]
        assert ("jobexec.testing.plugin" in loaded) is bool(os.environ.get("WITH_PLUGIN"))
        assert not [name for name in loaded if name.startswith(("jobexec.models", "jobexec.handlers"))]
        assert "django.db" not in sys.modules

        def test_nothing():
            pass
    """
    files = {"test_plain.py": "\n".join(line[8:] for line in test.splitlines())}
    ended = project(files, "-p", "no:django", "-n", "0", WITH_PLUGIN="yes")
    assert ended.returncode == 0, ended.stdout + ended.stderr
    ended = project({}, "--co", "-q", "-p", "no:jobexec", "-n", "0")
    assert ended.returncode == 0, ended.stdout + ended.stderr


def test_the_executor_of_the_fixture(jobexec, handle):
    assert type(jobexec) is ManualExecutor
    assert (jobexec.using, jobexec.reraise, jobexec.max_jobs) == ("default", True, 1000)
    handle(lambda: "done", name="shop.job").enqueue()
    assert [each.value for each in jobexec.run_until_empty()] == ["done"]


@pytest.mark.jobexec(reraise=False, max_jobs=2)
class TestMarked:
    @pytest.mark.jobexec(max_jobs=3)
    def test_the_nearest_marker_counts(self, jobexec):
        assert (jobexec.reraise, jobexec.max_jobs) == (False, 3)

    def test_with_jobs_that_fail(self, jobexec, handle):
        def broken():
            raise ValueError("no")

        handle(broken).enqueue()
        assert [each.outcome for each in jobexec.run_until_empty()] == ["failed"]


def test_immediate(jobexec, jobexec_immediate, handle):
    assert jobexec_immediate is jobexec
    done = []
    handle(done.append, name="shop.job").enqueue(1)
    assert done == [1]
    assert not Job.objects.exists()


def test_the_clock_stands_still_and_needs_no_database(jobexec_clock):
    before = clock.now()
    jobexec_clock.advance(timedelta(hours=1))
    assert clock.now() == before + timedelta(hours=1)


@pytest.mark.django_db(transaction=True)
def test_with_a_database_that_commits(jobexec, handle):
    from django.db import connection

    handle(lambda: connection.in_atomic_block, name="shop.job").enqueue()
    assert jobexec.run_next().value is False


def test_with_a_live_server(live_server, jobexec, handle):
    """Its thread enqueues; the test's runs."""
    import threading

    from django.db import connections

    def request():
        try:
            later.enqueue(1)
        finally:
            connections.close_all()

    done = []
    later = handle(done.append, name="shop.job")
    thread = threading.Thread(target=request)
    thread.start()
    thread.join(60)
    jobexec.run_until_empty()
    assert done == [1]
    assert not TimerJob.objects.exists()
