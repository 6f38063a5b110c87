"""What an address may ask of a list: nothing about what is masked or secret, and no patterns."""

import pytest
from django.contrib.admin import site
from django.db.models import BinaryField, CharField, JSONField, TextField
from django.test import RequestFactory

from jobexec.admin.common.base import SECRET
from jobexec.models import DeadLetterJob, FailureGroup, Job, JobLog
from tests.support.factories import make_job, make_row

from ..conftest import TABLES, list_url

PATTERNS = ["contains", "icontains", "startswith", "istartswith", "endswith", "regex", "iregex", "iexact"]


def allowed(table, lookup, value="x"):
    page = site._registry[table]
    return page.lookup_allowed(lookup, value, RequestFactory().get("/"))


def test_every_table_is_looked_at():
    assert {table for table in site._registry if table._meta.app_label == "jobexec"} == set(TABLES)


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.__name__)
def test_no_address_can_ask_about_what_is_masked_or_match_a_pattern(table):
    for field in table._meta.concrete_fields:
        hidden = isinstance(field, JSONField | TextField | BinaryField) or field.name in SECRET
        for name in {field.name, field.attname}:
            for pattern in PATTERNS:
                assert not allowed(table, f"{name}__{pattern}"), f"{name}__{pattern}"
            for path in ("password", "kwargs__password", "kwargs__password__startswith", "0", "keys", "length__gt"):
                assert not allowed(table, f"{name}__{path}"), f"{name}__{path}"
            for plain in ("", "__exact", "__in", "__isnull"):
                assert allowed(table, f"{name}{plain}") is not hidden, f"{name}{plain}"
            for order in ("__gt", "__gte", "__lt", "__lte", "__range__gte", "__range__lte_0"):
                orders = not hidden and not isinstance(field, CharField)
                assert allowed(table, f"{name}{order}") is orders, f"{name}{order}"


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.__name__)
def test_relations_lead_nowhere(table):
    for relation in table._meta.get_fields():
        if relation.is_relation:
            assert not allowed(table, f"{relation.name}__id__gt")


def test_an_address_that_means_nothing_is_no_error(admin):
    response = admin.get(f"{list_url(Job)}?nothing__of__that=1")
    assert (response.status_code, response.url) == (302, f"{list_url(Job)}?e=1")


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.__name__)
def test_what_its_own_filters_ask_is_allowed(table, admin):
    response = admin.get(list_url(table))
    for spec in response.context["cl"].filter_specs:
        for parameter in spec.expected_parameters():
            assert allowed(table, parameter), parameter


@pytest.mark.parametrize(
    "query",
    [
        "handler_configuration__kwargs__password__startswith=a",
        "custom_headers__token__startswith=a",
        "handler_type__regex=(",
        "exception_stack__contains=secret",
        "rank__regex=1",
    ],
)
def test_a_query_string_that_asks_for_more_is_refused(admin, query):
    make_job("default", handler_configuration={"args": [], "kwargs": {"password": "abc"}})
    make_row(DeadLetterJob, "default")
    for table in (Job, DeadLetterJob):
        assert admin.get(f"{list_url(table)}?{query}").status_code == 400


@pytest.mark.parametrize(
    ("table", "query"),
    [
        (Job, "create_time__gte=9999-12-31T23:59:59-12:00"),
        (JobLog, "timestamp=9999-12-31T23:59:59-12:00"),
        (Job, "priority__in=99999999999999999999999"),
        (FailureGroup, "q=" + "a+" * 2000),
    ],
)
def test_what_no_column_takes_is_no_error_of_the_server(admin, table, query):
    response = admin.get(f"{list_url(table)}?{query}")
    assert (response.status_code, response.url) == (302, f"{list_url(table)}?e=1")


def test_an_address_sorts_by_what_the_list_offers_only(admin):
    def ordered(number):
        return admin.get(f"{list_url(FailureGroup)}?o={number}").context["cl"].queryset.query.order_by

    columns = admin.get(list_url(FailureGroup)).context["cl"].list_display
    assert ordered(columns.index("last"))[0] == "last_time"
    for name in ("count", "first"):
        assert ordered(columns.index(name)) == ("-last_time", "fingerprint"), "the order of the list"
