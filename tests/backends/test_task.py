"""A task of jobexec: a task of django.tasks with the options of a job, checked where it is declared."""

import copy
import dataclasses
import pickle
import re
import subprocess
import sys
from datetime import UTC, datetime, timedelta

import django
import pytest

import jobexec
from jobexec.backends.compat import InvalidTask, Task, task
from jobexec.backends.options import ELSEWHERE, OF_HANDLER
from jobexec.backends.task import JobExecutorTask
from jobexec.backends.typed import TaskCallOptions, TaskOptions
from jobexec.clock import FrozenClock
from jobexec.handlers.options import JobOptions
from jobexec.retry import RetryPlan

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
keywords = pytest.mark.skipif(
    django.VERSION[:2] == (6, 0), reason="the decorator of Django 6.0 takes no further keywords"
)


def test_what_the_decorator_makes(shop):
    assert type(shop.greet) is JobExecutorTask and isinstance(shop.greet, Task)
    assert (shop.greet.options, shop.greet.priority, shop.greet.queue_name) == ({}, 0, "default")
    assert (shop.send.priority, shop.send.queue_name, shop.send.module_path) == (7, "emails", "tests.support.shop.send")
    assert shop.pay.options == {"retries": "R3/PT1S", "exclusive": False, "sensitive": ["card"]}


@keywords
def test_the_decorator_takes_options(shop):
    made = task(retries="R5/PT5M", exclusive=True, process_instance_id="order-1", priority=3)(shop.plain)
    assert made.options == {"retries": "R5/PT5M", "exclusive": True, "process_instance_id": "order-1"}
    assert made.priority == 3


@keywords
@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"retriess": 1}, "tests.support.shop.plain: Unknown option 'retriess'. Did you mean 'retries'?"),
        ({"zzz": 1}, "Unknown option 'zzz'."),
        ({"queue": 1}, "Unknown option 'queue'. Did you mean 'queue_name'?"),
        ({"countdown": 1}, "Unknown option 'countdown'. Did you mean 'run_after'?"),
        ({"retries": "sometimes"}, "retries: Invalid retry plan 'sometimes'"),
        ({"exclusive": "yes"}, "exclusive: expected True or False, got 'yes'"),
        ({"timeout": -1}, "timeout: expected a timedelta, a number of seconds"),
        ({"category": "mail"}, "category: not an option of a task; a task belongs to a queue: @task(queue_name=...)"),
        ({"database": "other"}, "database: not an option of a task; it is OPTIONS['DATABASE']"),
        ({"delay": 5}, "delay: not an option of a task; pass it with a call: using(delay=...)"),
        ({"sensitive": "number"}, "sensitive: expected a list of names, got 'number'"),
        ({"sensitive": ["card"]}, "sensitive: 'card' is not an argument of the function"),
        ({"aliases": [1]}, "aliases: expected a list of names, got [1]"),
        ({"options": 5}, "options: expected a mapping, got 5"),
    ],
)
def test_a_wrong_option_is_an_error_at_decoration(shop, options, message):
    with pytest.raises(InvalidTask, match=re.escape(message)):
        task(**options)(shop.plain)


def test_using_takes_options_beside_the_four(shop):
    changed = shop.pay.using(priority=5, queue_name="emails", retries="R2/PT5S", process_instance_id="order-1")
    assert (changed.priority, changed.queue_name, changed.func) == (5, "emails", shop.pay.func)
    assert changed.options == {**shop.pay.options, "retries": "R2/PT5S", "process_instance_id": "order-1"}
    assert shop.pay.options["retries"] == "R3/PT1S", "the task itself stays as it is"
    assert changed.using(priority=1).options == changed.options
    assert dataclasses.replace(changed, priority=2).options == changed.options


def test_when_a_call_runs(shop):
    with FrozenClock(NOW):
        later = NOW + timedelta(minutes=5)
        assert shop.greet.using(run_after=later).run_after == later
        assert shop.greet.using(run_after=timedelta(minutes=5)).run_after == later  # as Django's documentation says
        assert shop.greet.using(delay=300).run_after == later
        assert shop.greet.using(delay=timedelta(minutes=5)).run_after == later
        with pytest.raises(InvalidTask, match="is past the year 9999"):
            shop.greet.using(delay=timedelta(days=4_000_000))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"prioritty": 1}, "tests.support.shop.greet: Unknown option 'prioritty'"),
        ({"delay": -1}, "delay: expected a timedelta, a number of seconds"),
        ({"run_after": datetime(2026, 1, 1)}, "run_after must be an aware datetime"),
        ({"sensitive": ["name"]}, "sensitive: set it where the task is declared"),
        ({"retries": "sometimes"}, "tests.support.shop.greet: retries: Invalid retry plan 'sometimes'"),
        ({"retries": lambda attempt, error: 5}, "retries: a callable plan cannot be stored with a job"),
        ({"run_after": "tomorrow"}, "run_after: expected an aware datetime or a timedelta, got 'tomorrow'"),
        ({"priority": 101}, "priority must be a whole number between -100 and 100"),
    ],
)
def test_using_refuses(shop, options, message):
    with pytest.raises(InvalidTask, match=message):
        shop.greet.using(**options)


def test_equality_and_hash_go_by_the_options_too(shop):
    one = shop.pay.using(headers={"a": [1]})
    assert one == shop.pay.using(headers={"a": [1]}) and hash(one) == hash(shop.pay.using(headers={"a": [1]}))
    assert one != shop.pay and one != shop.pay.using(headers={"a": [2]})
    assert len({one, shop.pay, shop.pay.using(headers={"a": [1]})}) == 2
    other = shop.pay.using(headers={"b": 2, "a": 1})
    assert other == shop.pay.using(headers={"a": 1, "b": 2}) != shop.pay.using(headers={"a": True, "b": 2})


@pytest.mark.parametrize("again", [lambda task: pickle.loads(pickle.dumps(task)), copy.deepcopy, copy.copy])
def test_copies_and_pickles(shop, again):
    one = shop.pay.using(headers={"a": [1]}, timeout=timedelta(seconds=5), retries=RetryPlan.exponential(5, 1))
    made = again(one)
    assert made == one and type(made) is JobExecutorTask and made.func is shop.pay.func


def test_options_cannot_be_changed(shop):
    with pytest.raises(TypeError):
        shop.pay.options["retries"] = "R9/PT1S"
    with pytest.raises(dataclasses.FrozenInstanceError):
        shop.pay.options = {}


def test_options_for_a_call_in_every_version(shop):
    changed = jobexec.options(shop.pay, retries="R9/PT1S", priority=4)
    assert (changed.options["retries"], changed.options["exclusive"], changed.priority) == ("R9/PT1S", False, 4)
    with pytest.raises(InvalidTask, match="Unknown option 'retriess'"):
        jobexec.options(shop.pay, retriess=1)
    with pytest.raises(TypeError, match="expected a task, got <function plain"):
        jobexec.options(shop.plain, retries="R9/PT1S")


def test_options_of_a_task_of_another_class(shop, backend):
    immediate = Task.__module__.rpartition(".")[0] + ".backends.immediate.ImmediateBackend"
    backend(others={"now": {"BACKEND": immediate, "QUEUES": []}})
    foreign = task(backend="now", priority=2)(shop.plain)
    assert type(foreign) is Task
    made = jobexec.options(foreign, retries="R9/PT1S")
    assert type(made) is JobExecutorTask and (made.backend, made.priority) == ("now", 2)
    assert made.using(backend="default").options == {"retries": "R9/PT1S"}
    declared = jobexec.options(sensitive=["number"])(foreign)
    assert declared.options == {"sensitive": ["number"]}


@pytest.mark.slow
def test_a_task_is_made_before_apps_are_loaded_and_without_a_database(shop):
    """Decorating at import builds the backend: it must not load models."""
    code = (
        "from django.conf import settings\n"
        "backend = {'BACKEND': 'jobexec.backends.JobExecutorBackend', 'QUEUES': []}\n"
        "settings.configure(TASKS={'default': backend}, INSTALLED_APPS=['jobexec'], USE_TZ=True)\n"
        "import tests.support.shop as shop, sys\n"
        "assert 'jobexec.models' not in sys.modules\n"
        "print(shop.pay.options['retries'])\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stdout == "R3/PT1S\n", done.stderr


def test_what_type_checkers_know_is_what_there_is():
    declared = set(JobOptions.__annotations__) - set(ELSEWHERE)
    assert set(TaskOptions.__annotations__) == declared | set(OF_HANDLER)
    assert set(TaskCallOptions.__annotations__) == declared | {
        "priority",
        "queue_name",
        "run_after",
        "delay",
        "backend",
    }
