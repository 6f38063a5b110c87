"""The audit log: each change by an operator is one row, in the transaction of the change; nothing else is."""

from datetime import UTC, datetime, timedelta

import pytest
from django.db import connections, transaction
from django.test.utils import CaptureQueriesContext

from jobexec import clock, job, operations, signals
from jobexec.exceptions import InvalidJob
from jobexec.handlers import registry
from jobexec.models import (
    AuditLog,
    DeadLetterJob,
    Deployment,
    Incident,
    IncidentState,
    Job,
    JobDefinition,
    OperatorType,
    TimerJob,
)
from jobexec.operations import audit, batches
from jobexec.operations.audit import LONGEST, MOST_IDS, acting
from jobexec.operations.external import resolve_external_incident, set_external_priority, set_external_retries
from jobexec.operations.maintenance.cleanup import clean_up_history
from jobexec.operations.manage import gateway_clients
from jobexec.operations.manage.purge import release_keys
from jobexec.operations.nodes.deployments import deploy
from jobexec.operations.schedules.manage import delete_schedule, fire_now, save_schedule, set_enabled
from jobexec.operations.values.operator import Operator
from tests.support.audit import audit_log
from tests.support.factories import make_job, make_row, work
from tests.support.outside import make_external

ANN = Operator(OperatorType.USER, "ann", "admin", "192.0.2.7")
HANDLER = "tests.do_nothing"


@pytest.fixture(autouse=True)
def ann():
    """Who acts in these tests."""
    with acting(ANN):
        yield


@pytest.fixture
def handler():
    """One that a schedule may name."""
    with registry.isolated():

        @job(name=HANDLER)
        def do_nothing(password=""):
            pass

        yield


def said(entry):
    return entry.verb, entry.object_type, entry.object_id, entry.count


@pytest.mark.every_database
def test_who_what_when_and_from_where(alias):
    row = make_row(TimerJob, alias, retries=1, tenant_id="acme")
    operations.set_retries(row, 9, using=alias)
    (entry,) = audit_log(alias)
    assert said(entry) == ("set_retries", "timerjob", str(row.pk), 1)
    assert (entry.operator_type, entry.operator, entry.via, entry.origin) == ("user", "ann", "admin", "192.0.2.7")
    assert (entry.timestamp, entry.tenant_id, entry.scope) == (clock.now(alias), "acme", None)
    assert (entry.old_value, entry.new_value) == ({"retries": 1}, {"retries": 9})


@pytest.mark.every_database
def test_many_jobs_are_one_row_with_their_ids(alias):
    jobs = [make_job(alias, tenant_id="acme", priority=number) for number in range(3)]
    other = make_row(TimerJob, alias, tenant_id="acme")
    operations.set_priority([*jobs, other], 7, using=alias)
    (entry,) = audit_log(alias)
    assert said(entry) == ("set_priority", "job", "", 4)
    assert set(entry.scope["ids"]) == {str(row.pk) for row in (*jobs, other)}
    assert (entry.old_value, entry.new_value, entry.tenant_id) == (None, {"priority": 7}, "acme")


def test_jobs_of_several_tenants_belong_to_none_of_them(alias):
    rows = [make_row(DeadLetterJob, alias, tenant_id=tenant) for tenant in ("acme", "beta")]
    operations.requeue(rows, using=alias)
    assert [(entry.count, entry.tenant_id) for entry in audit_log(alias)] == [(2, None)]


@pytest.mark.gate
def test_only_so_many_ids_are_kept(alias):
    jobs = operations.create_jobs(alias, [{"handler_type": HANDLER} for _ in range(MOST_IDS + 5)])
    operations.delete_jobs([job.pk for job in jobs], using=alias)
    (entry,) = audit_log(alias)
    assert (entry.count, len(entry.scope["ids"])) == (MOST_IDS + 5, MOST_IDS)


def test_ids_that_are_full_are_not_written_once_more_for_each_job(alias, monkeypatch):
    monkeypatch.setattr(audit, "MOST_IDS", 2)
    jobs = [make_job(alias, priority=number) for number in range(4)]
    with CaptureQueriesContext(connections[alias]) as queries:
        operations.move_to_dead_letter([job.pk for job in jobs], using=alias)
    (entry,) = audit_log(alias)
    assert (entry.count, entry.scope) == (4, {"ids": [str(job.pk) for job in jobs[:2]]})
    update = f"UPDATE {connections[alias].ops.quote_name(AuditLog._meta.db_table)}"
    updates = [each["sql"] for each in queries if each["sql"].startswith(update)]
    assert len(updates) == 3
    assert ["scope" in each for each in updates] == [True, False, False]


@pytest.mark.transactional
def test_what_a_receiver_of_a_signal_changes_is_no_deed_of_the_operator(alias):
    dead, other = make_row(DeadLetterJob, alias), make_job(alias)

    def receiver(using, **kwargs):
        operations.set_priority(other, 5, using=using)

    signals.job_requeued.connect(receiver)
    try:
        operations.requeue(dead, using=alias)
    finally:
        signals.job_requeued.disconnect(receiver)
    assert Job.objects.using(alias).get(pk=other.pk).priority == 5
    assert [said(entry) for entry in audit_log(alias)] == [("requeue", "deadletterjob", str(dead.pk), 1)]


def test_what_was_left_alone_is_not_in_it(alias):
    work(alias)
    free = make_job(alias)
    result = operations.delete_jobs(Job.objects.using(alias).all(), using=alias)
    assert result.changed == [free.pk] and len(result.skipped) == 1
    assert said(audit_log(alias)[0]) == ("delete_jobs", "job", str(free.pk), 1)
    operations.delete_jobs(Job.objects.using(alias).all(), using=alias)
    assert len(audit_log(alias)) == 1, "nothing was changed"


@pytest.mark.every_database
def test_what_is_rolled_back_is_not_noted(alias):
    row = make_job(alias)
    with pytest.raises(ZeroDivisionError), transaction.atomic(using=alias):
        operations.set_priority(row, 3, using=alias)
        raise ZeroDivisionError
    assert audit_log(alias) == []


def test_a_page_that_fails_is_noted_once(alias, monkeypatch):
    jobs = [make_job(alias) for _ in range(3)]

    def fail(using, table, ids, **arguments):
        table._base_manager.using(using).filter(pk__in=ids).update(priority=1)
        raise ArithmeticError

    monkeypatch.setattr("jobexec.operations.manage.adjust.set_priority_page", fail)
    operations.set_priority(jobs, 2, using=alias)
    assert [entry.count for entry in audit_log(alias)] == [3]


def test_without_an_operator_nothing_is_written_and_nothing_asked(alias):
    jobs = [make_job(alias) for _ in range(2)]

    def statements(operator):
        with acting(operator), CaptureQueriesContext(connections[alias]) as queries:
            operations.set_priority(jobs, 1, using=alias)
        return [query["sql"] for query in queries]

    silent = statements(None)
    assert not any("auditlog" in sql for sql in silent) and audit_log(alias) == []
    assert len(statements(ANN)) == len(silent) + 2, "the tenants and the row"


def test_a_verb_within_a_verb_is_part_of_it(alias):
    row = make_row(TimerJob, alias, due_date=clock.now(alias) + timedelta(hours=1))
    operations.retry_now(row, using=alias)
    assert [said(entry) for entry in audit_log(alias)] == [("retry_now", "timerjob", str(row.pk), 1)]


def test_each_verb_on_jobs_is_noted(alias):
    at = datetime(2026, 3, 2, tzinfo=UTC)

    def done(verb, row, **arguments):
        verb(row, using=alias, **arguments)
        return audit_log(alias)[-1]

    waiting = make_row(TimerJob, alias, attempts=1, due_date=at, retry_plan="R5/PT5M")
    assert done(operations.set_due_date, make_job(alias), due_date=at).new_value == {"due_date": "2026-03-02T00:00:00Z"}
    assert done(operations.suspend, make_job(alias), until=at).new_value == {"until": "2026-03-02T00:00:00Z"}
    assert done(operations.move_to_dead_letter, make_job(alias), reason="void").new_value == {"reason": "void"}
    assert done(operations.recalculate_due_date, waiting).verb == "recalculate_due_date"
    suspended = make_job(alias)
    operations.suspend(suspended, using=alias)
    assert done(operations.activate, suspended.pk).object_type == "suspendedjob"
    assert done(operations.cancel, make_job(alias)).verb == "cancel"
    assert done(operations.unlock, make_row(Job, alias, lock_owner="gone")).verb == "unlock"


def test_a_scope_is_one_row_with_the_jobs_that_moved(alias):
    for _ in range(3):
        make_job(alias, tenant_id="acme")
    operations.suspend(tenant_id="acme", using=alias)
    operations.activate(tenant_id="acme", using=alias)
    suspended, activated = audit_log(alias)
    assert said(suspended) == ("suspend", "suspension", "acme", 3)
    assert said(activated) == ("activate", "suspension", "acme", 3)
    assert (suspended.scope, suspended.tenant_id) == ({"tenant_id": "acme"}, "acme")
    with pytest.raises(InvalidJob):
        operations.suspend(tenant_id="acme", until=clock.now(alias) - timedelta(days=1), using=alias)
    assert len(audit_log(alias)) == 2


def test_a_batch_is_one_row_however_many_jobs_it_does(alias):
    row = make_row(DeadLetterJob, alias)
    dead = DeadLetterJob.objects.using(alias).filter(handler_type=row.handler_type)
    batch = batches.start_batch("requeue", dead, arguments={"retries": 2}, using=alias)
    batches.suspend_batch(batch.pk, using=alias)
    batches.activate_batch(batch.pk, using=alias)
    batches.cancel_batch(batch.pk, using=alias)
    batches.delete_batch(batch.pk, using=alias)
    entries = audit_log(alias)
    verbs = ["start_batch", "suspend_batch", "activate_batch", "cancel_batch", "delete_batch"]
    assert [entry.verb for entry in entries] == verbs
    assert {(entry.object_type, entry.object_id) for entry in entries} == {("batch", str(batch.pk))}
    assert entries[0].new_value == {"operation": "requeue", "retries": 2}
    assert row.handler_type in str(entries[0].scope)


def test_secrets_never_stand_in_it(alias):
    _row, secret = gateway_clients.create_client(alias, name="java", tenants=["acme"])
    gateway_clients.change_client(alias, "java", types=["pay"], enabled=True)
    other = gateway_clients.rotate_secret(alias, "java")
    gateway_clients.delete_client(alias, "java")
    created, changed, rotated, deleted = audit_log(alias)
    assert (changed.old_value, changed.new_value) == ({"types": []}, {"types": ["pay"]})
    assert (rotated.object_id, rotated.old_value, rotated.new_value) == ("java", None, None)
    assert deleted.old_value["types"] == ["pay"] and created.tenant_id == "acme"
    kept = str([entry.__dict__ for entry in (created, changed, rotated, deleted)])
    assert not any(
        text in kept for text in (secret, other, gateway_clients.digest(secret), gateway_clients.digest(other))
    )


def test_a_schedule_tells_what_changed_and_hides_what_is_sensitive(alias, handler):
    given = {"name": "nightly", "handler_type": HANDLER, "kwargs": {"password": "hunter2"}}
    save_schedule(alias, **given, expression="0 3 * * *")
    save_schedule(alias, **given, expression="0 4 * * *")
    set_enabled(alias, "nightly", False)
    fire_now(alias, "nightly")
    delete_schedule(alias, "nightly")
    entries = audit_log(alias)
    verbs = ["save_schedule", "save_schedule", "set_enabled", "fire_now", "delete_schedule"]
    assert [entry.verb for entry in entries] == verbs
    assert (entries[1].old_value, entries[1].new_value) == ({"expression": "0 3 * * *"}, {"expression": "0 4 * * *"})
    assert "hunter2" not in str([entry.__dict__ for entry in entries]) and "●●●" in str(entries[0].new_value)


@pytest.mark.parametrize("defined", [True, False])
def test_a_schedule_hides_what_the_handler_here_declares_sensitive(alias, handle, defined):
    """Whatever the executors have recorded, which may not have its latest code yet; and all positional arguments."""
    handle(lambda pin, note="": None, name="tests.newly", sensitive=["pin"])
    if defined:
        JobDefinition.objects.using(alias).create(
            pk="tests.newly", handler_type="tests.newly", category="default", sensitive=[]
        )
    given = {"name": "nightly", "handler_type": "tests.newly", "expression": "0 3 * * *"}
    save_schedule(alias, **given, kwargs={"pin": "1234", "note": "shown"})
    save_schedule(alias, **given, args=["5678", "also"])
    created, changed = audit_log(alias)
    assert created.new_value["handler_configuration"] == {"args": [], "kwargs": {"pin": "●●●", "note": "shown"}}
    assert changed.new_value["handler_configuration"] == {"args": ["●●●", "●●●"], "kwargs": {}}
    assert changed.old_value == {"handler_configuration": created.new_value["handler_configuration"]}


def test_long_values_are_cut(alias):
    incident = Incident.objects.using(alias).create(
        timestamp=clock.now(alias),
        job_id=make_job(alias).pk,
        handler_type="a",
        category="default",
        state=IncidentState.OPEN,
    )
    operations.annotate_incident(incident.pk.hex.upper(), "x" * 4000, using=alias)
    (entry,) = audit_log(alias)
    assert (entry.object_id, entry.new_value) == (str(incident.pk), {"annotation": "x" * LONGEST + "…"})


def test_deployments(alias):
    deploy("shop:1", ["a"], using=alias)
    deploy("shop:1", ["a"], using=alias)
    operations.register_deployment("shop:1", "node-1", using=alias)
    with pytest.raises(Deployment.DoesNotExist):
        operations.register_deployment("shop:2", "node-1", using=alias)
    assert [entry.verb for entry in audit_log(alias)] == ["deploy", "register_deployment"]
    assert audit_log(alias)[1].new_value == {"node_name": "node-1", "registered": True}


def test_external_jobs(alias):
    row = make_external(alias, retries=3)
    set_external_retries(alias, row.job_key, 5, lease="")
    set_external_priority(alias, row.job_key, 9)
    retries, priority = audit_log(alias)
    assert (said(retries), retries.new_value) == (
        ("set_external_retries", "externalworkerjob", str(row.pk), 1),
        {"retries": 5},
    )
    assert (retries.old_value, priority.old_value) == ({"retries": 3}, {"priority": 0})


def test_an_incident_that_is_resolved(alias):
    row = make_external(alias)
    operations.move_to_dead_letter(row, using=alias)
    DeadLetterJob.objects.using(alias).update(retries=1)
    incident = Incident.objects.using(alias).get()
    resolve_external_incident(alias, incident.incident_key)
    entry = audit_log(alias)[-1]
    assert said(entry) == ("resolve_external_incident", "incident", str(incident.pk), 1)
    assert entry.scope["job"] == str(row.pk)


def test_nothing_was_there_to_release(alias):
    release_keys([1, 2], using=alias)
    assert audit_log(alias) == []


@pytest.mark.transactional
def test_it_is_kept_as_long_as_the_setting_says(alias, configure, frozen):
    configure(AUDIT_LOG_TIME_TO_LIVE=timedelta(days=90), HISTORY_TIME_TO_LIVE=timedelta(days=1))
    for days in (91, 89):
        AuditLog.objects.using(alias).create(
            timestamp=clock.now(alias) - timedelta(days=days), operator_type="user", verb="x", object_type="job"
        )
    assert clean_up_history(alias) == 1
    assert len(audit_log(alias)) == 1
    configure(AUDIT_LOG_TIME_TO_LIVE=None, HISTORY_TIME_TO_LIVE=timedelta(days=1))
    frozen.tick(timedelta(days=5000))
    assert clean_up_history(alias) == 0
