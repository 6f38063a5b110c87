"""Enqueueing a task is one INSERT in the caller's transaction, with all that a job can have."""

import asyncio
import copy
import dataclasses
import json
import pickle
from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest
from django.contrib.auth.models import Group
from django.db import connections, transaction

import jobexec
from jobexec import clock
from jobexec.backends.compat import (
    InvalidTask,
    InvalidTaskBackend,
    TaskResultStatus,
    task,
    task_backends,
    task_enqueued,
)
from jobexec.clock import FrozenClock
from jobexec.exceptions import DuplicateJob, InvalidJob
from jobexec.models import Job, TimerJob
from tests.support.threads import together

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
sqlite = pytest.mark.databases("sqlite")


@pytest.fixture(autouse=True)
def frozen():
    with FrozenClock(NOW) as clock:
        yield clock


@pytest.fixture
def enqueued():
    """What the signal told: senders and results."""
    told = []

    def receive(sender, task_result, **kwargs):
        told.append((sender, task_result))

    task_enqueued.connect(receive)
    yield told
    task_enqueued.disconnect(receive)


def stored(alias, table=Job):
    return table.objects.using(alias).get()


def test_the_row_and_the_result(alias, shop, enqueued):
    result = shop.greet.enqueue("Ada", times=2)
    row = stored(alias)
    assert row.handler_configuration == {"args": ["Ada"], "kwargs": {"times": 2}}
    assert (row.handler_type, row.job_definition_id, row.task_backend) == (shop.greet.module_path,) * 2 + ("default",)
    assert (result.id, result.status, result.task) == (str(row.pk), TaskResultStatus.READY, shop.greet)
    assert (result.args, result.kwargs, result.backend, result.attempts) == (["Ada"], {"times": 2}, "default", 0)
    assert (result.enqueued_at, result.started_at, result.finished_at) == (NOW, None, None)
    assert enqueued == [(type(task_backends["default"]), result)]


def test_one_insert(alias, shop, django_assert_num_queries):
    shop.greet.enqueue("Ada")  # what is prepared once
    with django_assert_num_queries(1, using=alias):
        shop.greet.enqueue("Ada")


def test_it_is_rolled_back_with_the_callers_data(alias, shop):
    with transaction.atomic(using=alias):
        Group.objects.using(alias).create(name="orders")
        shop.greet.enqueue("Ada")
        transaction.set_rollback(True, using=alias)
    assert not Job.objects.using(alias).exists() and not Group.objects.using(alias).exists()


def test_priority_queue_and_moment(alias, shop):
    assert shop.send.enqueue(5).task.queue_name == "emails"
    row = stored(alias)
    assert (row.priority, row.category) == (7, "mail")
    later = shop.send.using(run_after=NOW + timedelta(hours=1), priority=-3)
    result = later.enqueue(6)
    timer = stored(alias, TimerJob)
    assert (timer.due_date, timer.priority, result.task.run_after) == (NOW + timedelta(hours=1), -3, timer.due_date)


@pytest.mark.parametrize("how", [{"delay": 60}, {"run_after": timedelta(minutes=1)}])
def test_a_delay_counts_from_the_call_by_the_time_of_the_engine(alias, shop, frozen, how, monkeypatch):
    later = jobexec.options(shop.greet, **how).using(priority=3)
    later = dataclasses.replace(later, queue_name="emails")
    frozen.tick(3600)
    monkeypatch.setattr("jobexec.handlers.function.now_of", lambda using: clock.now(using) + timedelta(seconds=5))
    for call in (later, pickle.loads(pickle.dumps(later)), copy.deepcopy(later)):
        result = call.enqueue("Ada")
        row = stored(alias, TimerJob)
        assert (row.due_date, row.priority) == (NOW + timedelta(seconds=3665), 3)
        assert result.task.run_after == row.due_date and result.task.queue_name == "emails"
        row.delete()
    fixed = dataclasses.replace(later, run_after=later.run_after + timedelta(hours=2))
    assert fixed.enqueue("Ada").task.run_after == stored(alias, TimerJob).due_date == NOW + timedelta(seconds=7260)


def test_any_node_may_run_a_task_whatever_the_deployment_of_who_enqueues(alias, shop, backend, settings):
    settings.JOBEXEC = {**settings.JOBEXEC, "DEPLOYMENT": "shop:7"}
    shop.pay.enqueue("4711")
    backend(DEPLOYMENT=None)
    shop.pay.enqueue("4711")
    shop.pay.using(deployment="shop:6").enqueue("4711")
    rows = Job.objects.using(alias).order_by("id").values_list("deployment_id", flat=True)
    assert list(rows) == ["shop:7", "", "shop:6"]


def test_precedence_of_options(alias, shop, backend):
    path = shop.pay.module_path
    backend(
        PROCESS_DEFINITION_KEY="all",
        TENANT_ID="all",
        CORRELATION_ID="all",
        RETRIES="R9/PT9S",
        TASK_OPTIONS={path: {"tenant_id": "of task", "correlation_id": "of task", "retries": "R8/PT8S"}},
    )
    shop.pay.using(correlation_id="of call").enqueue("4711")
    row = stored(alias)
    assert (row.process_definition_key, row.tenant_id, row.correlation_id) == ("all", "of task", "of call")
    assert (row.retries, row.retry_plan, row.exclusive) == (3, "R3/PT1S", False)
    shop.greet.enqueue("Ada")
    row = Job.objects.using(alias).get(handler_type=shop.greet.module_path)
    assert (row.retries, row.retry_plan, row.tenant_id) == (9, "R9/PT9S", "all")


@sqlite
def test_without_any_option_the_settings_count(alias, shop, configure):
    configure(DEFAULT_RETRY_PLAN="R7/PT1S", ATOMIC_JOBS=True)
    shop.greet.enqueue("Ada")
    assert (stored(alias).retries, stored(alias).retry_plan, stored(alias).atomic) == (7, "", True)


@sqlite
def test_options_become_columns(alias, shop):
    jobexec.options(
        shop.greet,
        process_instance_id="order-1",
        root_process_instance_id="cart-1",
        atomic=True,
        timeout=90,
        headers={"a": [1]},
    ).enqueue("Ada")
    row = stored(alias)
    assert (row.process_instance_id, row.root_process_instance_id, row.atomic) == ("order-1", "cart-1", True)
    assert (row.timeout, row.custom_headers) == (timedelta(seconds=90), {"a": [1]})


@sqlite
def test_the_options_of_a_call_are_those_that_it_was_given(alias, shop):
    headers, retries = {"order": [0]}, ["PT1S"]
    for number in (1, 2, 3):
        headers["order"][0] = number
        retries.append("PT1S")
        shop.greet.using(headers=headers, retries=retries).enqueue("Ada")
    rows = Job.objects.using(alias).order_by("pk").values_list("custom_headers", "retries")
    assert list(rows) == [({"order": [number]}, number + 2) for number in (1, 2, 3)]


@sqlite
def test_headers_that_are_equal_in_python_but_not_in_json(alias, shop):
    for value in (1, True, 1.0):
        shop.greet.using(headers={"express": value}).enqueue("Ada")
    rows = Job.objects.using(alias).order_by("pk").values_list("custom_headers", flat=True)
    assert [repr(headers["express"]) for headers in rows] == ["1", "True", "1.0"]


@sqlite
def test_arguments_are_normalised_as_djangos(alias, shop):
    result = shop.hooked.enqueue((1, 2), b"bytes", {"a": (3,)})
    assert result.args == [[1, 2], "bytes", {"a": [3]}]
    assert stored(alias).handler_configuration["args"] == result.args


@sqlite
@pytest.mark.parametrize(
    ("argument", "error", "message"),
    [
        (datetime(2026, 1, 1), TypeError, "Unsupported type: <class 'datetime.datetime'>"),
        (Decimal(1), TypeError, "Unsupported type"),
        (Group(name="x"), TypeError, "Unsupported type"),
        ({1, 2}, TypeError, "Unsupported type"),
        (b"\xff", ValueError, "Unsupported value"),
        (float("nan"), InvalidJob, "expected JSON"),
        ("\x00", InvalidJob, "U\\+0000"),
    ],
)
def test_what_is_no_json_is_refused(alias, shop, enqueued, argument, error, message):
    with pytest.raises(error, match=message):
        shop.hooked.enqueue(argument)
    assert not Job.objects.using(alias).exists() and not enqueued


@sqlite
def test_arguments_that_do_not_fit_are_refused(alias, shop):
    with pytest.raises(InvalidJob, match="greet: missing a required argument: 'name'"):
        shop.greet.enqueue()
    with pytest.raises(InvalidJob, match="too many positional arguments"):
        shop.attempt.enqueue(1, 2)


@sqlite
def test_a_queue_that_the_backend_does_not_have(alias, shop, backend):
    backend(queues=["default"])
    with pytest.raises(InvalidTask, match="Queue 'emails' is not valid for backend"):
        shop.send.enqueue(1)


@sqlite
def test_a_queue_without_a_category(alias, shop):
    with pytest.raises(InvalidJob, match=r"category: expected one of default, mail .*, got 'zzz'"):
        shop.greet.using(queue_name="zzz").enqueue("Ada")


@sqlite
def test_wrong_options_of_the_backend_refuse_all_tasks(alias, shop, backend):
    backend(RETRIEZ="R5/PT5M")
    with pytest.raises(InvalidTaskBackend, match=r"TASKS\['default'\]\['OPTIONS'\]: RETRIEZ: unknown; expected one"):
        shop.greet.enqueue("Ada")


@pytest.mark.transactional
@sqlite
def test_async_callers(alias, shop):
    async def main():
        result = await shop.greet.aenqueue("Ada")
        return result, await shop.greet.aget_result(result.id)

    enqueued, found = asyncio.run(main())
    assert (found.id, found.status, found.args) == (enqueued.id, TaskResultStatus.READY, ["Ada"])


@sqlite
def test_an_error_in_a_receiver_harms_nobody(alias, shop, caplog):
    def fail(**kwargs):
        raise ValueError("in a receiver")

    task_enqueued.connect(fail)
    try:
        assert shop.greet.enqueue("Ada").id == str(stored(alias).pk)
    finally:
        task_enqueued.disconnect(fail)
    assert "in a receiver" in caplog.text


def test_an_error_of_the_database_in_a_receiver_does_not_spoil_the_transaction(alias, shop):
    def fail(**kwargs):
        with connections[alias].cursor() as cursor:
            cursor.execute("SELECT * FROM there_is_no_such_table")

    task_enqueued.connect(fail)
    try:
        with transaction.atomic(using=alias):
            shop.greet.enqueue("Ada")
            Group.objects.using(alias).create(name="orders")
    finally:
        task_enqueued.disconnect(fail)
    assert Job.objects.using(alias).exists() and Group.objects.using(alias).exists()


@sqlite
def test_a_task_that_was_declared_for_another_backend(alias, shop, backend):
    backend(others={"now": {"BACKEND": _immediate(), "QUEUES": []}})
    foreign = task(backend="now")(shop.plain)
    result = foreign.using(backend="default").enqueue(3)
    assert (stored(alias).task_backend, result.backend, result.task.backend) == ("default",) * 3
    assert json.dumps(stored(alias).handler_configuration) == '{"args": [3], "kwargs": {}}'


def _immediate():
    return task.__module__.rpartition(".")[0] + ".backends.immediate.ImmediateBackend"


@sqlite
def test_each_thread_has_a_backend_of_its_own(alias, shop):
    found = together(alias, *[lambda: task_backends["default"]] * 2)
    assert len({id(each) for each in (*found, task_backends["default"])}) == 3


@sqlite
def test_a_unique_task_returns_the_one_that_is_there(alias, shop, enqueued):
    once = shop.send.using(unique=True)
    first, second, third = once.enqueue(1), once.enqueue(1), once.enqueue(2)
    assert (second.id, second.status) == (first.id, TaskResultStatus.READY) and third.id != first.id
    assert [result.id for _, result in enqueued] == [first.id, third.id], "nothing is told of what was not inserted"
    with pytest.raises(DuplicateJob):
        once.using(on_conflict="raise").enqueue(1)
    assert Job.objects.using(alias).count() == 2


@sqlite
def test_defaults_about_unique_tasks_are_for_those_only(alias, shop, backend):
    backend(ON_CONFLICT="raise")
    shop.send.enqueue(1)
    shop.send.using(unique=True).enqueue(1)
    with pytest.raises(DuplicateJob):
        shop.send.using(unique=True).enqueue(1)
    with pytest.raises(InvalidTask, match="send: on_conflict: only valid with the option unique"):
        shop.send.using(on_conflict="ignore").enqueue(1)
