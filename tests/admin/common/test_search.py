"""What the search of the job tables finds, within its bounds, and what it says if it finds nothing."""

from datetime import timedelta
from io import StringIO

import pytest
from django.core.management import CommandError, call_command
from django.db import connections

from jobexec import clock, job, operations
from jobexec.admin.common import search as searching
from jobexec.handlers.registry import isolated
from jobexec.models import (
    DeadLetterJob,
    FailureGroup,
    HistoryJob,
    Incident,
    Job,
    JobDefinition,
    JobLog,
    Schedule,
    Suspension,
    TaskResult,
)
from jobexec.operations.sql.argument_index import has_index, with_argument

from .. import data
from ..conftest import list_url


def found(client, table, term):
    return {row.pk for row in client.get(list_url(table), {"q": term}).context["cl"].result_list}


def test_the_short_name_of_a_handler_that_is_known_here(admin):
    with isolated():

        @job(name="shop.jobs.pack")
        def pack():
            pass

        row, other = data.make(Job, handler_type="shop.jobs.pack"), data.make(Job, handler_type="shop.unpack")
        assert found(admin, Job, "pack") == found(admin, Job, "pa") == {row.pk}
        assert found(admin, Job, "shop") == {row.pk, other.pk}


def test_the_short_name_of_a_handler_with_a_definition(admin):
    JobDefinition.objects.create(pk="shop.jobs.pack", handler_type="shop.jobs.pack", category="default")
    row = data.make(Job, handler_type="shop.jobs.pack")
    data.make(Job, handler_type="shop.jobs.repack")
    assert found(admin, Job, "pack") == {row.pk}
    assert [int(tab["count"]) for tab in admin.get(list_url(Job), {"q": "pack"}).context["tabs"]] == [1, 0, 0, 0, 0, 0]


@pytest.mark.parametrize(
    ("make", "others"),
    [
        (data.failure_group, {"fingerprint": "f" * 32}),
        (lambda **columns: data.schedule(name=f"of.{columns['handler_type']}", **columns), {}),
        (data.task_result, {}),
        (lambda **columns: JobDefinition.objects.create(pk=columns["handler_type"], category="a", **columns), {}),
    ],
    ids=["groups of failures", "schedules", "task results", "definitions"],
)
def test_tables_of_handlers_are_searched_by_the_short_name_like_jobs(admin, make, others):
    with isolated():

        @job(name="shop.jobs.pack")
        def pack():
            pass

        row = make(handler_type="shop.jobs.pack")
        other = make(handler_type="shop.jobs.repack", **others)
        table = type(row)
        assert found(admin, table, "pack") == found(admin, table, " pac ") == {row.pk}
        assert found(admin, table, "shop.jobs.") == {row.pk, other.pk}
        assert found(admin, table, "jobs.pack") == set()
        assert found(admin, table, "") == {row.pk, other.pk}


def test_suspensions_of_definitions_are_found_by_the_short_name(admin):
    with isolated():

        @job(name="shop.jobs.pack")
        def pack():
            pass

        operations.suspend(job_definition_id="shop.jobs.pack")
        operations.suspend(job_definition_id="shop.jobs.repack")
        operations.suspend(tenant_id="packers")
        definition, other, tenant = Suspension.objects.order_by("pk")
        assert found(admin, Suspension, "pack") == {definition.pk, tenant.pk}
        assert found(admin, Suspension, "shop.jobs.") == {definition.pk, other.pk}
        assert found(admin, Suspension, "") == {definition.pk, other.pk, tenant.pk}


def test_other_terms_find_what_they_found_before(admin):
    now = clock.now()
    times = {"first_time": now, "last_time": now}
    for fingerprint, handler in (("a" * 32, "shop.pay"), ("b" * 32, "shop.ship")):
        exception = {"exception": f"GatewayTimeout{fingerprint[0]}"}
        FailureGroup.objects.create(fingerprint=fingerprint, handler_type=handler, **exception, **times)
    assert found(admin, FailureGroup, "a" * 32) == found(admin, FailureGroup, "GatewayTimeouta") == {"a" * 32}
    assert found(admin, FailureGroup, "GatewayTimeout b") == set(), "each word"
    row = data.task_result()
    assert found(admin, TaskResult, str(row.pk)) == {row.pk}
    definition = JobDefinition.objects.create(pk="d", handler_type="d", category="a", process_definition_key="orders")
    assert found(admin, JobDefinition, "orders") == {definition.pk}
    schedule = data.schedule()
    assert found(admin, Schedule, "shop.rem") == {schedule.pk}


@pytest.mark.parametrize("correlation", ["basket-7", "7b1c1f0e-9a1e-4f7e-8d5c-0a1b2c3d4e5f"])
def test_a_correlation_id(admin, correlation):
    row = data.make(Job, correlation_id=correlation)
    data.make(Job, correlation_id=f"{correlation}1")
    assert found(admin, Job, correlation) == {row.pk}


@pytest.mark.gate
def test_a_part_of_an_exception(admin):
    row = data.dead_letter_with_log()
    entries = set(JobLog.objects.exclude(exception_message="").values_list("pk", flat=True))
    assert found(admin, DeadLetterJob, "NO ANSWER from pay.example") == {row.pk}
    assert found(admin, JobLog, "no answer from") == entries
    assert found(admin, DeadLetterJob, "no answer at all") == set()


def test_an_incident_by_its_message(admin):
    incident = data.incident(data.dead_letter())
    assert found(admin, Incident, incident.message[3:20]) == {incident.pk}


def test_texts_are_read_of_the_latest_rows_and_names_of_exceptions_of_all(admin, monkeypatch):
    monkeypatch.setattr(searching, "LATEST", 2)
    now = clock.now()
    FailureGroup.objects.create(
        fingerprint="f" * 16, handler_type="shop.pay", exception="GatewayTimeout", first_time=now, last_time=now
    )
    rows = [
        data.dead_letter(
            died_at=now - timedelta(days=age), fingerprint="f" * 16, exception_message=f"GatewayTimeout: {age}d"
        )
        for age in range(4)
    ]
    assert found(admin, DeadLetterJob, "1d") == {rows[1].pk}
    assert found(admin, DeadLetterJob, "2d") == set()
    assert found(admin, DeadLetterJob, "timeout") == {row.pk for row in rows}


@pytest.mark.gate
def test_a_list_says_what_it_is_searched_for_if_it_finds_nothing(admin):
    for table in (Job, JobLog, FailureGroup, JobDefinition):
        told = admin.told(admin.get(list_url(table), {"q": "order_id=17"}))
        assert [level for level, _ in told] == ["warning"]
        assert "order_id=17" in told[0][1]
    assert "Arguments are not searched: " in admin.told(admin.get(list_url(Job), {"q": "order_id=17"}))[0][1]
    assert admin.told(admin.get(list_url(Job))) == []


@pytest.mark.databases("postgresql")
@pytest.mark.transactional
def test_arguments_are_found_by_their_index_and_only_if_they_may_be_shown(alias, settings, monkeypatch):
    settings.JOBEXEC = {"ENGINES": {name: {} for name in connections}}

    def found(term):
        return set(searching.search(Job.objects.using(alias), term).values_list("pk", flat=True))

    def index(*options):
        call_command("jobs", "index", "arguments", *options, database=alias, stdout=StringIO())

    JobDefinition.objects.using(alias).create(pk="shop.pay", handler_type="shop.pay", category="a", sensitive=["card"])
    given = {"kwargs": {"order_id": 17, "card": "4111", "to": {"city": "Köln"}, "paid": True}}
    row = data.make(Job, alias, handler_type="shop.pay", handler_configuration=given)
    data.make(Job, alias, handler_type="shop.pay", handler_configuration={"kwargs": {"order_id": 171, "amount": 1}})
    assert found("order_id=17") == set() and "creates the index" in searching.note_of_arguments(Job, alias)
    index("--state", "executable")
    try:
        index("--state", "executable")
        assert searching.note_of_arguments(Job, alias) == ""
        for term in ("17", "order_id=17", "Köln", "city=Köln", "paid=true"):
            assert found(term) == {row.pk}, term
            assert searching.note(Job, alias, term, searching.By.TEXT) == ""
        monkeypatch.setattr(searching, "MOST_WITH_ARGUMENT", 1)
        twin = data.make(Job, alias, handler_type="shop.pay", handler_configuration=given)
        said = searching.note(Job, alias, "order_id=17", searching.By.TEXT)
        assert said == "Only the first 1 jobs with this argument were read."
        twin.delete()
        for term in ("4111", "card=4111", "amount=17", "1=1", 'a"b', "\\", "●●●"):
            assert found(term) == set(), term
        with connections[alias].cursor() as cursor:
            cursor.execute("SET enable_seqscan = off")
            explained = with_argument(Job.objects.using(alias), [17, "17"]).explain()
            cursor.execute("RESET enable_seqscan")
        assert "jobexec_job_arguments" in explained
    finally:
        index("--drop", "--json")
    assert not has_index(alias, Job)


@pytest.mark.databases("sqlite")
def test_elsewhere_arguments_have_no_index(alias, settings):
    settings.JOBEXEC = {"ENGINES": {name: {} for name in connections}}
    with pytest.raises(CommandError, match="on PostgreSQL only"):
        call_command("jobs", "index", "arguments", database=alias)
    assert "on PostgreSQL only" in searching.note_of_arguments(Job, alias)


def told(client, table, term):
    return client.told(client.get(list_url(table), {"q": term}))


@pytest.mark.parametrize(
    ("table", "left_out"),
    [
        (Job, "correlation ids, arguments"),
        (DeadLetterJob, "correlation ids, exceptions, arguments"),
        (HistoryJob, "correlation ids"),
    ],
)
def test_a_list_says_what_was_not_searched_because_something_was_found(admin, table, left_out):
    row = data.make(table, handler_type="shop.jobs.pack", process_instance_id="order-1")
    JobDefinition.objects.create(pk="shop.jobs.pack", handler_type="shop.jobs.pack", category="default")
    by_id = ("info", f"Found by id or key. Not searched: handlers, {left_out}.")
    assert told(admin, table, str(row.pk)) == [by_id]
    by_instance = ("info", f"Found by process instance. Not searched: handlers, {left_out}.")
    assert told(admin, table, " order-1 ") == [by_instance]
    by_handler = f"The name of a handler begins with the term. Not searched: {left_out}."
    assert told(admin, table, "pack") == [("info", by_handler)]
    table.objects.all().delete()
    ((level, text),) = told(admin, table, "pack")
    assert (level, text.endswith(f" {by_handler}")) == ("warning", True)


def test_lists_without_arguments_do_not_mention_them(admin):
    incident = data.incident(data.dead_letter())
    ((_level, text),) = told(admin, Incident, str(incident.job_id))
    assert text == "Found by id or key. Not searched: handlers, exceptions."
    assert told(admin, Incident, incident.message[3:20]) == [], "everything was searched"


@pytest.mark.parametrize(("latest", "said"), [(3, False), (2, True)])
@pytest.mark.parametrize("table", [DeadLetterJob, HistoryJob])
def test_a_list_says_that_only_the_latest_rows_were_searched(admin, monkeypatch, table, latest, said):
    monkeypatch.setattr(searching, "LATEST", latest)
    monkeypatch.setattr(searching, "note_of_arguments", lambda model, using: "")
    for number in range(3):
        data.make(table, correlation_id=f"basket-{number}")
    every = ", and all rows for names of exceptions" if table is DeadLetterJob else ""
    text = f"Only the latest {latest} rows were searched for this text{every}."
    assert told(admin, table, "basket-2") == ([("info", text)] if said else [])
    ((level, nothing),) = told(admin, table, "basket-7")
    assert (level, nothing.endswith(f" {text}")) == ("warning", said)
