"""Lists: they render, find, filter, count to a limit, and ask the database as often for many rows as for few."""

import re
from html import unescape

import pytest
from django.contrib.admin import ModelAdmin
from django.core.paginator import Paginator
from django.db import connection
from django.test.utils import CaptureQueriesContext

from jobexec import clock
from jobexec.admin.common.paging import CappedCount, CappedPaginator
from jobexec.admin.common.search import search
from jobexec.identifiers import uuid7
from jobexec.models import (
    JOB_TABLES,
    DeadLetterJob,
    ExternalWorkerJob,
    FailureGroup,
    GatewayClient,
    Job,
    JobDefinition,
    JobLog,
    Message,
    Schedule,
    SuspendedJob,
    TaskResult,
    TimerJob,
)
from jobexec.operations.reports import counts
from tests.support.suite.tiers import some

from .. import data
from ..conftest import TABLES, list_url

DATES = {
    "job": ["create_time"],
    "timerjob": ["due_date", "create_time"],
    "suspendedjob": ["suspended_at", "due_date"],
    "deadletterjob": ["died_at", "create_time"],
    "joblog": ["timestamp"],
}


def shown(response):
    return response.context["cl"].result_list


@pytest.mark.parametrize("table", some(TABLES, 4))
def test_each_list_renders(admin, table):
    rows = data.some_of_everything()
    response = admin.get(list_url(table))
    assert response.status_code == 200
    assert rows[table].pk in [row.pk for row in shown(response)]
    assert b"jobexec/admin.css" in response.content
    assert (b"Add " in response.content.split(b'id="content-start"')[1]) is (table in (GatewayClient, Job, Schedule))


@pytest.mark.parametrize("table", [FailureGroup, Job, JobDefinition])
def test_a_nul_among_the_chosen_rows_changes_nothing(admin, table):
    response = admin.post(list_url(table), {"action": "requeue", "_selected_action": ["a\0b"], "index": 0})
    assert response.status_code == 302
    assert [level for level, _ in admin.told(response)] == ["error"]


@pytest.mark.parametrize("parameter", ["q", "tenant", "handler", "fingerprint", "process_instance_id", "unknown"])
def test_a_nul_in_the_address_is_no_filter_and_no_error_of_the_database(admin, parameter):
    for table in (*TABLES, FailureGroup, JobDefinition):
        response = admin.get(list_url(table), {parameter: "a\0"})
        assert response.status_code == 302, table
        assert response.url.endswith("?e=1")


def test_a_search_for_a_nul_finds_nothing(alias):
    assert not search(Job.objects.using(alias), "a\0").exists()


@pytest.mark.parametrize("table", [FailureGroup, JobDefinition, Job])
def test_no_row_has_a_nul_in_its_key(admin, table, monkeypatch):
    monkeypatch.setattr(ModelAdmin, "get_object", lambda *_: pytest.fail("The database was asked."))
    assert admin.get(f"{list_url(table)}%00/change/").status_code in {302, 404}


@pytest.mark.parametrize("table", JOB_TABLES)
def test_a_list_of_one_state_has_no_column_for_it(admin, table):
    data.some_of_everything()
    content = admin.get(list_url(table)).content.decode().partition('id="result_list"')[2]
    head = content.partition("<thead>")[2].partition("</thead>")[0]
    titles = [" ".join(re.sub(r"<[^>]+>", " ", each).split()).lower() for each in head.split("</th>")]
    assert "call" in titles
    assert any(title.startswith("state") for title in titles) is (table not in (SuspendedJob, DeadLetterJob))


@pytest.mark.gate
def test_empty_lists_render(admin):
    for table in TABLES:
        assert admin.get(list_url(table)).status_code == 200


@pytest.mark.parametrize(("table", "column"), [(table, column) for table in DATES for column in DATES[table]])
def test_date_ranges(admin, table, column):
    rows = {row._meta.model_name: row for row in data.some_of_everything().values()}
    model = type(rows[table])
    for year, expected in (("2001", 0), ("2099", model.objects.exclude(**{column: None}).count())):
        query = {f"{column}__range__gte_0": "2000-01-01", f"{column}__range__gte_1": "00:00:00"}
        query |= {f"{column}__range__lte_0": f"{year}-01-01", f"{column}__range__lte_1": "00:00:00"}
        response = admin.get(list_url(model), query)
        assert response.status_code == 200
        assert len(shown(response)) == expected


@pytest.mark.parametrize(
    ("table", "query", "count"),
    [
        (Job, {"lock": "free"}, 1),
        (Job, {"lock": "held"}, 1),
        (Job, {"priority__range__gte": "5"}, 1),
        (Job, {"in_category": "default"}, 2),
        (Job, {"handler": "shop.jobs.charge_card"}, 2),
        (TimerJob, {"waiting": "time"}, 1),
        (TimerJob, {"waiting": "retry"}, 1),
        (JobLog, {"state__exact": "failed"}, 3),
        (JobLog, {"state__exact": "successful"}, 0),
    ],
)
def test_filters(admin, table, query, count):
    data.some_of_everything()
    assert len(shown(admin.get(list_url(table), query))) == count


def test_jobexecs_own_handlers_are_one_choice_of_the_filter(admin):
    url = list_url(TimerJob)
    assert "By handler" not in admin.get(url).content.decode(), "no executor has registered any"
    for name in ("shop.pay", "jobexec.batch_seed", "jobexec.alert"):
        JobDefinition.objects.create(pk=name, handler_type=name, category="default")
    rows = [
        data.make(TimerJob, handler_type=name, due_date=clock.now())
        for name in ("jobexec.alert", "jobexec.batch_seed", "jobexec_shop.pay")
    ]
    choices = re.findall(r'<a href="\?handler=([^"&]*)">\s*([^<]*?)\s*</a>', admin.get(url).content.decode())
    assert [(value, unescape(name)) for value, name in choices] == [("shop.pay", "shop.pay"), ("jobexec.", OWN_TITLE)]
    assert {row.pk for row in shown(admin.get(url, {"handler": "jobexec."}))} == {row.pk for row in rows[:2]}
    assert {row.pk for row in shown(admin.get(url, {"handler": "jobexec.alert"}))} == {rows[0].pk}, "a link to one"


OWN_TITLE = "jobexec's own"


@pytest.mark.gate
@pytest.mark.parametrize("table", [*JOB_TABLES, JobLog])
def test_search(admin, table):
    row = data.some_of_everything()[table]
    id = str(row.job_id if table is JobLog else row.pk)
    all_of_it = table.objects.filter(process_instance_id="order-4711").count()
    for term, count in (
        (id, 3 if table is JobLog else 1),
        (id.upper(), 3 if table is JobLog else 1),
        (f" {id} ", 3 if table is JobLog else 1),
        ("order-4711", all_of_it),
        ("shop.jobs.ch", table.objects.filter(handler_type="shop.jobs.charge_card").count()),
        ("order-471", 0),
        ("jobs.charge", 0),
        ("00000000-0000-0000-0000-000000000000", 0),
        ("%", 0),
    ):
        assert len(shown(admin.get(list_url(table), {"q": term}))) == count, term


def test_a_process_instance_may_be_a_uuid(admin):
    instance = "7b1c1f0e-9a1e-4f7e-8d5c-0a1b2c3d4e5f"
    job = data.make(Job, process_instance_id=instance)
    assert [row.pk for row in shown(admin.get(list_url(Job), {"q": instance}))] == [job.pk]


def test_tabs_count_what_the_search_finds_in_each_table(admin):
    data.some_of_everything()
    tabs = admin.get(list_url(Job), {"q": "order-4711"}).context["tabs"]
    assert [int(tab["count"]) for tab in tabs] == [2, 2, 1, 1, 1, 1]
    assert [tab["current"] for tab in tabs] == [True, *[False] * 5]
    assert all(tab["url"].endswith("?q=order-4711") for tab in tabs)


def test_tabs_of_tables_that_the_user_may_not_see_are_not_there(staff):
    client = staff("view_job", view=False)
    assert len(client.get(list_url(Job)).context["tabs"]) == 1


@pytest.mark.parametrize("table", some(TABLES, 4))
def test_as_many_queries_for_many_rows_as_for_few(admin, table):
    def queries():
        with CaptureQueriesContext(connection) as captured:
            response = admin.get(list_url(table))
        return len(captured), len(shown(response))

    data.some_of_everything()
    queries()  # content types are cached
    few, few_rows = queries()
    row = table.objects.first()
    for number in range(20):
        row.pk = f"{number}" if isinstance(row.pk, str) else None
        for column in ("lock_owner", "value", "name", "key", "gateway", "previous_token_digest"):
            if hasattr(row, column):
                setattr(row, column, f"copy-{number}")
        if table in (*JOB_TABLES, TaskResult) or hasattr(row, "heartbeat_time"):
            row.pk = uuid7()
        if table is ExternalWorkerJob:
            row.job_key += 1  # of each only one
        if table is Message:
            row.pk, row.message_id = 10_000 + number, None
        row.save(force_insert=True)
    assert queries() == (few, few_rows + 20)


@pytest.mark.parametrize("table", some(TABLES, 4))
def test_nothing_counts_a_whole_table_or_loads_large_columns(admin, table):
    data.some_of_everything()
    with CaptureQueriesContext(connection) as captured:
        admin.get(list_url(table))
    for query in captured:
        sql = query["sql"]
        if "jobexec" in sql and "COUNT(" in sql:
            assert "LIMIT" in sql
        assert "exception_stack" not in sql
        # Long arguments stay in the database.
        assert "handler_configuration" not in re.sub(r"CASE WHEN .*? ELSE NULL END", "", sql)


@pytest.mark.slow
def test_the_order_is_total(admin):
    for table in (*JOB_TABLES, JobLog):
        for column in range(9):
            ordering = admin.get(list_url(table), {"o": str(column)}).context["cl"].queryset.query.order_by
            assert str(ordering[-1]).lstrip("-") in ("pk", "id"), (table, ordering)


class TestCappedCount:
    @pytest.fixture
    def limit(self, monkeypatch):
        monkeypatch.setattr(counts, "COUNT_LIMIT", 10)

    @pytest.mark.parametrize(("rows", "count", "text"), [(0, 0, "0"), (10, 10, "10"), (11, 10, "10+"), (15, 10, "10+")])
    def test_it_ends_at_the_limit(self, db, limit, rows, count, text):
        for _ in range(rows):
            data.make(Job)
        counted = CappedCount.of(Job.objects.order_by("-id"))
        assert (int(counted), str(counted), counted.capped) == (count, text, rows > count)

    def test_the_list_says_so(self, admin, limit):
        for _ in range(12):
            data.dead_letter()
        content = admin.get(list_url(DeadLetterJob)).content.decode()
        assert "10+ dead letter jobs" in content
        assert "10+ results" in content
        assert "counting and pages end at 10+" in content

    def test_the_list_and_its_tab_say_about_how_many_there_are(self, admin, limit, monkeypatch):
        monkeypatch.setattr(counts, "estimated_rows", lambda using, table: 146_239)
        for _ in range(12):
            data.dead_letter()
        content = admin.get(list_url(DeadLetterJob)).content.decode()
        assert "≈146,000 dead letter jobs" in content
        assert '<span class="jobexec-count">≈146,000</span>' in content
        assert "counting and pages end at 10+" in content

    def test_with_thousand_separators(self, settings):
        settings.USE_THOUSAND_SEPARATOR = True
        count = CappedCount(10_000)
        count.capped = True
        assert str(count) == "10000"  # what Django makes 10,000 of

    def test_pages_are_those_of_a_paginator(self, db, limit):
        for _ in range(12):
            data.make(Job)
        jobs = Job.objects.order_by("id")
        pages = CappedPaginator(jobs, 4)
        assert pages.num_pages == 3
        assert list(pages.page(2)) == list(Paginator(jobs, 4).page(2))
        assert len(pages.page(3)) == 2


def test_readable_thousands():
    count = CappedCount(10_000)
    count.capped = True
    assert str(count) == "10,000+"
