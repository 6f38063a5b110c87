"""Tasks are run as jobs are: a thread acquires, runs and settles them, and their results say so."""

import importlib
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta

import pytest
from django.contrib.auth.models import Group

import jobexec
from jobexec.backends.compat import (
    TaskResultStatus,
    task_backends,
    task_enqueued,
    task_finished,
    task_started,
)
from jobexec.exceptions import DoNotRetry
from jobexec.executor.execute_now import execute_now
from jobexec.handlers import registry
from jobexec.models import DeadLetterJob, Job, SuspendedJob, TaskResult
from jobexec.operations import delete_jobs, requeue, suspend
from jobexec.operations.maintenance.timers import trigger_due_timers
from tests.support.executor import run_one

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
sqlite = pytest.mark.databases("sqlite")
pytestmark = [pytest.mark.transactional, pytest.mark.usefixtures("frozen")]


@pytest.fixture
def told():
    """The signals in order: name, status as the receiver saw it, id."""
    events = []

    def receiver(name):
        def receive(sender, task_result, **kwargs):
            events.append((name, str(task_result.status), task_result.id))

        return receive

    kept = {signal: receiver(name) for signal, name in _SIGNALS.items()}
    for signal, receive in kept.items():
        signal.connect(receive)
    yield events
    for signal, receive in kept.items():
        signal.disconnect(receive)


_SIGNALS = {task_enqueued: "enqueued", task_started: "started", task_finished: "finished"}


def test_success(alias, shop, told, frozen):
    result = shop.greet.enqueue("Ada", times=2)
    frozen.tick(5)
    run_one(alias)
    assert shop.seen["greet"] == [("Ada", 2)]
    found = shop.greet.get_result(result.id)
    assert (found.status, found.return_value, found.is_finished) == (
        TaskResultStatus.SUCCESSFUL,
        ["Hello Ada"] * 2,
        True,
    )
    assert (found.args, found.kwargs, found.task, found.backend) == (["Ada"], {"times": 2}, shop.greet, "default")
    assert (found.attempts, found.worker_ids, found.errors) == (1, ["test host"], [])
    assert found.enqueued_at == NOW and found.started_at == found.last_attempted_at == NOW + timedelta(seconds=5)
    assert found.finished_at is not None
    result.refresh()
    assert (result.status, result.return_value) == (found.status, found.return_value)
    assert told == [
        ("enqueued", "READY", result.id),
        ("started", "RUNNING", result.id),
        ("finished", "SUCCESSFUL", result.id),
    ]


def test_failures_retries_dead_letter_and_requeue(alias, shop, told, frozen):
    result = shop.pay.enqueue("4711")
    for attempt in (1, 2, 3):
        run_one(alias)
        result.refresh()
        assert result.attempts == len(result.worker_ids) == len(result.errors) == attempt
        if attempt < 3:
            assert (result.status, result.is_finished) == (TaskResultStatus.READY, False)
            frozen.tick(2)
            trigger_due_timers(alias, 100)
    assert (result.status, DeadLetterJob.objects.using(alias).count()) == (TaskResultStatus.FAILED, 1)
    assert [error.exception_class for error in result.errors] == [ValueError] * 3
    assert "4711" not in result.errors[0].traceback, "the card is called sensitive"
    with pytest.raises(ValueError, match="Task failed"):
        result.return_value  # noqa: B018
    assert [name for name, *_ in told] == ["enqueued", "started", "started", "started", "finished"]
    requeue(DeadLetterJob.objects.using(alias).get())
    result.refresh()
    assert (result.status, result.finished_at, result.attempts) == (TaskResultStatus.READY, None, 3)


@sqlite
def test_a_result_that_cannot_be_kept_is_a_dead_letter(alias, shop):
    shop.hooks.append(lambda: {1, 2})
    result = shop.hooked.enqueue()
    run_one(alias)
    result.refresh()
    assert (result.status, result.errors[0].exception_class) == (TaskResultStatus.FAILED, DoNotRetry)
    assert "Unsupported type: <class 'set'>" in result.errors[0].traceback


@sqlite
def test_what_is_returned_is_normalised(alias, shop):
    shop.hooks.append(lambda: {"a": (1, b"x")})
    result = shop.hooked.enqueue()
    run_one(alias)
    result.refresh()
    assert result.return_value == {"a": [1, "x"]}


@sqlite
def test_the_context(alias, shop, django_assert_num_queries):
    looks = []

    def look(context):
        looks.append((context.attempt, context.job.attempt, context.task_result.id, context.task_result.task.func))
        result = context.task_result
        looks.append((result.status, result.attempts, result.worker_ids, result.started_at == result.last_attempted_at))
        looks.append((result.enqueued_at, result.args, result.backend, len(result.errors)))
        context.job.progress(1, 2)
        context.job.check_lease()

    shop.hooks.append(look)
    result = shop.with_context.enqueue()
    run_one(alias)
    assert looks[0] == (1, 1, result.id, shop.with_context.func)
    assert looks[1] == (TaskResultStatus.RUNNING, 1, ["one"], True)
    assert looks[2] == (NOW, [], "default", 0)
    result.refresh()
    assert result.status == TaskResultStatus.SUCCESSFUL


@sqlite
def test_the_context_knows_earlier_errors(alias, shop, frozen):
    looks = []

    def look(context):
        looks.append((context.attempt, [error.exception_class for error in context.task_result.errors]))
        raise KeyError("no")

    shop.hooks.append(look)
    shop.with_context.enqueue()
    run_one(alias)
    frozen.tick(60)
    trigger_due_timers(alias, 100)
    run_one(alias)
    assert looks == [(1, []), (2, [KeyError])]


@sqlite
def test_the_context_asks_the_database_only_when_it_must(alias, shop, monkeypatch):
    asked = []
    monkeypatch.setattr("jobexec.operations.tasks.results.find_task_result", lambda *args: asked.append(args))

    def look(context):
        assert context.attempt == 1 and context.task_result.args == [context.task_result.id and 7]
        assert context.task_result.status == TaskResultStatus.RUNNING
        assert asked == []
        assert context.task_result.errors == []
        assert len(asked) == 1

    shop.hooks.append(lambda context, number: look(context))
    shop.with_context.enqueue(7)
    host = run_one(alias)
    assert host.outcomes[0].failure is None, host.outcomes[0].failure


@sqlite
def test_async_tasks_in_a_thread(alias, shop):
    results = [shop.wait.enqueue(1), shop.wait_with_context.enqueue(2)]
    for _ in results:
        run_one(alias)
    assert [shop.wait.get_backend().get_result(each.id).return_value for each in results] == [2, 2]
    assert shop.seen["wait_with_context"] == [(2, 1, TaskResultStatus.RUNNING, NOW, ["one"])]


@sqlite
def test_task_finished_is_told_with_the_error_in_flight(alias, shop, caplog):
    shop.hooks.append(lambda: 1 / 0)
    jobexec.options(shop.hooked, retries=["PT1S"]).using(retries="R1/PT1S").enqueue()
    with caplog.at_level("INFO"):
        run_one(alias)
    (record,) = [each for each in caplog.records if "state=FAILED" in each.getMessage()]
    assert record.levelname == "ERROR" and record.exc_info[0] is ZeroDivisionError


@sqlite
def test_nothing_sensitive_is_in_the_log(alias, shop, caplog):
    jobexec.options(shop.pay, retries="R1/PT1S").enqueue("4711")
    with caplog.at_level("DEBUG"):
        run_one(alias)
    assert "state=FAILED" in caplog.text and "4711" not in caplog.text


@sqlite
def test_errors_in_receivers_harm_nobody(alias, shop, caplog):
    def fail(**kwargs):
        raise ValueError("in a receiver")

    for signal in (task_started, task_finished):
        signal.connect(fail)
    try:
        result = shop.greet.enqueue("Ada")
        run_one(alias)
    finally:
        for signal in (task_started, task_finished):
            signal.disconnect(fail)
    result.refresh()
    assert result.status == TaskResultStatus.SUCCESSFUL
    assert caplog.text.count("in a receiver") >= 2


@contextmanager
def heard(*receivers):
    """These receivers of (task_started, task_finished) are connected."""
    pairs = list(zip((task_started, task_finished), receivers, strict=True))
    for signal, receive in pairs:
        signal.connect(receive)
    try:
        yield
    finally:
        for signal, receive in pairs:
            signal.disconnect(receive)


@pytest.mark.parametrize("atomic", [False, True])
@pytest.mark.parametrize("name", ["hooked", "wait"])
def test_async_receivers_read_the_result(alias, shop, name, atomic):
    seen = []

    async def started(sender, task_result, **kwargs):
        seen.append((task_result.enqueued_at, task_result.args, str(task_result.status), task_result.attempts))

    async def finished(sender, task_result, **kwargs):
        seen.append((task_result.return_value, task_result.args, task_result.worker_ids))
        await task_result.arefresh()
        seen.append(str(task_result.status))

    shop.hooks.append(lambda number: number + 1)
    task = shop.wait if name == "wait" else jobexec.options(shop.hooked, atomic=atomic)
    task.enqueue(1)
    with heard(started, finished):
        run_one(alias)
    assert seen == [(NOW, [1], "RUNNING", 1), (2, [1], ["test host"]), "SUCCESSFUL"]


@sqlite
def test_without_async_receivers_nothing_is_loaded(alias, shop, monkeypatch):
    asked = []
    monkeypatch.setattr("jobexec.operations.tasks.results.find_task_result", lambda *args: asked.append(args))
    shop.greet.enqueue("Ada")
    with heard(lambda **kwargs: None, lambda **kwargs: None):
        run_one(alias)
    assert (shop.seen["greet"], asked) == ([("Ada", 1)], [])


@sqlite
def test_a_result_that_cannot_be_loaded_for_async_receivers_is_logged(alias, shop, away_once, caplog):
    seen = []

    async def receive(sender, task_result, **kwargs):
        seen.append(str(task_result.status))

    result = shop.greet.enqueue("Ada")
    with heard(receive, receive):
        run_one(alias)
    assert (seen, away_once) == (["RUNNING", "SUCCESSFUL"], [result.id])
    assert f"The result of the task {result.id} could not be loaded for async receivers" in caplog.text


def test_several_aliases_on_one_engine(alias, shop, backend):
    backend(others={"second": {"BACKEND": "jobexec.backends.JobExecutorBackend", "OPTIONS": {"DATABASE": alias}}})
    seen = []

    def look(context):
        seen.append((context.task_result.task.backend, context.task_result.backend))
        context.task_result.refresh()
        seen.append(str(context.task_result.status))

    def receive(sender, task_result, **kwargs):
        task_result.refresh()
        seen.append((str(task_result.status), task_result.task.backend))

    shop.hooks.append(look)
    shop.with_context.using(backend="second").enqueue()
    with heard(lambda **kwargs: None, receive):
        run_one(alias)
        assert seen == [("second", "second"), "RUNNING", ("SUCCESSFUL", "second")]
        removed = shop.greet.using(backend="second").enqueue("Ada")
        delete_jobs(Job.objects.using(alias).filter(pk=removed.id))
    assert seen[-1] == ("FAILED", "second")


@sqlite
def test_an_atomic_task_commits_with_its_result(alias, shop):
    shop.hooks.append(lambda: Group.objects.using(alias).create(name="x").name)
    result = jobexec.options(shop.hooked, atomic=True).enqueue()
    run_one(alias)
    result.refresh()
    assert (result.return_value, Group.objects.using(alias).count()) == ("x", 1)


@sqlite
def test_execute_now_keeps_the_result(alias, shop, told):
    result = shop.greet.enqueue("Ada")
    assert execute_now(result.id, using=alias) == ["Hello Ada"]
    result.refresh()
    assert (result.status, result.return_value) == (TaskResultStatus.SUCCESSFUL, ["Hello Ada"])
    assert [name for name, *_ in told] == ["enqueued", "started", "finished"]


@sqlite
def test_what_an_operator_ends_has_failed(alias, shop, told):
    result = shop.greet.enqueue("Ada")
    delete_jobs(Job.objects.using(alias).filter(pk=result.id))
    result.refresh()
    assert (result.status, result.attempts, len(result.errors)) == (TaskResultStatus.FAILED, 0, 1)
    assert told[-1] == ("finished", "FAILED", result.id)


@sqlite
def test_a_suspended_task_is_ready(alias, shop):
    result = shop.greet.enqueue("Ada")
    suspend(Job.objects.using(alias).get(pk=result.id))
    assert SuspendedJob.objects.using(alias).filter(pk=result.id).exists()
    result.refresh()
    assert result.status == TaskResultStatus.READY


def test_a_database_that_is_away_before_the_call_gives_the_job_back(alias, shop, away_once):
    result = shop.wait_with_context.enqueue(7)
    host = run_one(alias)
    assert [outcome.run for outcome in host.outcomes] == [None]
    result.refresh()
    assert (shop.seen["wait_with_context"], result.errors) == ([], [])


@pytest.mark.parametrize("everywhere", [True, False])
def test_arguments_and_results_are_encrypted(alias, backend, configure, everywhere):
    keys = {"ENCRYPTION_KEYS": {"2026": lambda: b"k" * 32}}
    if everywhere:
        configure(**keys, ENCRYPT_ARGUMENTS=True)
        backend()
    else:
        configure(**keys)
        backend(ENCRYPTED=True)
    with registry.isolated():
        shop = importlib.import_module("tests.support.shop")
        task_backends["default"].validate_task(shop.greet)
        result = shop.greet.using(queue_name="emails").enqueue("a secret name", times=2)
        row = Job.objects.using(alias).get()
        assert "a secret name" not in str(row.handler_configuration)
        assert row.handler_configuration["queue_name"] == "emails", "the queue stays readable"
        waiting = shop.greet.get_result(result.id)
        assert (waiting.args, waiting.kwargs) == (["a secret name"], {"times": 2})
        Job.objects.using(alias).update(category="default")
        run_one(alias)
        stored = TaskResult.objects.using(alias).get()
        assert "secret" not in str([stored.handler_configuration, stored.return_value])
        assert shop.greet.get_result(result.id).return_value == ["Hello a secret name"] * 2
