"""Selections: what a queryset says comes back from its description; what cannot be said is refused by name."""

import json
from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest
from django.contrib.auth.models import User
from django.db.models import Exists, F, OuterRef, Q, Value
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from jobexec.exceptions import InvalidJob
from jobexec.models import JOB_TABLES, DeadLetterJob, HistoryJob, Job, Suspension, TimerJob
from jobexec.operations.query.stored_filter import MAX_VALUES, describe, described_ids, resolve, tenant_of
from tests.support.factories import make_row

pytestmark = pytest.mark.every_database

NOW = datetime(2026, 3, 1, 12, 0, 0, 123456, tzinfo=UTC)
SOME_ID = UUID("01890000-0000-7000-8000-000000000001")

QUERIES = {
    "all": lambda rows: rows.all(),
    "none": lambda rows: rows.none(),
    "exact": lambda rows: rows.filter(handler_type="a"),
    "not": lambda rows: rows.exclude(handler_type="a"),
    "several": lambda rows: rows.filter(handler_type="a", priority__gte=1).filter(retries__lt=4),
    "or": lambda rows: rows.filter(Q(handler_type="a") | Q(priority=2)),
    "nested": lambda rows: rows.filter(~(Q(handler_type="a") & ~Q(priority=1)) | Q(tenant_id__startswith="t")),
    "xor of not": lambda rows: rows.exclude(Q(handler_type="a") | Q(priority=2), tenant_id=""),
    "in": lambda rows: rows.filter(handler_type__in=["a", "b"]),
    "not in": lambda rows: rows.exclude(priority__in={1, 2}),
    "in nothing": lambda rows: rows.filter(handler_type__in=[]),
    "ids": lambda rows: rows.filter(pk__in=[SOME_ID]),
    "text": lambda rows: rows.filter(exception_message__icontains="time % out_"),
    "a number as text": lambda rows: rows.filter(priority__startswith="1"),
    "moment": lambda rows: rows.filter(due_date__lte=NOW),
    "no moment": lambda rows: rows.exclude(due_date__gt=NOW),
    "range": lambda rows: rows.filter(due_date__range=(NOW, NOW + timedelta(hours=1))),
    "null": lambda rows: rows.filter(due_date=None),
    "not null": lambda rows: rows.filter(due_date__isnull=False),
    "bool": lambda rows: rows.filter(exclusive=False),
    "duration": lambda rows: rows.filter(timeout__gt=timedelta(seconds=1.5)),
    "uuid": lambda rows: rows.filter(batch_id=SOME_ID),
    "not a uuid": lambda rows: rows.exclude(batch_id=SOME_ID),
    "ordered": lambda rows: rows.order_by("-priority").values_list("pk", flat=True),
}


@pytest.fixture
def rows(alias):
    columns = [
        {"handler_type": "a", "priority": 1, "due_date": NOW},
        {"handler_type": "a", "priority": 2, "due_date": NOW + timedelta(microseconds=1), "exclusive": False},
        {"handler_type": "b", "retries": 1, "exception_message": "TIME % OUT_", "timeout": timedelta(seconds=9)},
        {"handler_type": "c", "tenant_id": "t1", "priority": 10, "batch_id": SOME_ID, "retries": 5},
        {"handler_type": "A", "id": SOME_ID, "due_date": NOW - timedelta(days=1)},
    ]
    return [make_row(DeadLetterJob, alias, **each) for each in columns]


@pytest.mark.parametrize("name", QUERIES)
def test_what_is_described_comes_back(alias, rows, name):
    queryset = QUERIES[name](DeadLetterJob.objects.using(alias))
    stored = json.loads(json.dumps(describe(queryset)))
    again = resolve(stored, alias)
    assert (again.model, again.db) == (DeadLetterJob, alias)
    expected = set(queryset.values_list("pk", flat=True))
    assert set(again.values_list("pk", flat=True)) == expected
    assert set(resolve(describe(again), alias).values_list("pk", flat=True)) == expected


def test_the_queries_of_this_test_tell_rows_apart(alias, rows):
    sizes = {name: query(DeadLetterJob.objects.using(alias)).count() for name, query in QUERIES.items()}
    nothing = {name for name, size in sizes.items() if not size}
    assert (nothing, sizes["all"], sizes["moment"]) == ({"none", "in nothing"}, 5, 2)


LEAVES = st.sampled_from(
    [
        Q(handler_type="a"),
        Q(priority__gt=1),
        Q(due_date=None),
        Q(due_date__gt=NOW),
        Q(tenant_id__in=["", "x"]),
        Q(batch_id=SOME_ID),
        Q(exclusive=True),
    ]
)
TREES = st.recursive(
    LEAVES,
    lambda inner: st.builds(Q.__or__, inner, inner) | st.builds(Q.__and__, inner, inner) | inner.map(lambda q: ~q),
)


@pytest.mark.gate
@given(tree=TREES)
@settings(max_examples=100, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_tree(alias, rows, tree):
    queryset = DeadLetterJob.objects.using(alias).filter(tree)
    again = resolve(describe(queryset), alias)
    assert set(again.values_list("pk", flat=True)) == set(queryset.values_list("pk", flat=True))


@pytest.mark.parametrize("table", JOB_TABLES)
def test_every_table(alias, table):
    row = make_row(table, alias)
    assert resolve(describe(table.objects.using(alias).all()), alias).get() == row


@pytest.mark.parametrize(
    ("queryset", "what"),
    [
        (lambda: Job.objects.all()[:5], "a slice"),
        (lambda: Job.objects.distinct(), "distinct"),
        (lambda: Job.objects.union(Job.objects.all()), "combination"),
        (lambda: Job.objects.annotate(x=Value(1)), "annotations"),
        (lambda: Job.objects.alias(x=F("priority") + 1).filter(x=2), "annotations"),
        (lambda: Job.objects.extra(where=["1=1"]), "ExtraWhere"),
        (lambda: Job.objects.extra(select={"x": "1"}), "extra"),
        (lambda: Job.objects.filter(priority=F("retries")), "an expression compared with priority"),
        (lambda: Job.objects.filter(pk__in=TimerJob.objects.values("pk")), "an expression compared with id"),
        (lambda: Job.objects.filter(Exists(Suspension.objects.filter(value=OuterRef("tenant_id")))), "Exists"),
        (lambda: Job.objects.filter(due_date__date=NOW.date()), "a condition on TruncDate"),
        (lambda: Job.objects.filter(due_date__year=2026), "YearTransform|the lookup|YearExact|ExtractYear"),
        (lambda: Job.objects.filter(custom_headers__x=1), "a condition on KeyTransform"),
        (lambda: Job.objects.filter(custom_headers={"x": 1}), "a condition on custom_headers"),
        (lambda: Job.objects.filter(Q(priority=1) ^ Q(retries=1)), "joined by XOR"),
        (lambda: Job.objects.filter(priority__in=range(MAX_VALUES + 1)), f"more than {MAX_VALUES}"),
        (lambda: User.objects.all(), "over User"),
        (lambda: HistoryJob.objects.all(), "over HistoryJob"),
    ],
)
def test_what_cannot_be_described_is_named(queryset, what):
    with pytest.raises(InvalidJob, match=rf"selection: expected .* got .*({what})"):
        describe(queryset())


LEAF = {"column": "priority", "lookup": "exact", "value": 1}
AND = {"connector": "AND", "negated": False}


@pytest.mark.parametrize(
    "description",
    [
        None,
        [],
        "all",
        {},
        {"table": "job"},
        {"table": "user", "where": LEAF},
        {"table": "historyjob", "where": LEAF},
        {"table": "job", "where": []},
        {"table": "job", "where": {**AND, "children": None}},
        {"table": "job", "where": {**AND, "children": [None]}},
        {"table": "job", "where": {**AND, "connector": "XOR", "children": []}},
        {"table": "job", "where": {**AND, "negated": "no", "children": []}},
        {"table": "job", "where": {}},
        {"table": "job", "where": {**LEAF, "column": "password"}},
        {"table": "job", "where": {**LEAF, "column": "priority__exact"}},
        {"table": "job", "where": {**LEAF, "column": "custom_headers"}},
        {"table": "job", "where": {**LEAF, "lookup": "search"}},
        {"table": "job", "where": {**LEAF, "lookup": "in"}},
        {"table": "job", "where": {**LEAF, "value": [1]}},
        {"table": "job", "where": {**LEAF, "value": {}}},
        {"table": "job", "where": {**LEAF, "value": None}},
        {"table": "job", "where": {**LEAF, "value": "many"}},
        {"table": "job", "where": {**LEAF, "lookup": "range", "value": [1]}},
        {"table": "job", "where": {**LEAF, "lookup": "isnull", "value": "perhaps"}},
        {"table": "job", "where": {"column": "id", "lookup": "exact", "value": "no id"}},
        {"table": "job", "where": {"column": "due_date", "lookup": "exact", "value": "yesterday"}},
        {"table": "job", "where": {"column": "priority", "lookup": "exact"}},
    ],
)
def test_what_describe_never_wrote_is_refused(description):
    with pytest.raises(InvalidJob, match="selection: expected what describe"):
        resolve(description, "default")


def test_ids():
    assert described_ids({"ids": [SOME_ID.hex]}) == [SOME_ID]
    assert described_ids({"table": "job", "where": LEAF}) is None
    for broken in ({"ids": None}, {"ids": [1]}, {"ids": ["x"]}):
        with pytest.raises(InvalidJob, match="selection"):
            described_ids(broken)


@pytest.mark.parametrize(
    ("condition", "tenant"),
    [
        (Q(tenant_id="a"), "a"),
        (Q(tenant_id__in=["a"], priority=1), "a"),
        (Q(tenant_id__in=["a", "b"]), ""),
        (~Q(tenant_id="a"), ""),
        (Q(tenant_id="a") | Q(priority=1), ""),
        (Q(priority=1), ""),
        (Q(), ""),
    ],
)
def test_the_tenant(condition, tenant):
    assert tenant_of(describe(Job.objects.filter(condition))) == tenant
