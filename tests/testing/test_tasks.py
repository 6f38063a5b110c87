"""Tasks of django.tasks are named where jobs are, and run by the same executor."""

import importlib

import pytest
from django.db import transaction

from jobexec.backends.compat import task_backends
from jobexec.handlers import registry
from jobexec.testing import ManualExecutor, captured_jobs, fail, immediate


@pytest.fixture
def greet(alias, settings):
    """A task on the database of the test."""
    settings.JOBEXEC = {**settings.JOBEXEC, "CATEGORIES": ["default", "mail"]}
    options = {"DATABASE": alias, "CATEGORIES": {"emails": "mail"}}
    backend = "jobexec.backends.JobExecutorBackend"
    settings.TASKS = {"default": {"BACKEND": backend, "QUEUES": [], "OPTIONS": options}}
    with registry.isolated():
        shop = importlib.import_module("tests.support.shop")
        task_backends["default"].validate_task(shop.greet)
        yield shop.greet


class Everywhere:
    def test_it_runs_and_its_result_is_kept(self, alias, greet):
        result = greet.enqueue("Jane")
        executor = ManualExecutor(alias)
        executor.assert_enqueued(greet, args=["Jane"], count=1)
        executor.assert_enqueued("tests.support.shop.greet")
        (ran,) = executor.run_until_empty()
        assert (ran.outcome, ran.value, ran.handler) == ("successful", ["Hello Jane"], "tests.support.shop.greet")
        result.refresh()
        assert (str(result.status), result.return_value) == ("SUCCESSFUL", ["Hello Jane"])

    def test_a_failure(self, alias, greet):
        result = greet.enqueue("Jane")
        with fail(greet, ValueError("asked for")):
            ManualExecutor(alias).run_until_empty()
        result.refresh()
        assert str(result.status) == "READY"
        assert result.errors[0].exception_class_path == "builtins.ValueError"


class TestInATestCase(Everywhere):
    pass


@pytest.mark.transactional
class TestWithoutATransaction(Everywhere):
    pass


def test_captured_and_immediate(alias, greet):
    with captured_jobs() as captured, immediate(alias), transaction.atomic(using=alias):
        result = greet.enqueue("Jane")
    captured.assert_enqueued(greet, args=["Jane"])
    result.refresh()
    assert result.return_value == ["Hello Jane"]
