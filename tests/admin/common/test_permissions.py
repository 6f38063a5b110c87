"""Every action needs its own permission; whoever may only look can do nothing."""

import re
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.admin.utils import quote

import jobexec
from jobexec import clock, operations
from jobexec.models import (
    JOB_TABLES,
    Batch,
    BatchTally,
    BlockedJob,
    DeadLetterJob,
    Deployment,
    DeploymentRegistration,
    ExecutorNode,
    ExternalWorkerJob,
    FailureGroup,
    GatewayClient,
    HistoryJob,
    Incident,
    Job,
    JobDefinition,
    JobKey,
    Message,
    Resource,
    Schedule,
    SuspendedJob,
    Suspension,
    SuspensionScope,
    TaskResult,
    TimerJob,
)
from tests.support.suite.tiers import some

from .. import data
from ..conftest import TABLES, list_url, page_url

RETRIES, PRIORITY, NODE = {"retries": "7"}, {"priority": "9"}, {"node_name": "worker-9"}
UNTIL = {"until": "2099-01-01T10:00:00"}
DUE = {"due_date": "2099-01-01T10:00:00"}

#: table, action, the permission that it needs, what it asks
ACTIONS: list[tuple[type[Any], str, str, dict[str, str]]] = [
    (Job, "reset_retries", "retry_job", RETRIES),
    (Job, "suspend", "suspend_job", {}),
    (ExecutorNode, "pause", "control_executornode", {}),
    (ExecutorNode, "resume", "control_executornode", {}),
    (ExecutorNode, "drain", "control_executornode", {}),
    (Job, "activate", "activate_job", {}),
    (Job, "reschedule", "reschedule_job", DUE),
    (Job, "set_priority", "prioritize_job", PRIORITY),
    (Job, "cancel", "cancel_job", {}),
    (TimerJob, "cancel", "cancel_job", {}),
    (SuspendedJob, "cancel", "cancel_job", {}),
    (Job, "delete_selected", "delete_job", {}),
    (TimerJob, "retry_now", "retry_job", {}),
    (TimerJob, "reset_retries", "retry_job", RETRIES),
    (TimerJob, "suspend", "suspend_job", {}),
    (TimerJob, "reschedule", "reschedule_job", DUE),
    (TimerJob, "set_priority", "prioritize_job", PRIORITY),
    (TimerJob, "delete_selected", "delete_timerjob", {}),
    (SuspendedJob, "activate", "activate_job", {}),
    (SuspendedJob, "suspend", "suspend_job", UNTIL),
    (SuspendedJob, "reset_retries", "retry_job", RETRIES),
    (SuspendedJob, "reschedule", "reschedule_job", DUE),
    (SuspendedJob, "set_priority", "prioritize_job", PRIORITY),
    (SuspendedJob, "delete_selected", "delete_suspendedjob", {}),
    (DeadLetterJob, "requeue", "requeue_deadletterjob", RETRIES),
    (DeadLetterJob, "set_priority", "prioritize_job", PRIORITY),
    (DeadLetterJob, "delete_selected", "delete_deadletterjob", {}),
    (ExternalWorkerJob, "reset_retries", "retry_job", RETRIES),
    (ExternalWorkerJob, "suspend", "suspend_job", {}),
    (ExternalWorkerJob, "activate", "activate_job", {}),
    (ExternalWorkerJob, "reschedule", "reschedule_job", DUE),
    (ExternalWorkerJob, "set_priority", "prioritize_job", PRIORITY),
    (ExternalWorkerJob, "cancel", "cancel_job", {}),
    (ExternalWorkerJob, "delete_selected", "delete_externalworkerjob", {}),
    (ExternalWorkerJob, "move_to_dead_letters", "bury_job", {}),
    (ExternalWorkerJob, "unlock", "unlock_job", {}),
    (Job, "unlock", "unlock_job", {}),
    (Job, "execute_now", "execute_job", {}),
    (TimerJob, "execute_now", "execute_job", {}),
    (Job, "move_to_dead_letters", "bury_job", {}),
    (TimerJob, "move_to_dead_letters", "bury_job", {}),
    (SuspendedJob, "move_to_dead_letters", "bury_job", {}),
    (BlockedJob, "execute_now", "execute_job", {}),
    (BlockedJob, "reset_retries", "retry_job", RETRIES),
    (BlockedJob, "reschedule", "reschedule_job", DUE),
    (BlockedJob, "set_priority", "prioritize_job", PRIORITY),
    (BlockedJob, "suspend", "suspend_job", {}),
    (BlockedJob, "move_to_dead_letters", "bury_job", {}),
    (BlockedJob, "cancel", "cancel_job", {}),
    (BlockedJob, "delete_selected", "delete_blockedjob", {}),
    (TimerJob, "recalculate_due_date", "reschedule_job", {}),
    (SuspendedJob, "recalculate_due_date", "reschedule_job", {}),
    (HistoryJob, "retry_now", "retry_job", {}),
    (HistoryJob, "delete_selected", "delete_historyjob", {}),
    (Incident, "annotate", "annotate_incident", {"annotation": "Seen."}),
    (Incident, "requeue", "requeue_deadletterjob", RETRIES),
    (FailureGroup, "requeue", "requeue_deadletterjob", RETRIES),
    (FailureGroup, "assign", "manage_failuregroup", {"assigned_to": ""}),
    (FailureGroup, "acknowledge", "manage_failuregroup", {}),
    (FailureGroup, "snooze", "manage_failuregroup", {"failures": "5"}),
    (FailureGroup, "reopen", "manage_failuregroup", {}),
    (Batch, "suspend", "manage_batch", {}),
    (Batch, "activate", "manage_batch", {}),
    (Batch, "seal", "manage_batch", {}),
    (Batch, "retry", "manage_batch", {}),
    (Batch, "cancel", "manage_batch", {}),
    (Batch, "delete_selected", "delete_batch", {}),
    (JobDefinition, "activate", "activate_job", {}),
    (JobDefinition, "override_priority", "prioritize_job", PRIORITY),
    (JobDefinition, "clear_priority", "prioritize_job", {}),
    (JobDefinition, "set_retries", "requeue_deadletterjob", RETRIES),
    (Deployment, "register", "register_deployment", NODE),
    (Deployment, "unregister", "register_deployment", NODE),
    (Deployment, "retire_registrations", "register_deployment", NODE),
    (Deployment, "retire", "delete_deployment", {}),
    (Suspension, "lift", "activate_job", {}),
    (JobDefinition, "suspend", "suspend_job", {}),
    (Schedule, "fire_now", "fire_schedule", {}),
    (Schedule, "enable", "fire_schedule", {}),
    (Schedule, "disable", "fire_schedule", {}),
    (Schedule, "delete_selected", "delete_schedule", {}),
    (GatewayClient, "rotate_secret", "rotate_gatewayclient", {}),
    (GatewayClient, "retire_secret", "rotate_gatewayclient", {}),
    (GatewayClient, "enable", "enable_gatewayclient", {}),
    (GatewayClient, "disable", "enable_gatewayclient", {}),
    (GatewayClient, "delete_selected", "delete_gatewayclient", {}),
    (JobKey, "delete_selected", "delete_jobkey", {}),
    (TaskResult, "delete_selected", "delete_taskresult", {}),
    (Message, "delete_selected", "delete_message", {}),
    (BlockedJob, "publish_message", "publish_message", {}),
    (BlockedJob, "end_wait", "reschedule_job", {}),
    *((table, "reencrypt", "reencrypt_job", {"plain": "on"}) for table in (Job, TimerJob, DeadLetterJob, BlockedJob)),
    *((table, "reencrypt", "reencrypt_job", {"plain": "on"}) for table in (SuspendedJob, ExternalWorkerJob)),
    *((table, "rerun", "enqueue_job", {}) for table in (Job, TimerJob, SuspendedJob, DeadLetterJob, BlockedJob)),
    (ExternalWorkerJob, "rerun", "enqueue_job", {"variables": "{}"}),
    (Resource, "set_limits", "change_resource", {"limit": "7"}),
    (Resource, "hold_open", "change_resource", UNTIL),
    (Resource, "hold_closed", "change_resource", {}),
    (Resource, "release", "change_resource", {}),
]
ALL = {permission for _table, _action, permission, _asks in ACTIONS}
NAMES = ("table", "action", "permission", "asks")
PARAMETERS = [pytest.param(*case, id=f"{case[0].__name__}-{case[1]}") for case in ACTIONS]
CASES = pytest.mark.parametrize(NAMES, some(PARAMETERS, 6, gate=3))


@pytest.fixture(autouse=True)
def noop(handle: Callable[..., Any]) -> None:
    """A handler for what is executed at once."""
    handle(lambda: None, name="tests.noop")


@pytest.fixture(autouse=True)
def resources(settings: Any) -> None:
    """What the resource of the test is covered by."""
    settings.JOBEXEC = {"RESOURCES": {"pay.example": {"limit": 5}}, "ENCRYPTION_KEYS": {"k1": lambda: b"k" * 32}}


def a_row(table: type[Any], action: str = "") -> Any:
    """A row on which the action can be seen."""
    if table in BESIDE:
        return BESIDE[table](action)
    if action in ("publish_message", "end_wait"):
        return data.make(table, waits_for="approved", waits_for_key="4711")
    if table is ExternalWorkerJob and action == "unlock":
        return data.external(exclusive=False)
    if action == "unlock":
        return data.running(lock_expiration_time=clock.now() - timedelta(minutes=1))
    if action in ("execute_now", "rerun") and table is not ExternalWorkerJob:
        return data.make(table, handler_type="tests.noop", handler_configuration={"args": [], "kwargs": {}})
    if table is TimerJob or action == "recalculate_due_date":
        return data.make(table, due_date=clock.now() + timedelta(hours=1), attempts=int(action.startswith("recalc")))
    # Activating a job that is not suspended does the least that can be seen: it takes the wish to suspend it away.
    return data.make(table, suspend_requested=True)


def a_failure_group(action: str) -> FailureGroup:
    data.dead_letter()
    if action == "acknowledge":
        return data.failure_group()
    quiet: dict[str, Any] = {"acknowledged_at": clock.now()} if action == "reopen" else {}
    return data.failure_group(assigned_to="anna", **quiet)


def a_batch(action: str) -> Batch:
    if action in ("seal", "retry"):
        batch_of_jobs = jobexec.batch()
        data.dead_letter(batch_id=batch_of_jobs.id)
        BatchTally.objects.create(batch_id=batch_of_jobs.id, added=1, failed=1)
        return batch_of_jobs.row
    batch = data.batch()
    if action == "activate":
        operations.suspend(process_instance_id=batch.process_instance_id)
    return batch


def a_definition(action: str) -> JobDefinition:
    columns: dict[str, Any] = {"handler_type": "tests.pay", "category": "default"}
    if action == "clear_priority":
        columns["overriding_priority"] = 7
    if action == "activate":
        operations.suspend(job_definition_id="tests.pay")
    if action == "set_retries":
        data.dead_letter(job_definition_id="tests.pay")
    return JobDefinition.objects.create(id="tests.pay", **columns)


def a_deployment(action: str) -> Deployment:
    row = Deployment.objects.create(id="shop:1", name="shop", version="1")
    if action == "retire_registrations":
        operations.register_deployment(row.pk, **NODE)
    return row


BESIDE: dict[type[Any], Callable[[str], Any]] = {
    Deployment: a_deployment,
    ExecutorNode: lambda action: data.node(requested_state="paused" if action == "resume" else "active"),
    Suspension: lambda action: Suspension.objects.create(scope=SuspensionScope.TENANT, value="acme"),
    JobDefinition: a_definition,
    Incident: lambda action: data.incident(data.dead_letter()),
    FailureGroup: a_failure_group,
    Batch: a_batch,
    HistoryJob: lambda action: data.history_job(),
    Schedule: lambda action: data.schedule(enabled=action != "enable"),
    GatewayClient: lambda action: data.gateway_client(enabled=action != "enable"),
    JobKey: lambda action: data.job_key(),
    TaskResult: lambda action: data.task_result(),
    Resource: lambda action: data.resource(),
    Message: lambda action: data.message(),
}


def everything() -> list[Any]:
    """What is in the tables that actions change."""
    tables = (*JOB_TABLES, Deployment, DeploymentRegistration, Suspension, JobDefinition, Incident, HistoryJob, Batch)
    tables = (*tables, FailureGroup, Schedule, GatewayClient, JobKey, TaskResult, Resource, Message, ExecutorNode)
    return [(table.__name__, list(table.objects.order_by("pk").values())) for table in tables]


def menu(response: Any) -> set[str]:
    select = re.search(r'<select name="action".*?</select>', response.content.decode(), re.DOTALL)
    return set(re.findall(r'<option value="(\w+)"', select[0])) if select else set()


def buttons(response: Any) -> set[str]:
    return set(re.findall(r'<button type="submit" name="action" value="(\w+)"', response.content.decode()))


# A user who may only look has fewer permissions than the one in the next test, which runs for every action in the gate.
@pytest.mark.parametrize(NAMES, some(PARAMETERS, 6, later="nightly"))
def test_who_may_only_look_can_do_nothing(staff, table, action, permission, asks):
    row, client = a_row(table, action), staff()
    before = everything()
    assert menu(client.get(list_url(table))) == set()
    assert buttons(client.get(page_url(row))) == set()
    client.act(table, action, [row], **asks)
    assert everything() == before


@CASES
def test_all_other_permissions_do_not_help(staff, table, action, permission, asks):
    row, client = a_row(table, action), staff(*(ALL - {permission}))
    before = everything()
    assert action not in menu(client.get(list_url(table)))
    assert action not in buttons(client.get(page_url(row)))
    client.act(table, action, [row], **asks)
    assert everything() == before


@CASES
def test_the_permission_is_enough(staff, table, action, permission, asks):
    row, client = a_row(table, action), staff(permission)
    before = everything()
    assert action in menu(client.get(list_url(table)))
    assert action in buttons(client.get(page_url(row)))
    response = client.act(table, action, [row], **asks)
    assert everything() != before
    assert [level for level, _text in client.told(response)] == ["success"]


@CASES
def test_the_permission_without_a_look_at_the_table_is_not(staff, table, action, permission, asks):
    row, client = a_row(table, action), staff(permission, view=False)
    before = everything()
    assert client.act(table, action, [row], **asks).status_code == 403
    assert everything() == before


@pytest.mark.gate
def test_all_actions_are_covered_here(admin):
    offered = {(table, action) for table in TABLES for action in menu(admin.get(list_url(table)))}
    assert offered == {(table, action) for table, action, _permission, _asks in ACTIONS}


@pytest.mark.parametrize("table", JOB_TABLES)
def test_nobody_adds_edits_or_deletes_by_hand(admin, table):
    row = a_row(table)
    before = everything()
    if table is not Job:  # where a job is enqueued
        assert admin.get(f"{list_url(table)}add/").status_code == 403
    assert admin.post(page_url(row), {"priority": "5", "_save": "1"}).status_code == 403
    deletion = admin.post(f"{list_url(table)}{row.pk}/delete/", {"post": "yes"})
    assert deletion.status_code == 302
    assert everything() == before


@pytest.mark.parametrize("table", sorted({table for table, *_ in ACTIONS}, key=lambda table: table.__name__))
def test_no_page_of_django_deletes_past_the_verbs(admin, table):
    row = a_row(table)
    before = everything()
    deletion = admin.post(f"{list_url(table)}{quote(row.pk)}/delete/", {"post": "yes"})
    assert deletion.status_code in (302, 403)
    assert everything() == before


@pytest.mark.gate
def test_suspending_a_scope_needs_its_permission(staff):
    answers = {"scope": "tenant_id", "value": "acme", "include_jobs": "on", "_confirmed": "1"}
    url = f"{list_url(Suspension)}add/"
    for client in (staff(), staff(*(ALL - {"suspend_job"})), staff("suspend_job", view=False)):
        assert client.get(url).status_code == 403
        assert client.post(url, answers).status_code == 403
        assert "Suspend…" not in client.get(list_url(Suspension)).content.decode()
    assert not Suspension.objects.exists()
    client = staff("suspend_job")
    assert "Suspend…" in client.get(list_url(Suspension)).content.decode()
    assert client.post(url, answers).status_code == 302
    assert Suspension.objects.get().value == "acme"


def test_nobody_is_led_to_what_he_may_not_see(staff):
    """Nor told whether it is there."""
    row, gone = data.dead_letter(), data.dead_letter()
    gone_id = gone.pk
    gone.delete()
    urls = [f"{list_url(Job)}locate/{id}/" for id in (row.pk, gone_id)]
    assert [staff(view=False).get(url).status_code for url in urls] == [403, 403]
    assert [staff("view_job", view=False).get(url).status_code for url in urls] == [403, 403]
    reader = staff("view_deadletterjob", view=False)
    assert reader.get(urls[0])["Location"] == page_url(row)
    assert reader.get(urls[1]).status_code == 403
    assert staff().get(urls[1]).status_code == 302


def test_strangers_are_sent_to_the_login(client, db):
    row = data.dead_letter()
    for url in (list_url(DeadLetterJob), page_url(row), f"{list_url(DeadLetterJob)}locate/{row.pk}/"):
        response = client.get(url)
        assert response.status_code == 302
        assert "/login/" in response["Location"]
