"""Every filter of Camunda's JobQuery, Flowable's job queries and Ratchet's JobFilter, as a condition of a queryset.

The tables are models, so a queryset asks all of it; JobQuery has what an operator asks for. A column that is renamed or
moves out of reach fails here.
"""

from datetime import UTC, datetime, timedelta

import pytest
from django.db.models import Q

from jobexec.models import JOB_TABLES, DeadLetterJob, Job, JobDefinition, JobLog, SuspendedJob, TimerJob
from tests.support.factories import make_row

pytestmark = pytest.mark.every_database

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
DAY = timedelta(days=1)
TRACE = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
ALL = frozenset({"message", "running", "timer", "retry", "suspended", "dead"})
MESSAGE, RUNNING, TIMER = ({"message"}, {"running"}, {"timer"})


@pytest.fixture
def jobs(alias):
    """One job of each kind, by name."""
    order = {
        "process_instance_id": "order-1",
        "root_process_instance_id": "root-1",
        "execution_id": "e-1",
        "process_definition_id": "order:3",
        "process_definition_key": "order",
        "job_definition_id": "orders.ship",
        "correlation_id": "c-1",
        "traceparent": TRACE,
        "category": "mail",
        "tenant_id": "acme",
        "create_time": NOW - DAY,
        "priority": 50,
    }
    failed = {"exception_message": "ValueError: no", "exception_stack": "Traceback", "failed_activity_id": "pay"}
    lock = {"lock_owner": "berlin:1", "lock_expiration_time": NOW + timedelta(minutes=5)}
    rows = {
        "message": make_row(Job, alias, handler_type="orders.ship", **order),
        "running": make_row(Job, alias, **lock),
        "timer": make_row(TimerJob, alias, type="timer", due_date=NOW + DAY),
        "retry": make_row(TimerJob, alias, due_date=NOW + 2 * DAY, attempts=1, retries=2, **failed),
        "suspended": make_row(SuspendedJob, alias, due_date=NOW + 3 * DAY, priority=-1),
        "dead": make_row(DeadLetterJob, alias, retries=0, attempts=3, **failed),
    }
    return {row.pk: name for name, row in rows.items()}


CASES = {
    "processInstanceId": (Q(process_instance_id="order-1"), MESSAGE),
    "processInstanceIds": (Q(process_instance_id__in=["order-1", "order-2"]), MESSAGE),
    "rootProcessInstanceId": (Q(root_process_instance_id="root-1"), MESSAGE),
    "executionId": (Q(execution_id="e-1"), MESSAGE),
    "processDefinitionId": (Q(process_definition_id="order:3"), MESSAGE),
    "processDefinitionKey": (Q(process_definition_key="order"), MESSAGE),
    "jobDefinitionId": (Q(job_definition_id="orders.ship"), MESSAGE),
    "handlerType": (Q(handler_type="orders.ship"), MESSAGE),
    "category": (Q(category="mail"), MESSAGE),
    "categoryLike": (Q(category__startswith="ma"), MESSAGE),
    "correlationId": (Q(correlation_id="c-1"), MESSAGE),
    "traceCorrelationId": (Q(traceparent=TRACE), MESSAGE),
    "tenantIdIn": (Q(tenant_id__in=["acme", "other"]), MESSAGE),
    "tenantIdLike": (Q(tenant_id__startswith="ac"), MESSAGE),
    "withoutTenantId": (Q(tenant_id=""), ALL - MESSAGE),
    "includeJobsWithoutTenantId": (Q(tenant_id__in=["acme", ""]), ALL),
    "createdBefore": (Q(create_time__lte=NOW - DAY), MESSAGE),
    "createdAfter": (Q(create_time__gt=NOW - DAY), ALL - MESSAGE),
    "priorityHigherThanOrEquals": (Q(priority__gte=50), MESSAGE),
    "priorityLowerThanOrEquals": (Q(priority__lte=-1), {"suspended"}),
    "timers": (Q(type="timer"), TIMER),
    "messages": (Q(type="message"), ALL - TIMER),
    "duedateLowerThan": (Q(due_date__lt=NOW + 2 * DAY), TIMER),
    "duedateHigherThan": (Q(due_date__gt=NOW + 2 * DAY), {"suspended"}),
    "withRetriesLeft": (Q(retries__gt=0), ALL - {"dead"}),
    "noRetriesLeft": (Q(retries=0), {"dead"}),
    "withException": (~Q(exception_message=""), {"retry", "dead"}),
    "exceptionMessage": (Q(exception_message="ValueError: no"), {"retry", "dead"}),
    "failedActivityId": (Q(failed_activity_id="pay"), {"retry", "dead"}),
    "lockOwner": (Q(lock_owner="berlin:1"), RUNNING),
    "locked": (Q(lock_owner__isnull=False), RUNNING),
    "unlocked": (Q(lock_owner=None), ALL - RUNNING),
    "acquired": (Q(lock_expiration_time__gt=NOW), RUNNING),
    "or": (Q(process_instance_id="order-1") | Q(retries=0), {"message", "dead"}),
    "a contradiction": (Q(priority__gte=60, priority__lte=40), set()),
}


def found(jobs, alias, condition, tables=JOB_TABLES):
    return {
        jobs[pk] for table in tables for pk in table.objects.using(alias).filter(condition).values_list("pk", flat=True)
    }


@pytest.mark.parametrize("name", CASES)
def test_every_filter(alias, jobs, name):
    condition, expected = CASES[name]
    assert found(jobs, alias, condition) == expected


@pytest.mark.parametrize(
    ("state", "table", "expected"),
    [
        ("executable", Job, {"message", "running"}),
        ("waiting for a time", TimerJob, {"timer", "retry"}),
        ("suspended", SuspendedJob, {"suspended"}),
        ("dead letter", DeadLetterJob, {"dead"}),
    ],
)
def test_a_state_is_a_table(alias, jobs, state, table, expected):
    assert found(jobs, alias, Q(), [table]) == expected


@pytest.mark.parametrize(
    "column",
    ["pk", "due_date", "retries", "priority", "create_time", "process_instance_id", "process_definition_id",
     "process_definition_key", "execution_id", "tenant_id"],
)  # fmt: skip
def test_every_order_both_ways_and_in_pages(alias, column):
    numbers = [3, 1, 2, 5, 4]
    for number in numbers:
        text = f"x{number}"
        values = {"due_date": NOW + number * DAY, "create_time": NOW + number * DAY}
        values |= {"retries": number, "priority": number}
        names = ("process_instance_id", "process_definition_id", "process_definition_key", "execution_id", "tenant_id")
        make_row(TimerJob, alias, **values, **dict.fromkeys(names, text))
    timers = TimerJob.objects.using(alias)
    rows = list(timers.order_by(column))
    expected = numbers if column == "pk" else sorted(numbers)
    assert [row.retries for row in rows] == expected
    assert [row.retries for row in timers.order_by(f"-{column}")] == expected[::-1]
    assert [row.retries for row in timers.order_by(column)[2:4]] == expected[2:4]
    assert timers.count() == 5


@pytest.mark.parametrize(
    ("name", "condition"),
    [
        ("jobDefinitionId", Q(pk="orders.ship")),
        ("activityIdIn", Q(handler_type__in=["orders.ship", "orders.pay"])),
        ("processDefinitionKey", Q(process_definition_key="order")),
        ("category", Q(category="mail")),
        ("jobConfiguration", Q(retry_plan="R5/PT1M", exclusive=False, atomic=True)),
        ("priority", Q(priority__gte=5)),
    ],
)
def test_job_definitions(alias, name, condition):
    columns = {"category": "mail", "process_definition_key": "order", "priority": 5}
    columns |= {"retry_plan": "R5/PT1M", "exclusive": False, "atomic": True}
    table = JobDefinition.objects.using(alias)
    table.create(id="orders.ship", handler_type="orders.ship", **columns)
    table.create(id="other", handler_type="other", category="default")
    assert [row.pk for row in table.filter(condition, pk__in=["orders.ship", "other"])] == ["orders.ship"]


LOG = {
    "jobExceptionMessage": Q(exception_message="ValueError: no"),
    "jobDefinitionId": Q(job_definition_id="orders.ship"),
    "jobDefinitionType": Q(handler_type="orders.ship"),
    "processInstanceId": Q(process_instance_id="order-1"),
    "processDefinitionKey": Q(process_definition_key="order"),
    "deploymentId": Q(deployment_id="shop:1"),
    "tenantIdIn": Q(tenant_id__in=["acme"]),
    "hostname": Q(node="berlin"),
    "jobPriorityHigherThanOrEquals": Q(priority__gte=5),
    "failureLog": Q(state="failed"),
}


@pytest.mark.parametrize("name", LOG)
def test_entries_of_the_job_log(alias, name):
    failed = {"state": "failed", "exception_message": "ValueError: no", "node": "berlin", "priority": 5}
    failed |= {"job_definition_id": "orders.ship", "handler_type": "orders.ship", "process_instance_id": "order-1"}
    failed |= {"process_definition_key": "order", "deployment_id": "shop:1", "tenant_id": "acme"}
    table, job = JobLog.objects.using(alias), make_row(Job, alias).pk
    entry = table.create(job_id=job, timestamp=NOW, category="mail", **failed)
    for number, state in enumerate(("created", "successful", "deleted"), 1):
        table.create(job_id=job, timestamp=NOW + number * DAY, category="default", handler_type="other", state=state)
    assert [row.pk for row in table.filter(LOG[name])] == [entry.pk]
    assert [row.state for row in table.filter(job_id=job).order_by("-timestamp")] == [
        "deleted",
        "successful",
        "created",
        "failed",
    ]
