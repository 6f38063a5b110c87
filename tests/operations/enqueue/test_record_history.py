"""Recording history, and writing it exactly once."""

from datetime import timedelta

import pytest
from django.contrib.auth.models import Group
from django.db import IntegrityError, connections, transaction

from jobexec import DoNotRetry, InvalidJob, record_history
from jobexec.exceptions import HandlerNotFound, JobNotFound
from jobexec.executor.execute_now import execute_now
from jobexec.executor.run.execution import failure_of
from jobexec.models import DeadLetterJob, HistoryJob, Incident, Job, JobLog, JobType, LogState
from jobexec.operations import delete_jobs, find_job, requeue, retry_now, set_due_date, set_retries
from jobexec.operations.maintenance.history_jobs import next_history_date, write_history
from jobexec.operations.notify.wake import HISTORY, add_listener, remove_listener
from jobexec.retry import RetryPlan
from tests.support.factories import make_row, table_of

pytestmark = pytest.mark.every_database

PLAN = RetryPlan.parse("R10/PT10S")


class Writer:
    """Writes a Group for each record that is a text; then what stands in `errors` for it is raised or called."""

    node_name = "here"

    def __init__(self):
        self.calls, self.errors = [], {}

    def write(self, handler_type, records):
        self.calls.append((handler_type, records))
        if handler_type == "unknown":
            raise HandlerNotFound("No history handler 'unknown' is registered in this process.")
        for record in records:
            if isinstance(record.data, str):
                Group.objects.using(record.using).create(name=record.data)
            error = self.errors.get(record.data) if isinstance(record.data, str) else None
            if isinstance(error, Exception):
                raise error
            if error is not None:
                error()

    def failure_of(self, handler_type, error):
        handler = None if handler_type == "unknown" else self
        return failure_of(error, "default", handler)

    retry_plan = PLAN


@pytest.fixture
def writer():
    return Writer()


def written(alias):
    return list(Group.objects.using(alias).order_by("name").values_list("name", flat=True))


def record(alias, *records, name="tests.audit", **values):
    return record_history(name, *records, using=alias, **values)


# -- recording -------------------------------------------------------------------------------------------------


def test_one_call_makes_one_row_with_all_its_records(alias, frozen):
    row = record(alias, {"a": 1}, ["b"], None, tenant_id="acme", process_instance_id="order-1")
    saved = HistoryJob.objects.using(alias).get()
    assert saved == row
    assert saved.handler_configuration == row.handler_configuration == {"records": [{"a": 1}, ["b"], None]}
    assert (saved.type, saved.handler_type, saved.retries, saved.attempts) == (JobType.HISTORY, "tests.audit", 10, 0)
    assert (saved.tenant_id, saved.process_instance_id) == ("acme", "order-1")
    assert saved.create_time == saved.due_date == frozen.now == next_history_date(alias)
    assert saved._state.db == row._state.db == alias


def test_without_records_nothing_is_written(alias):
    assert record(alias) is None
    assert not HistoryJob.objects.using(alias).exists()
    assert next_history_date(alias) is None


def test_it_is_rolled_back_with_what_it_tells_of_savepoints_included(alias):
    with transaction.atomic(using=alias):
        record(alias, "kept")
        with pytest.raises(ZeroDivisionError), transaction.atomic(using=alias):
            record(alias, "undone")
            raise ZeroDivisionError
        record(alias, "kept too")
    rows = HistoryJob.objects.using(alias).order_by("pk")
    assert [row.handler_configuration["records"] for row in rows] == [["kept"], ["kept too"]]


def test_the_attempts_are_a_setting(alias, configure):
    configure(HISTORY_JOB_RETRIES=2)
    assert record(alias, 1).retries == 2


@pytest.mark.parametrize(
    ("name", "records", "values", "message"),
    [
        ("", [1], {}, "name: expected the name of a history handler"),
        (7, [1], {}, "name: expected a string"),
        ("x" * 256, [1], {}, "name: expected a string of at most 255"),
        ("tests.audit", [1, object()], {}, "tests.audit: record 2: expected JSON"),
        ("tests.audit", [float("nan")], {}, "record 1: expected JSON"),
        ("tests.audit", ["\x00"], {}, "U\\+0000"),
        ("tests.audit", [1], {"tenant_id": "x" * 65}, "tenant_id: expected a string of at most 64"),
        ("tests.audit", [1], {"process_instance_id": None}, "process_instance_id: expected a string"),
    ],
)
def test_what_cannot_be_recorded_is_refused(alias, name, records, values, message):
    with pytest.raises(InvalidJob, match=message):
        record_history(name, *records, using=alias, **values)
    assert not HistoryJob.objects.using(alias).exists()


@pytest.mark.transactional
def test_the_history_loops_are_woken_after_the_commit(alias):
    heard = []
    listener = lambda using, content: heard.append((using, content))  # noqa: E731
    add_listener(listener)
    try:
        with transaction.atomic(using=alias):
            record(alias, 1)
            assert heard == []
        assert heard == [(alias, HISTORY)]
    finally:
        remove_listener(listener)


# -- writing ---------------------------------------------------------------------------------------------------


def test_writes_what_is_due_handler_by_handler_and_deletes_it(alias, writer, frozen):
    first = record(alias, "a", "b", tenant_id="acme", process_instance_id="order-1")
    record(alias, 1, name="tests.other")
    record(alias, "c")
    assert write_history(alias, 10, writer) == 3
    assert written(alias) == ["a", "b", "c"]
    assert [(name, [each.data for each in records]) for name, records in writer.calls] == [
        ("tests.audit", ["a", "b", "c"]),
        ("tests.other", [1]),
    ]
    one = writer.calls[0][1][0]
    assert (one.job_id, one.create_time, one.using) == (first.pk, frozen.now, alias)
    assert (one.tenant_id, one.process_instance_id) == ("acme", "order-1")
    assert not HistoryJob.objects.using(alias).exists()
    assert write_history(alias, 10, writer) == 0


def test_takes_no_more_than_a_page_and_the_oldest_first(alias, writer, frozen):
    for name in "abc":
        record(alias, name)
        frozen.tick(1)
    assert write_history(alias, 2, writer) == 2
    assert written(alias) == ["a", "b"]


def test_one_that_fails_is_undone_and_costs_its_own_retry_only(alias, writer, frozen):
    for name in "abc":
        record(alias, name, f"{name}2")
    writer.errors["b2"] = ValueError("no")
    frozen.tick(3)
    assert write_history(alias, 10, writer) == 3
    assert written(alias) == ["a", "a2", "c", "c2"]
    row = HistoryJob.objects.using(alias).get()
    assert row.handler_configuration == {"records": ["b", "b2"]}
    assert (row.retries, row.attempts, row.revision) == (9, 1, 2)
    assert row.due_date == frozen.now + timedelta(seconds=10)
    assert row.exception_message == "ValueError: no"
    assert "ValueError: no" in row.exception_stack
    log = JobLog.objects.using(alias).get()
    assert (log.state, log.job_id, log.retries, log.attempt, log.node) == (LogState.FAILED, row.pk, 9, 1, "here")
    assert (log.wait, log.duration, log.exception_message) == (3.0, 0.0, "ValueError: no")
    assert log.fingerprint
    assert write_history(alias, 10, writer) == 0
    writer.errors.clear()
    frozen.tick(10)
    assert write_history(alias, 10, writer) == 1
    assert written(alias) == ["a", "a2", "b", "b2", "c", "c2"]


def test_out_of_retries_it_becomes_a_dead_letter_which_goes_back_when_it_is_requeued(alias, writer, frozen):
    job = record(alias, "a")
    writer.errors["a"] = ValueError("no")
    for attempt in range(1, 11):
        assert table_of(alias, job) is HistoryJob, attempt
        assert write_history(alias, 10, writer) == 1
        frozen.tick(10)
    dead = DeadLetterJob.objects.using(alias).get()
    assert (dead.pk, dead.type, dead.retries, dead.attempts) == (job.pk, JobType.HISTORY, 0, 10)
    assert (dead.exception_message, dead.died_at) == ("ValueError: no", frozen.now - timedelta(seconds=10))
    assert dead.fingerprint == JobLog.objects.using(alias).order_by("-pk")[0].fingerprint != ""
    assert JobLog.objects.using(alias).filter(state=LogState.FAILED).count() == 10
    assert Incident.objects.using(alias).get().job_id == job.pk
    with pytest.raises(InvalidJob, match="only the history loop"):
        execute_now(job.pk, using=alias)
    assert not HistoryJob.objects.using(alias).exists()
    assert requeue(job.pk, 4, using=alias).changed == [job.pk]
    row = HistoryJob.objects.using(alias).get()
    assert (row.retries, row.attempts, row.due_date, row.exception_message) == (4, 0, frozen.now, "")
    assert row.handler_configuration == {"records": ["a"]}
    assert not Job.objects.using(alias).exists()
    writer.errors.clear()
    assert write_history(alias, 10, writer) == 1
    assert written(alias) == ["a"]


def test_do_not_retry_means_what_it_means_for_jobs(alias, writer):
    job = record(alias, "a")
    writer.errors["a"] = DoNotRetry("never")
    write_history(alias, 10, writer)
    assert table_of(alias, job) is DeadLetterJob


def test_records_of_a_handler_that_nobody_knows_wait_and_hold_up_no_others(alias, writer, frozen, configure):
    configure(UNKNOWN_HANDLER_DELAY=60, UNKNOWN_HANDLER_TIMEOUT=100)
    strange = record(alias, 1, name="unknown")
    frozen.tick(1)
    record(alias, "a")
    assert write_history(alias, 10, writer) == 2
    assert written(alias) == ["a"]
    row = find_job(strange.pk, alias)
    assert (type(row), row.retries, row.attempts, row.unknown_since) == (HistoryJob, 10, 0, frozen.now)
    assert row.due_date == frozen.now + timedelta(seconds=60)
    assert not JobLog.objects.using(alias).exists()
    for _ in range(2):
        frozen.tick(60)
        write_history(alias, 10, writer)
    assert table_of(alias, strange) is DeadLetterJob


def test_a_handler_that_goes_on_after_an_error_of_the_database_has_failed(alias, writer):
    """Django would roll back the savepoint without a word, and the records would be gone."""

    def swallow():
        try:
            Group.objects.using(alias).create(name="a")
        except IntegrityError:
            return

    job = record(alias, "a")
    writer.errors["a"] = swallow
    write_history(alias, 10, writer)
    assert (table_of(alias, job), written(alias)) == (HistoryJob, [])
    row = HistoryJob.objects.using(alias).get()
    assert row.retries == 9
    assert "continued after a database error" in row.exception_message


@pytest.mark.parametrize("configuration", [{"args": []}, [], {"records": 7}])
def test_a_row_that_is_none_of_ours_becomes_a_dead_letter(alias, writer, configuration, frozen):
    row = make_row(HistoryJob, alias, handler_configuration=configuration, due_date=frozen.now, type=JobType.HISTORY)
    record(alias, "a", name=row.handler_type)
    write_history(alias, 10, writer)
    assert written(alias) == ["a"]
    dead = DeadLetterJob.objects.using(alias).get()
    assert dead.pk == row.pk
    assert "list of records" in dead.exception_message


@pytest.mark.transactional
@pytest.mark.databases("sqlite")  # the others refuse it
def test_a_row_that_cannot_be_read_becomes_a_dead_letter_of_type_history(alias, writer):
    broken = record(alias, "a")
    record(alias, "b")
    with connections[alias].cursor() as cursor:
        cursor.execute(
            f"UPDATE {HistoryJob._meta.db_table} SET create_time = '0000-00-00 00:00:00', type = '' WHERE id = %s",
            [broken.pk.hex],
        )
    assert write_history(alias, 10, writer) == 1
    assert write_history(alias, 10, writer) == 1
    assert written(alias) == ["b"]
    dead = DeadLetterJob.objects.using(alias).get()
    assert (dead.pk, dead.type) == (broken.pk, JobType.HISTORY)


# -- whole transactions that are lost ----------------------------------------------------------------------------


@pytest.mark.transactional
@pytest.mark.databases("postgresql", "sqlite")  # InnoDB looks at once
def test_a_constraint_that_is_looked_at_on_commit_costs_only_who_breaks_it(alias, writer):
    """Such an error loses the whole page, and cannot be caught by a savepoint."""

    def dangle():
        Group.permissions.through.objects.using(alias).create(
            group_id=Group.objects.using(alias).get(name="b").pk, permission_id=10**6
        )

    for name in "abc":
        record(alias, name)
    writer.errors["b"] = dangle
    write_history(alias, 10, writer)
    assert written(alias) == ["a", "c"]
    row = HistoryJob.objects.using(alias).get()
    assert (row.handler_configuration, row.retries) == ({"records": ["b"]}, 9)
    assert "IntegrityError" in row.exception_message


@pytest.mark.transactional
@pytest.mark.databases("postgresql", "mariadb")
def test_a_handler_that_loses_the_connection_costs_only_its_own_records(alias, writer):
    for name in "abc":
        record(alias, name)
    writer.errors["b"] = lambda: connections[alias].connection.close()
    write_history(alias, 10, writer)
    assert written(alias) == ["a", "c"]
    row = HistoryJob.objects.using(alias).get()
    assert (row.handler_configuration, row.retries) == ({"records": ["b"]}, 9)


@pytest.mark.transactional
def test_a_death_on_the_way_leaves_the_rows_as_they_were(alias, writer, monkeypatch):
    record(alias, "a")
    monkeypatch.setattr("jobexec.operations.maintenance.history_jobs.delete_rows", lambda rows: 1 / 0)
    write_history(alias, 10, writer)
    assert written(alias) == []
    monkeypatch.undo()
    HistoryJob.objects.using(alias).update(due_date=next_history_date(alias) - timedelta(hours=1))
    write_history(alias, 10, writer)
    assert written(alias) == ["a"]


# -- what a person does ------------------------------------------------------------------------------------------


def test_verbs_of_people(alias, frozen):
    row = record(alias, "a")
    assert find_job(str(row.pk), alias) == row
    later = frozen.now + timedelta(hours=1)
    assert set_due_date(row, later, using=alias).changed == [row.pk]
    assert next_history_date(alias) == later
    assert set_retries(row, 3, using=alias)
    assert retry_now(row, using=alias)
    saved = HistoryJob.objects.using(alias).get()
    assert (saved.due_date, saved.retries) == (frozen.now, 3)
    assert delete_jobs(row, using=alias)
    assert not HistoryJob.objects.using(alias).exists()
    assert JobLog.objects.using(alias).get().state == LogState.DELETED
    with pytest.raises(JobNotFound):
        find_job(row.pk, alias)
