"""The rows that fast statements write are, column for column, those that the ORM would write."""

import pickle
from datetime import UTC, datetime, timedelta, timezone

import pytest
from django.db import DatabaseError, DataError, IntegrityError, connections, transaction
from django.db.transaction import TransactionManagementError
from django.test.utils import CaptureQueriesContext

from jobexec import signals
from jobexec.identifiers import uuid7
from jobexec.models import SHARED_COLUMNS, BlockedJob, Job, JobLog, JobType, TimerJob
from jobexec.operations import create_job, create_jobs
from jobexec.operations.enqueue.create import Pattern
from jobexec.operations.sql import insert
from jobexec.operations.sql.dialect import dialect
from jobexec.operations.sql.insert import insert_rows, parameters
from jobexec.operations.values.ranking import rank
from tests.support.columns import VALUES
from tests.support.factories import HANDLER, make_job, make_row
from tests.support.machines.rerouted import rerouted

pytestmark = pytest.mark.every_database

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
AWKWARD = "tab\t line\n return\r back\\slash \\N \\. \\t %s %% %(id)s 'one' \"two\" ä ß 漢 😀 \x01 \u2028"
KOLKATA = timezone(timedelta(hours=5, minutes=30))
MANY = 30
NO_WAIT = dict.fromkeys(["waits_for", "waits_for_key", "waits_until"])

JOBS = {
    "nothing given": {},
    "every option": {**VALUES, **NO_WAIT, "due_date": NOW - timedelta(hours=1), "resource": None},
    "a resource": {**VALUES, **NO_WAIT, "due_date": None},
    "a message": VALUES,
    "a message without a date": {**VALUES, "due_date": None, "resource": None, "waits_until": None},
    "a timer": {"due_date": NOW + timedelta(days=1)},
    "a timer with every option": {**VALUES, **NO_WAIT},
    "a timer that came as a message": {"due_date": NOW + timedelta(days=1), "type": JobType.MESSAGE},
    "awkward texts": {
        "handler_configuration": {"args": [AWKWARD, "\\N", ""], "kwargs": {"k": {AWKWARD: None}}},
        "custom_headers": {AWKWARD: [AWKWARD]},
        "process_instance_id": AWKWARD,
        "tenant_id": "\\N",
        "execution_id": "\\.",
        "correlation_id": "\\",
        "exception_stack": f"{AWKWARD}\n" * 100,
    },
    "numbers": {
        "handler_configuration": {"args": [2**70, -1.5e-9, True, None], "kwargs": {}},
        "priority": -1_000_000,
        "sequence_counter": 2**63 - 1,
        "retries": 2**31 - 1,
    },
    "moments": {
        "due_date": datetime(1, 1, 2, 3, 4, 5, 6, tzinfo=KOLKATA),
        "create_time": datetime(2026, 3, 1, 23, 59, 59, 999_999, tzinfo=KOLKATA),
        "unknown_since": datetime(9999, 12, 31, tzinfo=UTC),
    },
    "no time at all": {"timeout": timedelta(0)},
    "a long time": {"timeout": timedelta(days=400, hours=25, microseconds=1)},
    "empty": {"custom_headers": {}, "handler_configuration": [], "process_instance_id": "", "due_date": None},
    "ids as texts": {"batch_id": "01890000-0000-7000-8000-00000000000a"},
    "odd types": {"exclusive": 0, "retries": "5", "type": JobType.TIMER, "handler_type": JobType.TIMER},
}


def create_alike(alias, encoded, due_date=None, create_time=None, **columns):
    """Jobs that differ in nothing but their arguments, as `enqueue_many` makes them."""
    return Pattern(alias, columns).create_many(encoded, due_date=due_date, create_time=create_time)


def create(alias, count, **columns):
    """One job alone, or several at once."""
    return create_job(alias, **columns) if count == 1 else create_jobs(alias, [columns] * count)[0]


@pytest.fixture(params=JOBS)
def given(request, configure):
    """The columns that a caller gives."""
    configure(CATEGORIES=["default", "mail"], RESOURCES={"pay.example": {"limit": 1}})
    return {"handler_type": HANDLER, **JOBS[request.param]}


@pytest.fixture(params=["one", "many", "many alike"])
def way(request):
    """A function that creates a job by one of the ways to do it, and returns its row."""

    def create(alias, columns):
        if request.param == "one":
            return create_job(alias, **columns)
        if request.param == "many":
            return create_jobs(alias, [columns] * MANY)[MANY // 2]
        columns = dict(columns)
        configuration = columns.pop("handler_configuration", {})
        encoded = parameters(connections[alias], Job, {"handler_configuration": configuration})["handler_configuration"]
        return create_alike(alias, [encoded] * MANY, **columns)[MANY // 2]

    return create


def stored(alias, row):
    """What the driver says is in the row; without the id, which no two have in common."""
    connection = connections[alias]
    table, quote = type(row)._meta, connection.ops.quote_name
    names = [quote(field.column) for field in table.concrete_fields if not field.primary_key]
    key = table.pk.get_db_prep_value(row.pk, connection)
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT {', '.join(names)} FROM {quote(table.db_table)} WHERE id = %s", [key])
        return dict(zip(names, cursor.fetchone(), strict=True))


def expected(alias, given):
    """The row as the ORM saves it."""
    due = given.get("due_date")
    later = due is not None and due > NOW
    made = {"create_time": NOW, "job_definition_id": given["handler_type"]}
    made |= {"type": "timer"} if later else {"rank": rank(alias, due or NOW, given.get("priority", 0))}
    table = TimerJob if later else Job if given.get("resource") is None else BlockedJob
    if given.get("waits_for") is not None:
        table, made["next_look"] = BlockedJob, NOW
        given = {**given, "waits_until": min(filter(None, (given["waits_until"], given["expires_at"])))}
    return make_row(table, alias, **made | {"handler_configuration": {}} | given)


def test_the_row_is_that_of_the_orm(alias, given, way):
    row, model = way(alias, {"handler_configuration": {}} | given), expected(alias, given)
    assert type(row) is type(model)
    assert stored(alias, row) == stored(alias, model)


def test_what_is_returned_is_what_is_stored(alias, given, way):
    row = way(alias, {"handler_configuration": {}} | given)
    odd = {name: getattr(row, name) for name in ("batch_id", "exclusive", "retries") if name in given}
    again = type(row)._base_manager.using(alias).get(pk=row.pk)
    assert (row, row._state.db, row._state.adding) == (again, alias, False)
    for name in set(SHARED_COLUMNS) - odd.keys():
        assert getattr(row, name) == getattr(again, name), name


def test_a_returned_row_is_an_instance_like_any_other(alias, way):
    row, other = (way(alias, {"handler_type": HANDLER, "handler_configuration": {}}) for _ in range(2))
    assert isinstance(row, Job) and row.get_deferred_fields() == set()
    assert vars(row).keys() == vars(make_row(Job, alias)).keys()
    row.custom_headers["only"] = "here"
    row.priority = 7
    assert (other.custom_headers, other.priority) == ({}, 0)
    row.save()
    assert Job.objects.using(alias).get(pk=row.pk).custom_headers == {"only": "here"}
    copy = pickle.loads(pickle.dumps(row))
    assert (copy, copy.priority, copy._state.db) == (row, 7, alias)
    row.priority = 8
    row.refresh_from_db()
    assert row.priority == 7


@pytest.mark.parametrize("count", [1, MANY])
def test_every_table_and_shape_in_one_call(alias, count):
    later = NOW + timedelta(days=1)
    rows = [{"priority": 1}, {"due_date": later}, {}, {"due_date": None}, {"due_date": later, "priority": 2}] * count
    created = create_jobs(alias, ({"handler_type": HANDLER, **columns} for columns in rows))
    for row, columns in zip(created, rows, strict=True):
        assert (row.priority, row.due_date) == (columns.get("priority", 0), columns.get("due_date"))
    assert [row.pk for row in created] == sorted(row.pk for row in created)
    assert (Job.objects.using(alias).count(), TimerJob.objects.using(alias).count()) == (3 * count, 2 * count)


def test_more_than_fits_into_a_statement(alias):
    texts = [f'{{"args": [{number}, "{"x" * 2_000 * (number < 700)}"], "kwargs": {{}}}}' for number in range(2_500)]
    created = create_alike(alias, texts, handler_type=HANDLER)
    rows = Job.objects.using(alias).order_by("pk")
    assert list(rows.values_list("pk", flat=True)) == created.ids
    assert [row.handler_configuration["args"][0] for row in rows] == list(range(2_500))


def test_what_is_not_given_has_its_default(alias):
    for row in (create_job(alias, handler_type=HANDLER), *create_jobs(alias, [{"handler_type": HANDLER}] * 2)):
        assert (row.handler_configuration, row.custom_headers) == ({}, {})
        assert Job.objects.using(alias).get(pk=row.pk).handler_configuration == {}


def test_portions_of_a_statement(monkeypatch):
    monkeypatch.setattr(insert, "_MAX_ROWS", 3)
    monkeypatch.setattr(insert, "_MAX_LENGTH", 10)
    rows = [(1, "a")] * 4 + [(2, "b" * 11)] + [(3, None)]
    assert [len(chunk) for chunk in insert._chunks(rows, 0)] == [3, 2, 1]
    assert [len(chunk) for chunk in insert._chunks(rows, 5)] == [2, 2, 1, 1]
    assert list(insert._chunks([], 0)) == []


class TestInTheCallersTransaction:
    """As with every statement that Django sends."""

    @pytest.fixture(params=[1, 2])
    def taken(self, request, alias):
        """A function that inserts a row whose id is taken, alone or among others."""
        row = make_job(alias)
        columns = [{"handler_type": HANDLER, "id": uuid7()} for _ in range(request.param - 1)]
        columns.append({"handler_type": HANDLER, "id": row.pk})
        return lambda: create_job(alias, **columns[0]) if request.param == 1 else create_jobs(alias, columns)

    def test_an_error_breaks_it_until_the_savepoint(self, alias, taken):
        with pytest.raises(IntegrityError), transaction.atomic(alias):
            taken()
        assert Job.objects.using(alias).count() == 1
        with pytest.raises(TransactionManagementError), transaction.atomic(alias):
            with pytest.raises(IntegrityError):
                taken()
            assert transaction.get_rollback(alias)
            Job.objects.using(alias).count()
        assert make_job(alias).pk

    @pytest.mark.parametrize("count", [1, 2])
    def test_a_broken_one_takes_no_more(self, alias, count):
        with pytest.raises(TransactionManagementError), transaction.atomic(alias):
            transaction.set_rollback(True, alias)
            create(alias, count, handler_type=HANDLER)

    @pytest.mark.transactional
    def test_an_error_outside_of_one_leaves_nothing(self, alias, taken):
        with pytest.raises(IntegrityError):
            taken()
        assert Job.objects.using(alias).count() == 1
        assert make_job(alias).pk

    @pytest.mark.transactional
    def test_what_is_rolled_back_is_gone(self, alias):
        with pytest.raises(ZeroDivisionError), transaction.atomic(alias):
            create_alike(alias, ["{}"] * MANY, handler_type=HANDLER)
            assert Job.objects.using(alias).count() == MANY
            raise ZeroDivisionError
        assert Job.objects.using(alias).count() == 0


@pytest.mark.databases("postgresql")
@pytest.mark.parametrize("count", [1, 2])
def test_a_text_that_the_database_refuses_is_a_database_error(alias, count):
    with pytest.raises((DataError, ValueError), match=r"NUL|0x00"), transaction.atomic(alias):
        create(alias, count, handler_type="a\x00b")
    assert not Job.objects.using(alias).exists()


@pytest.mark.parametrize("count", [1, 2])
def test_wrappers_and_logs_see_the_statement(alias, count):
    seen = []

    def wrapper(execute, sql, params, many, context):
        seen.append((sql.split()[0], context["connection"].alias))
        return execute(sql, params, many, context)

    with CaptureQueriesContext(connections[alias]) as captured, connections[alias].execute_wrapper(wrapper):
        create(alias, count, handler_type=HANDLER)
    word = "COPY" if dialect(alias).bulk_insert == "copy" and count > 1 else "INSERT"
    assert seen == [(word, alias)]
    assert [word in query["sql"] for query in captured if "jobexec_job" in query["sql"]] == [True]


@pytest.mark.parametrize("count", [1, 2])
def test_a_wrapper_may_refuse(alias, count):
    def refuse(execute, sql, params, many, context):
        raise DatabaseError("not here")

    refusing = connections[alias].execute_wrapper(refuse)
    with pytest.raises(DatabaseError, match="not here"), transaction.atomic(alias), refusing:
        create(alias, count, handler_type=HANDLER)
    assert not Job.objects.using(alias).exists()


@pytest.mark.databases("postgresql")
@pytest.mark.transactional
@pytest.mark.parametrize("count", [1, 2])
def test_parameters_that_the_server_binds(alias, count, configure):
    """Django's OPTIONS["server_side_binding"]: then a parameter has a type, which must be that of its column."""
    configure(CATEGORIES=["default", "mail"], RESOURCES={"pay.example": {"limit": 1}})
    options = {**connections.settings[alias]["OPTIONS"], "server_side_binding": True}
    with rerouted(alias, OPTIONS=options):
        columns = {**VALUES, "due_date": NOW, "handler_type": AWKWARD}
        row = create(alias, count, **columns)
        again = BlockedJob.objects.using(alias).get(pk=row.pk)
    for name in set(SHARED_COLUMNS) - {"batch_id"}:
        assert getattr(row, name) == getattr(again, name), name


class TestRowsMadeWhenLookedAt:
    @pytest.fixture
    def rows(self, alias):
        return create_alike(alias, [f'{{"args": [{number}]}}' for number in range(5)], handler_type=HANDLER)

    def test_they_read_like_a_list(self, alias, rows):
        everything = list(rows)
        assert (len(rows), len(everything), bool(rows)) == (5, 5, True)
        assert [row.handler_configuration["args"] for row in rows] == [[0], [1], [2], [3], [4]]
        assert rows[1:3] == everything[1:3] and rows[::-1] == everything[::-1]
        assert (rows[-1], rows.index(everything[2]), everything[3] in rows) == (everything[4], 2, True)
        assert list(reversed(rows)) == everything[::-1]
        assert rows == everything and everything == rows and rows != everything[:4] and rows != tuple(everything)
        assert [row.pk for row in rows] == rows.ids
        assert [*rows, 1][:5] == everything
        with pytest.raises(IndexError):
            rows[5]
        with pytest.raises(TypeError):
            hash(rows)
        assert repr(rows) == "<5 created jobs>"

    def test_the_same_one_each_time(self, rows):
        rows[2].priority = 9
        assert rows[2] is rows[2] is list(rows)[2]
        assert [row.priority for row in rows] == [0, 0, 9, 0, 0]

    def test_no_two_share_what_can_change(self, alias):
        headers = {"a": 1}
        rows = create_alike(alias, ["{}"] * 2, handler_type=HANDLER, custom_headers=headers)
        rows[0].custom_headers["b"] = 2
        assert (rows[1].custom_headers, headers) == ({"a": 1}, {"a": 1})

    def test_they_can_be_pickled(self, rows):
        again = pickle.loads(pickle.dumps(rows))
        assert again == rows and again[0].handler_configuration == {"args": [0]}

    def test_none(self, alias):
        rows = create_alike(alias, [], handler_type=HANDLER)
        assert rows == [] and not rows and list(rows) == []


@pytest.mark.transactional
def test_rows_alike_are_told_and_logged(alias, configure):
    configure(HISTORY_LEVEL="full")
    heard = []

    def receiver(sender, using, jobs, **kwargs):
        heard.append((sender, using, [job.pk for job in jobs]))

    signals.job_created.connect(receiver)
    try:
        rows = create_alike(alias, ["{}"] * MANY, handler_type=HANDLER, due_date=NOW + timedelta(days=1))
    finally:
        signals.job_created.disconnect(receiver)
    assert heard == [(TimerJob, alias, rows.ids)]
    logged = JobLog.objects.using(alias).filter(state="created").values_list("job_id", flat=True)
    assert sorted(logged) == rows.ids


def test_a_default_that_would_need_quotes_is_refused():
    with pytest.raises(ValueError, match="needs no quoting"):
        insert._literal("it's")


def test_shared_columns_and_own_ones(alias):
    values = [
        parameters(connections[alias], Job, {"id": uuid7(), "create_time": NOW, "priority": number})
        for number in range(3)
    ]
    rows = [tuple(one.values()) for one in values]
    insert_rows(connections[alias], Job, tuple(values[0]), rows, {"handler_type": HANDLER, "tenant_id": "t"})
    found = Job.objects.using(alias).order_by("pk").values_list("priority", "tenant_id", "handler_type")
    assert list(found) == [(number, "t", HANDLER) for number in range(3)]
