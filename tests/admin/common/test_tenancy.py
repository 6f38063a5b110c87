"""Who may see some tenants only sees and changes nothing of others, from whichever side he comes."""

from datetime import timedelta

import pytest
from django.contrib.auth import get_user_model
from django.core.exceptions import ImproperlyConfigured
from django.urls import reverse

import jobexec
from jobexec import clock, operations
from jobexec.admin.common import batching
from jobexec.admin.common.tenancy import tenants_of
from jobexec.models import (
    JOB_TABLES,
    AuditLog,
    Batch,
    BlockedJob,
    DeadLetterJob,
    Deployment,
    ExclusiveLock,
    ExecutorNode,
    ExternalWorker,
    ExternalWorkerJob,
    FailureGroup,
    GatewayClient,
    HistoryJob,
    Incident,
    Job,
    JobDefinition,
    JobKey,
    JobLog,
    Message,
    Resource,
    Schedule,
    SuspendedJob,
    Suspension,
    SuspensionScope,
    TaskResult,
    TimerJob,
)
from jobexec.operations.batches.jobs import EXECUTION
from jobexec.operations.query.stored_filter import resolve
from tests.support.suite.tiers import some

from .. import data, tenants
from ..conftest import TABLES, Staff, list_url, page_url

OF_TENANTS = (
    *JOB_TABLES,
    HistoryJob,
    AuditLog,
    JobLog,
    Incident,
    Batch,
    Suspension,
    Schedule,
    GatewayClient,
    TaskResult,
    JobKey,
    Message,
)
OF_NONE = (ExecutorNode, ExternalWorker, Deployment, JobDefinition, FailureGroup, ExclusiveLock, Resource)


@pytest.fixture(autouse=True)
def hook(settings):
    settings.JOBEXEC = {"ADMIN_TENANTS": "tests.admin.tenants.of_user"}


def client_of(tenant, name="clerk"):
    """Logged in as somebody who may do everything, to the jobs of some tenants."""
    client = Staff()
    client.force_login(get_user_model().objects.create_superuser(name, last_name=tenant))
    return client


@pytest.fixture
def acme(db):
    return client_of("acme")


def rows_of(tenant):
    """A row of this tenant in every table that has tenants."""
    columns = {"tenant_id": tenant}
    dead = data.dead_letter(**columns)
    return {
        Job: data.make(Job, **columns),
        TimerJob: data.make(TimerJob, due_date=clock.now() + timedelta(hours=1), **columns),
        BlockedJob: data.make(BlockedJob, **columns),
        SuspendedJob: data.make(SuspendedJob, **columns),
        DeadLetterJob: dead,
        ExternalWorkerJob: data.external(**columns),
        HistoryJob: data.history_job(**columns),
        AuditLog: data.audit(object_id=str(dead.pk), **columns),
        JobLog: data.log(dead, **columns),
        Incident: data.incident(dead),
        Batch: data.batch(**columns),
        Suspension: Suspension.objects.create(scope=SuspensionScope.TENANT, value=tenant, swept=True),
        Schedule: data.schedule(name=f"of {tenant}", options=columns),
        GatewayClient: data.gateway_client(name=f"of {tenant}", tenants=[tenant]),
        TaskResult: data.task_result(**columns),
        JobKey: data.job_key(job_id=dead.pk, **columns),
        Message: data.message(**columns),
    }


def shown(response):
    return [row.pk for row in response.context["cl"].result_list]


def everything():
    return [list(table.objects.order_by("pk").values()) for table in OF_TENANTS]


def test_all_tables_are_covered_here():
    assert {*OF_TENANTS, *OF_NONE} == set(TABLES)


@pytest.mark.gate
@pytest.mark.parametrize("table", some(OF_TENANTS, 4, gate=2))
def test_a_list_shows_own_rows_whatever_is_asked(acme, table):
    mine, theirs, nobodys = (rows_of(tenant)[table] for tenant in ("acme", "beta", ""))
    assert shown(acme.get(list_url(table))) == [mine.pk]
    column = "value" if table is Suspension else "tenant_id"
    for query in ({"tenant": "beta"}, {f"{column}__exact": "beta"}, {column: ""}, {"q": str(theirs.pk)}):
        response = acme.get(list_url(table), query, follow=True)
        assert not {theirs.pk, nobodys.pk} & set(shown(response)), query
    if table not in (AuditLog, Suspension, Schedule, GatewayClient):
        job = getattr(theirs, "job_id", theirs.pk)
        assert str(job) not in acme.get(list_url(table), {"q": "order-4711"}).content.decode()


@pytest.mark.gate
@pytest.mark.parametrize("table", some(OF_TENANTS, 4, gate=2))
def test_a_page_of_another_tenant_does_not_exist(acme, table):
    mine, theirs = rows_of("acme")[table], rows_of("beta")[table]
    assert acme.get(page_url(mine)).status_code == 200
    for name in ("change", "history", "delete"):
        url = reverse(f"admin:jobexec_{table._meta.model_name}_{name}", args=[theirs.pk])
        assert acme.get(url, follow=True).status_code in (403, 404), name
        assert acme.post(url, {"post": "yes", "_save": "1"}, follow=True).status_code in (403, 404), name
    never = "999999" if table in (JobLog, Suspension, Schedule, GatewayClient) else str(Job().pk)
    url = reverse(f"admin:jobexec_{table._meta.model_name}_change", args=[never])
    assert acme.get(url).status_code == 404
    assert acme.get(page_url(theirs)).status_code == 404


@pytest.mark.parametrize("table", OF_NONE)
def test_tables_without_tenants_are_not_there(acme, table):
    row = data.some_of_everything()[table]
    assert acme.get(list_url(table)).status_code == 403
    assert acme.get(page_url(row)).status_code == 403
    assert acme.post(list_url(table), {"action": "requeue", "_selected_action": row.pk}).status_code == 403
    index = acme.get("/admin/jobexec/").content.decode()
    assert f'href="{list_url(table)}"' not in index
    assert f'href="{list_url(Job)}"' in index
    assert client_of("", "boss").get(list_url(table)).status_code == 200


def test_a_job_is_located_among_own_ones_only(acme):
    mine, theirs = data.make(Job, tenant_id="acme"), data.make(Job, tenant_id="beta")
    gone, lost = data.make(Job, tenant_id="beta"), data.make(Job, tenant_id="acme")
    data.log(gone, tenant_id="beta")
    data.log(lost, tenant_id="acme")
    operations.delete_jobs([gone, lost])
    assert acme.get(f"{list_url(Job)}locate/{mine.pk}/")["Location"] == page_url(mine)
    for id in (theirs.pk, gone.pk, Job().pk):
        assert acme.get(f"{list_url(Job)}locate/{id}/").status_code == 404
    assert acme.get(f"{list_url(Job)}locate/{lost.pk}/")["Location"] == f"{list_url(JobLog)}?q={lost.pk}"
    # through the page of another table
    assert acme.get(page_url(TimerJob(pk=theirs.pk))).status_code == 404
    assert acme.get(page_url(TimerJob(pk=mine.pk)), follow=True).status_code == 200


def test_tabs_count_own_jobs(acme):
    for tenant in ("acme", "beta", "beta"):
        rows_of(tenant) if tenant == "acme" else data.make(Job, tenant_id=tenant)
    for query in ({}, {"q": "order-4711"}):
        assert [int(tab["count"]) for tab in acme.get(list_url(Job), query).context["tabs"]] == [1] * 6


ACTIONS = [
    (Job, "cancel", {}),
    (Job, "delete_selected", {}),
    (Job, "set_priority", {"priority": "9"}),
    (Job, "move_to_dead_letters", {}),
    (TimerJob, "retry_now", {}),
    (TimerJob, "suspend", {}),
    (SuspendedJob, "set_priority", {"priority": "9"}),
    (DeadLetterJob, "requeue", {"retries": "3"}),
    (DeadLetterJob, "delete_selected", {}),
    (HistoryJob, "retry_now", {}),
    (HistoryJob, "delete_selected", {}),
    (Incident, "requeue", {"retries": "3"}),
    (Incident, "annotate", {"annotation": "Mine."}),
    (Batch, "cancel", {}),
    (Batch, "delete_selected", {}),
    (Suspension, "lift", {}),
    (Schedule, "fire_now", {}),
    (Schedule, "disable", {}),
    (Schedule, "delete_selected", {}),
    (GatewayClient, "rotate_secret", {}),
    (GatewayClient, "disable", {}),
    (GatewayClient, "delete_selected", {}),
    (TaskResult, "delete_selected", {}),
]


@pytest.mark.gate
@pytest.mark.parametrize(("table", "action", "answers"), some(ACTIONS, 4, gate=2))
def test_an_action_on_rows_of_others_does_nothing_and_tells_nothing(acme, table, action, answers):
    row = rows_of("beta")[table]
    before = everything()
    for across in ("0", "1"):
        for query in ("", "?tenant=beta", f"?q={row.pk}"):
            response = acme.act(table, action, [row], select_across=across, query=query, **answers)
            told = " ".join(text for _level, text in acme.told(response))
            for word in ("executable", "dead letter by", "timer by", "suspended by", "beta"):
                assert word not in told
            asked = acme.act(table, action, [row], select_across=across, query=query, answered=False)
            assert b"order-4711" not in asked.content
    assert everything() == before


@pytest.mark.parametrize(("table", "action", "answers"), some(ACTIONS, 4, gate=2))
def test_it_does_something_to_own_ones(acme, table, action, answers):
    row = rows_of("acme")[table]
    before = everything()
    acme.act(table, action, [row], **answers)
    assert everything() != before


def test_of_a_foreign_job_that_moved_nothing_is_told(acme):
    theirs, mine = data.make(Job, tenant_id="beta"), data.make(Job, tenant_id="acme")
    told = acme.told(acme.act(DeadLetterJob, "requeue", [theirs, mine], retries="3"))
    assert [text.split(":")[1].split("(")[0] for _level, text in told] == [" it is done or deleted "]


def test_a_batch_holds_the_condition_of_the_tenants(acme, monkeypatch):
    monkeypatch.setattr(batching, "BATCH_ABOVE", 3)
    mine = {data.dead_letter(tenant_id="acme").pk for _ in range(4)}
    for _ in range(4):
        data.dead_letter(tenant_id="beta")
    response = acme.act(DeadLetterJob, "requeue", [DeadLetterJob.objects.first()], select_across="1", retries="3")
    batch = Batch.objects.get()
    assert {row.pk for row in resolve(batch.selection, "default")} == mine
    assert batch.tenant_id == "acme"
    assert acme.get(response["Location"]).status_code == 200
    later = data.dead_letter(tenant_id="beta")
    assert later.pk not in {row.pk for row in resolve(batch.selection, "default")}


@pytest.mark.gate
def test_a_batch_over_several_tenants_is_seen_by_who_started_it(db, monkeypatch):
    monkeypatch.setattr(batching, "BATCH_ABOVE", 1)
    clerk, other, boss = client_of("acme beta"), client_of("acme beta", "other"), client_of("", "boss")
    mine = {data.dead_letter(tenant_id=tenant).pk for tenant in ("acme", "beta")}
    data.dead_letter(tenant_id="gamma")
    response = clerk.act(DeadLetterJob, "requeue", [DeadLetterJob.objects.first()], select_across="1", retries="3")
    batch = Batch.objects.get()
    assert {row.pk for row in resolve(batch.selection, "default")} == mine
    assert batch.tenant_id == ""
    assert clerk.get(response["Location"]).status_code == 200
    assert other.get(page_url(batch)).status_code == 404
    assert boss.get(page_url(batch)).status_code == 200


@pytest.mark.gate
def test_batches_of_all_are_not_those_of_jobs_without_a_tenant(db):
    clerk, batch = client_of("- acme"), data.batch()
    own = data.make(Job, batch_id=batch.pk, handler_type=EXECUTION, handler_configuration={"args": ["0123"]})
    child = data.make(Job, batch_id=batch.pk)
    assert shown(clerk.get(list_url(Batch))) == []
    assert shown(clerk.get(list_url(Job))) == [child.pk]
    assert clerk.get(page_url(own)).status_code == 404
    assert clerk.get(f"{list_url(Job)}locate/{own.pk}/").status_code == 404
    clerk.act(Job, "cancel", [own])
    assert Job.objects.filter(pk=own.pk, cancel_requested=False).exists()


def test_batches_of_jobs_and_their_jobs_are_of_their_tenant(acme):
    ours, theirs = jobexec.batch(tenant_id="acme"), jobexec.batch(tenant_id="beta")
    mine = data.make(Job, batch_id=ours.id, tenant_id="acme")
    data.make(Job, batch_id=theirs.id, tenant_id="beta")
    assert shown(acme.get(list_url(Batch))) == [ours.id]
    assert shown(acme.get(list_url(Job))) == [mine.pk]
    assert acme.get(page_url(ours.row)).status_code == 200
    assert acme.get(page_url(theirs.row)).status_code == 404


def test_the_page_of_a_job_tells_nothing_of_others_in_its_process_instance(acme):
    mine = data.make(Job, tenant_id="acme")
    theirs = data.running(tenant_id="beta", handler_type="beta.secret")
    ExclusiveLock.objects.create(process_instance_id="order-4711", lock_owner=data.OWNER, acquisition=mine.pk)
    data.log(theirs, tenant_id="beta", job_id=mine.pk, exception_message="of beta")
    data.incident(theirs, job_id=mine.pk, annotation="of beta")
    response = acme.get(page_url(mine))
    content = response.content.decode()
    assert response.context["siblings"] == []
    for word in (str(theirs.pk), "beta.secret", "of beta"):
        assert word not in content
    assert not any("process instance" in reason for reason in response.context["reasons"]), "that is another one"
    whole = client_of("", "boss").get(page_url(mine)).content.decode()
    assert str(theirs.pk) not in whole


def test_filters_offer_own_tenants_and_no_definitions(acme):
    JobDefinition.objects.create(id="beta.secret", handler_type="beta.secret", category="default")
    content = acme.get(list_url(Job)).content.decode()
    assert "beta.secret" not in content
    assert '<option value="acme"></option>' in content
    assert "beta.secret" in client_of("", "boss").get(list_url(Job)).content.decode()


@pytest.mark.gate
def test_only_own_tenants_can_be_suspended(acme):
    data.make(Job, tenant_id="beta")
    url = f"{list_url(Suspension)}add/"
    for scope, value in (
        ("tenant_id", "beta"),
        ("tenant_id", ""),
        ("process_instance_id", "order-4711"),
        ("process_definition_key", "pay"),
        ("job_definition_id", "tests.pay"),
        ("id", "x"),
    ):
        response = acme.post(url, {"scope": scope, "value": value, "include_jobs": "on", "_confirmed": "1"})
        assert response.status_code == 200
        assert b"errorlist" in response.content
    assert not Suspension.objects.exists()
    acme.post(url, {"scope": "tenant_id", "value": "acme", "_confirmed": "1"})
    assert Suspension.objects.get().value == "acme"


def test_other_suspensions_are_not_seen(acme):
    for scope in SuspensionScope.values:
        Suspension.objects.create(scope=scope, value="acme")
    assert shown(acme.get(list_url(Suspension))) == [Suspension.objects.get(scope=SuspensionScope.TENANT).pk]


@pytest.mark.gate
def test_nobody_at_all_is_not_everybody(db):
    rows_of("acme"), rows_of("")
    clerk = client_of("nobody")
    for table in OF_TENANTS:
        assert shown(clerk.get(list_url(table))) == []


def test_jobs_without_a_tenant_are_seen_where_the_empty_text_is_named(db):
    clerk, free = client_of("- acme"), data.make(Job)
    data.make(Job, tenant_id="beta")
    assert shown(clerk.get(list_url(Job))) == [free.pk]


def test_who_may_see_all_sees_all(db):
    boss = client_of("", "boss")
    rows = [rows_of(tenant)[Job].pk for tenant in ("acme", "beta", "")]
    assert shown(boss.get(list_url(Job))) == rows[::-1]


@pytest.mark.parametrize(("tenant", "status", "details"), [("acme", 401, False), ("", 200, True)])
def test_metrics_and_health_of_all_tenants_are_for_who_may_see_all(db, tenant, status, details):
    client = client_of(tenant)
    assert client.get(reverse("jobexec:metrics")).status_code == status
    assert ("engines" in client.get(reverse("jobexec:health")).json()) is details


def test_the_hook_is_asked_once_a_request(acme):
    data.dead_letter(tenant_id="acme")
    tenants.calls.clear()
    acme.get(list_url(DeadLetterJob))
    assert len(tenants.calls) == 1


@pytest.mark.parametrize("name", ["wrong", "numbers"])
def test_an_answer_that_is_none_is_an_error_and_not_everything(acme, settings, name, rf):
    settings.JOBEXEC = {"ADMIN_TENANTS": f"tests.admin.tenants.{name}"}
    with pytest.raises(ImproperlyConfigured, match=rf"ADMIN_TENANTS.*tests\.admin\.tenants\.{name}.*expected None or"):
        tenants_of(rf.get("/"))
    with pytest.raises(ImproperlyConfigured):
        acme.get(list_url(Job))
