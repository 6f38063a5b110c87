"""What a test leaves behind is found, and put back."""

import logging
import os
import sys
import threading
from types import ModuleType

import pytest
from django.conf import settings as django_settings
from django.db import connections
from django.utils import translation

from jobexec import clock, job, signals
from jobexec.clock import FrozenClock
from jobexec.operations.history import keys
from jobexec.operations.notify import wake, wake_workers
from jobexec.operations.reports import failure_groups
from tests.support.suite import leaks


@pytest.fixture
def left(request):
    """A function that does what a test might do, and returns what it has left."""

    def find(do):
        before = leaks.as_it_is()
        do()
        found = list(leaks.left_by(request.node, before))
        assert list(leaks.left_by(request.node, before)) == []
        return found

    return find


def hear(*args, **kwargs):
    """Listens to anything."""


def register():
    job(name="tests.left")(lambda: None)


def log():
    logging.getLogger("jobexec.left").addHandler(logging.NullHandler())
    logging.getLogger("jobexec").setLevel(logging.DEBUG)
    logging.disable(logging.ERROR)


def configure():
    django_settings.JOBEXEC = {"THREADS": 7}


@pytest.mark.parametrize(
    ("do", "named"),
    [
        (FrozenClock().__enter__, "jobexec.clock._frozen"),
        (register, "handlers"),
        (log, "logging"),
        (configure, "Django's settings"),
        (lambda: os.environ.update(LEFT="1"), "os.environ"),
        (lambda: os.chdir("/"), "the working directory"),
        (lambda: sys.path.append("/nowhere"), "sys.path"),
        (lambda: translation.activate("de"), "the language or the time zone"),
        (lambda: wake.add_listener(hear), "jobexec.operations.notify.wake._listeners"),
        (lambda: wake_workers.add_worker_listener(hear), "jobexec.operations.notify.wake_workers._listeners"),
        (lambda: signals.job_failed.connect(hear), "a receiver of the signal job_failed"),
        (lambda: connections["default"].settings_dict.update(CONN_MAX_AGE=7), "the settings of a database"),
        (lambda: connections["default"].execute_wrappers.append(hear), "a wrapper around the statements on default"),
        (lambda: sys.modules.update({"docs.examples.left": ModuleType("left")}), "the module docs.examples.left"),
    ],
)
def test_it_is_named_and_put_back(left, do, named):
    (found,) = left(do)
    assert found.startswith(named)


def test_a_thread_that_goes_on(monkeypatch):
    monkeypatch.setattr(leaks, "_PATIENCE", 0.01)
    end = threading.Event()
    thread = threading.Thread(target=end.wait, name="jobexec-left")

    def finish():
        end.set()
        thread.join()

    before = leaks.as_it_is()
    thread.start()
    try:
        assert list(leaks._new_threads(before.threads)) == ["the thread 'jobexec-left'"]
    finally:
        finish()
    assert list(leaks._new_threads(before.threads)) == []


def test_what_a_process_remembers_is_forgotten(left):
    def remember():
        clock.synchronise("default", clock.now(), clock.monotonic())
        keys._store.left["default", "", ""] = [range(5)]
        failure_groups.groups_by_text.admit("default", "pay", "x")

    assert left(remember) == []
    assert not clock._readings and not keys._store.left and not failure_groups.groups_by_text._of


def test_nothing(left):
    assert left(lambda: None) == []
