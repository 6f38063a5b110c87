"""Rows that no code of ours writes: each ends as a dead letter that says why, and none stops a loop."""

import json
from datetime import UTC, datetime, timedelta, timezone

import pytest
from django.db import connections

from jobexec.exceptions import InvalidJob
from jobexec.models import DeadLetterJob, ExclusiveLock, Job, TimerJob
from jobexec.operations import trigger_due_timers
from jobexec.operations.reports.running import jobs_in_hand
from jobexec.operations.rows import move_statement
from jobexec.operations.settle.recover import recover_node
from tests.support.executor import run_one
from tests.support.factories import acquire, make_job, make_node, tables_of
from tests.support.waiting import until

pytestmark = pytest.mark.transactional


def write_raw(alias, row, table=Job, **columns):
    """Write what no model field lets through."""
    connection = connections[alias]
    with connection.cursor() as cursor:
        if connection.vendor == "sqlite":
            cursor.execute("PRAGMA ignore_check_constraints = ON")
        try:
            for name, value in columns.items():
                pk = row.pk if connection.features.has_native_uuid_field else row.pk.hex
                cursor.execute(f"UPDATE {table._meta.db_table} SET {name} = %s WHERE id = %s", [value, pk])
        finally:
            if connection.vendor == "sqlite":
                cursor.execute("PRAGMA ignore_check_constraints = OFF")


@pytest.fixture(autouse=True)
def handlers(handle):
    handle(lambda number=0: None, name="tests.fine")


def dead(alias):
    return DeadLetterJob.objects.using(alias).get()


@pytest.mark.parametrize(
    "configuration", [[], 7, None, "text", {}, {"args": []}, {"args": {}, "kwargs": {}}, {"args": [1, 2], "kwargs": {}}]
)
def test_arguments_of_a_wrong_shape(alias, configuration):
    row = make_job(alias, handler_type="tests.fine")
    write_raw(alias, row, handler_configuration=json.dumps(configuration))
    run_one(alias)
    assert dead(alias).exception_message.startswith("UnreadableJob: The arguments in the row cannot be read")
    assert (dead(alias).pk, dead(alias).retries) == (row.pk, 0)


def test_an_empty_lock_owner_is_listed(alias):
    write_raw(alias, make_job(alias), lock_owner="")
    (job,) = jobs_in_hand(alias, 10)
    assert job.node == ""


@pytest.mark.databases("sqlite")  # the others refuse it
@pytest.mark.parametrize("text", ["{broken", "", "\x00", '{"args": [1', "{'args': []}"])
def test_broken_json(alias, text):
    row, fine = make_job(alias, handler_type="tests.fine"), make_job(alias, handler_type="tests.fine")
    write_raw(alias, row, handler_configuration=text)
    run_one(alias)
    assert tables_of(alias) == {row.pk: [DeadLetterJob]}, fine
    assert "cannot be read" in dead(alias).exception_message


@pytest.mark.databases("sqlite", "postgresql")
@pytest.mark.parametrize("size", [5_000, 100_000])
def test_json_that_python_refuses(alias, size):
    number, depth = '{"args": [' + "9" * size + '], "kwargs": {}}', "[" * 5_000 + "]" * 5_000
    rows = [make_job(alias, handler_type="tests.fine") for _ in range(2)]
    write_raw(alias, rows[0], handler_configuration=number)
    write_raw(alias, rows[1], handler_configuration=depth)
    fine = make_job(alias, handler_type="tests.fine")
    run_one(alias)
    tables = tables_of(alias)
    assert fine.pk not in tables
    assert tables[rows[0].pk] == [DeadLetterJob]
    assert tables[rows[1].pk] in ([DeadLetterJob], [TimerJob])
    assert not Job.objects.using(alias).exists()


ABSURD = {
    "sqlite": [
        {"attempts": -5},
        {"retries": -1},
        {"create_time": "yesterday"},
        {"due_date": "2026-99-99"},
        {"timeout": "long"},
        {"traceparent": "x" * 100_000, "retries": "many"},
        {"custom_headers": "{broken", "priority": "high"},
    ],
    "postgresql": [
        {"create_time": "infinity"},
        {"due_date": "-infinity"},
        {"timeout": "3000000 years"},
        {"unknown_since": "20000-01-01"},
    ],
    "mariadb": [],
}


def absurd(alias):
    """The absurd values that this database takes."""
    return ABSURD[{"default": "sqlite"}.get(alias, alias)]


@pytest.mark.gate
@pytest.mark.databases("sqlite", "postgresql")
def test_absurd_values_do_not_stop_acquisition(alias):
    for columns in absurd(alias):
        row = make_job(alias, handler_type="tests.fine", process_instance_id="order-1")
        write_raw(alias, row, **columns)
        fine = make_job(alias, handler_type="tests.fine")
        for _ in range(3):
            run_one(alias)
        tables = tables_of(alias)
        assert (fine.pk in tables, tables.get(row.pk, [DeadLetterJob])) == (False, [DeadLetterJob]), columns
        assert not ExclusiveLock.objects.using(alias).exists()
        DeadLetterJob._base_manager.using(alias).all().delete()


@pytest.mark.gate
@pytest.mark.databases("sqlite", "postgresql")
def test_absurd_values_do_not_stop_the_timers(alias, monkeypatch):
    monkeypatch.setattr(move_statement, "is_possible", lambda using: False)  # what is not read is moved as it is
    past = datetime(2026, 1, 1, tzinfo=UTC)
    for columns in absurd(alias):
        if "due_date" in columns:
            continue  # then it is not due
        rows = [make_job(alias, due_date=datetime(2100, 1, 1, tzinfo=UTC)) for _ in range(2)]
        TimerJob.objects.using(alias).update(due_date=past)
        write_raw(alias, rows[0], TimerJob, **columns)
        for _ in range(2):
            trigger_due_timers(alias, 100)
        assert tables_of(alias) == {rows[0].pk: [DeadLetterJob], rows[1].pk: [Job]}, columns
        assert any(name in dead(alias).exception_message for name in columns)
        for table in (DeadLetterJob, Job):
            table._base_manager.using(alias).all().delete()


@pytest.mark.gate
@pytest.mark.databases("sqlite", "postgresql")
def test_absurd_values_do_not_stop_recovery(alias):
    for columns in absurd(alias):
        node = make_node(alias, lease_time=timedelta(microseconds=1))
        rows = [make_job(alias, process_instance_id="order-1") for _ in range(2)]
        acquire(alias, node.lock_owner)
        write_raw(alias, rows[0], **columns)
        recover_node(alias, node)
        assert not Job.objects.using(alias).exclude(lock_owner=None).exists(), columns
        assert not ExclusiveLock.objects.using(alias).exists()
        with connections[alias].cursor() as cursor:
            cursor.execute(f"DELETE FROM {Job._meta.db_table}")


@pytest.mark.parametrize("text", ["garbage", "R0/PT5M", "R3/P99999999Y", "\N{PILE OF POO}", "R3/"])
def test_a_retry_plan_that_is_garbage_is_replaced_by_the_default_one(alias, handle, text, caplog):
    handle(lambda: 1 / 0, name="tests.fail")
    row = make_job(alias, handler_type="tests.fail")
    write_raw(alias, row, retry_plan=text)
    run_one(alias)
    assert TimerJob.objects.using(alias).get().retries == 2
    assert "its retry plan is broken; using the default plan" in caplog.text


def test_a_storm_of_broken_retry_plans_is_ten_lines_in_the_log(alias, handle, caplog):
    handle(lambda: 1 / 0, name="tests.fail")
    for _ in range(12):
        write_raw(alias, make_job(alias, handler_type="tests.fail"), retry_plan="garbage")
    for _ in range(12):
        run_one(alias)
    assert TimerJob.objects.using(alias).count() == 12
    assert len([text for text in caplog.messages if "its retry plan is broken" in text]) == 10


def test_huge_texts_and_far_numbers_are_run(alias, handle):
    seen = []
    handle(lambda text: seen.append(len(text)), name="tests.long")
    row = make_job(
        alias,
        handler_type="tests.long",
        handler_configuration={"args": ["ä" * 500_000], "kwargs": {}},
        exception_stack="x" * 500_000,
    )
    write_raw(alias, row, priority=-(2**31), rank=2**63 - 1, attempts=2**31 - 2)
    run_one(alias)
    assert (seen, tables_of(alias)) == ([500_000], {})


def test_a_negative_timeout_is_a_deadline_in_the_past_and_no_error(alias, handle):
    left = []
    handle(lambda context: left.append(context.deadline < context.started_at), name="tests.late", takes_context=True)
    make_job(alias, handler_type="tests.late", timeout=timedelta(seconds=-5))
    run_one(alias)
    assert left == [True]


@pytest.mark.gate
def test_a_running_executor_goes_on_past_all_of_them(alias, make_executor, handle):
    done = []
    handle(done.append, name="tests.note")
    bad = [make_job(alias, handler_type="tests.note") for _ in absurd(alias)]
    for row, columns in zip(bad, absurd(alias), strict=True):
        write_raw(alias, row, **columns)
    for number in range(10):
        make_job(alias, handler_type="tests.note", handler_configuration={"args": [number], "kwargs": {}})
    executor = make_executor({"WAIT_TIME": 0.01, "MAX_WAIT": 0.05, "MAX_WAIT_WHEN_LISTENING": 0.05})
    executor.start()
    until(lambda: len(done) == 10)
    until(lambda: executor.idle and not Job.objects.using(alias).exists())
    assert DeadLetterJob.objects.using(alias).count() == len(bad)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"prioritty": 3}, "Unknown option 'prioritty'. Did you mean 'priority'?"),
        ({"run_after": datetime(2030, 1, 1)}, "datetime with a time zone, got the naive"),
        ({"run_after": datetime.max.replace(tzinfo=timezone(timedelta(hours=-14)))}, "expected a moment from the year"),
        ({"retries": "R3/PT5X"}, "retries: "),
        ({"retries": -1}, "retries: "),
        ({"category": "mial"}, "category: expected one of default"),
    ],
)
def test_wrong_options_are_refused_and_nothing_is_inserted(alias, handle, options, message):
    function = handle(lambda: None, name="tests.refuse")
    with pytest.raises(InvalidJob, match=message.replace("?", r"\?").replace(".", r"\.")):
        function.using(database=alias, **options).enqueue()
    assert tables_of(alias) == {}


@pytest.mark.parametrize("value", [object(), {1, 2}, float("nan"), b"bytes", "\x00", lambda: None])
def test_arguments_that_are_not_json_are_refused_and_nothing_is_inserted(alias, handle, value):
    function = handle(lambda value: None, name="tests.refuse", database=alias)
    with pytest.raises(InvalidJob, match="argument 'value'"):
        function.enqueue(value)
    with pytest.raises(InvalidJob):
        function.enqueue_many([(1,), (value,)])
    assert tables_of(alias) == {}
