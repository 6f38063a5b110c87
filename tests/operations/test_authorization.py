"""The policy in AUTHORIZATION: asked before anything happens, through every door; a refusal is an error and a line."""

import json
import logging
from uuid import uuid4

import pytest
from django.core.exceptions import PermissionDenied

import jobexec
from jobexec import operations
from jobexec.exceptions import NotAuthorized
from jobexec.executor.execute_now import execute_by_hand
from jobexec.models import (
    AuditLog,
    Batch,
    HistoryJob,
    Job,
    JobKey,
    Message,
    OperatorType,
    Schedule,
    SuspendedJob,
    TimerJob,
)
from jobexec.operations import Operator, acting
from jobexec.operations.enqueue.create import create_job, create_jobs
from jobexec.operations.external import set_external_retries
from jobexec.operations.schedules.manage import fire_now, save_schedule
from tests.support.batches import run_to_the_end
from tests.support.executor import run_one
from tests.support.factories import make_job
from tests.support.jobs_command import jobs

pytestmark = pytest.mark.transactional

ANNA = Operator(OperatorType.USER, "anna", "admin", "192.0.2.1")


class Policy:
    """Permits what ``answer`` says, and remembers what it was asked."""

    asked: list = []
    answer = staticmethod(lambda request: True)

    def __call__(self, request):
        self.asked.append(request)
        return type(self).answer(request)


def as_function(request):
    return Policy.answer(request)


@pytest.fixture
def policy(settings, alias, monkeypatch):
    settings.JOBEXEC = {
        "ENGINES": {alias: {}},
        "AUTHORIZATION": f"{__name__}.Policy",
        "ENCRYPTION_KEYS": {"2026": lambda: b"k" * 32},
    }
    monkeypatch.setattr(Policy, "asked", [])
    monkeypatch.setattr(Policy, "answer", staticmethod(lambda request: True))
    return Policy


def refuse(*actions):
    Policy.answer = staticmethod(lambda request: not actions or request.action not in actions)
    if not actions:
        Policy.answer = staticmethod(lambda request: False)


@pytest.fixture
def handler(alias, handle):
    return handle(lambda *args, **kwargs: None, name="tests.any").using(database=alias)


COLUMNS = {"handler_type": "tests.any", "tenant_id": "acme"}
DOORS = {
    "enqueue": lambda handler, alias: handler.enqueue(1),
    "many": lambda handler, alias: handler.enqueue_many([[1], [2]]),
    "pages": lambda handler, alias: handler.enqueue_many(iter([[1], [2]])),
    "unique": lambda handler, alias: handler.using(unique=True).enqueue(1),
    "many unique": lambda handler, alias: handler.using(unique=True).enqueue_many([[1]]),
    "on commit": lambda handler, alias: handler.using(transaction=alias).enqueue_on_commit(1),
    "encrypted": lambda handler, alias: handler.using(encrypted=True).enqueue(1),
    "create_job": lambda handler, alias: create_job(alias, **COLUMNS),
    "create_jobs": lambda handler, alias: create_jobs(alias, [COLUMNS]),
    "external": lambda handler, alias: jobexec.external_job("pay", database=alias),
    "history": lambda handler, alias: jobexec.record_history("tests.audit", {"a": 1}, using=alias),
}


@pytest.mark.parametrize("door", DOORS)
def test_it_is_asked_before_anything_is_enqueued(alias, handler, policy, door):
    refuse()
    with acting(ANNA), pytest.raises(NotAuthorized):
        DOORS[door](handler, alias)
    (request,) = policy.asked
    assert request.action == ("record_history" if door == "history" else "enqueue")
    assert (request.principal, request.using) == (ANNA, alias)
    for table in (Job, TimerJob, HistoryJob, JobKey):
        assert not table.objects.using(alias).exists()
    line = AuditLog.objects.using(alias).get()
    assert (line.verb, line.operator, line.via, line.count) == (request.action, "anna", "admin", 0)
    assert "does not permit" in line.new_value["refused"]


def test_what_it_is_told_of_a_new_job(alias, handler, policy):
    handler.using(tenant_id="acme", priority=5).enqueue("a secret argument")
    (request,) = policy.asked
    assert (request.target, request.principal) == ("tests.any", None)
    assert (request.arguments["tenant_id"], request.arguments["priority"]) == ("acme", 5)
    assert "a secret argument" not in repr(request)


def test_code_is_refused_too_and_recorded_as_code(alias, handler, policy, caplog):
    refuse()
    caplog.set_level(logging.WARNING, "jobexec.audit")
    with pytest.raises(NotAuthorized):
        handler.enqueue(1)
    assert AuditLog.objects.using(alias).get().operator_type == OperatorType.CODE
    assert "Refused: enqueue by code" in caplog.text


VERBS = {
    "requeue": lambda row, alias: operations.requeue(row, using=alias),
    "set_retries": lambda row, alias: operations.set_retries(row, 2, using=alias),
    "retry_now": lambda row, alias: operations.retry_now(row, using=alias),
    "set_due_date": lambda row, alias: operations.set_due_date(row, None, using=alias),
    "set_priority": lambda row, alias: operations.set_priority(row, 7, using=alias),
    "suspend": lambda row, alias: operations.suspend(row, using=alias),
    "activate": lambda row, alias: operations.activate(row, using=alias),
    "cancel": lambda row, alias: operations.cancel(row, using=alias),
    "delete_jobs": lambda row, alias: operations.delete_jobs(row, using=alias),
    "move_to_dead_letter": lambda row, alias: operations.move_to_dead_letter(row, "why", using=alias),
    "recalculate_due_date": lambda row, alias: operations.recalculate_due_date(row, using=alias),
    "unlock": lambda row, alias: operations.unlock(row, using=alias),
    "reencrypt": lambda row, alias: operations.reencrypt(row, using=alias),
    "end_wait": lambda row, alias: operations.end_wait(row, using=alias),
    "start_batch": lambda row, alias: operations.start_batch("cancel", [row], using=alias),
    "execute": lambda row, alias: execute_by_hand(row.pk, using=alias),
}


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("principal", [ANNA, None])
def test_it_is_asked_before_every_verb_of_operators(alias, policy, verb, principal):
    row = make_job(alias, tenant_id="acme")
    del policy.asked[:]
    refuse()
    with acting(principal), pytest.raises(NotAuthorized):
        VERBS[verb](row, alias)
    (request,) = policy.asked
    assert (request.action, request.principal) == (verb, principal)
    meant = request.target[0] if isinstance(request.target, list) else request.target
    assert getattr(meant, "pk", meant) == row.pk
    unchanged = Job.objects.using(alias).get()
    assert (unchanged.priority, unchanged.retries, unchanged.revision) == (row.priority, row.retries, row.revision)
    line = AuditLog.objects.using(alias).get()
    assert (line.verb, line.count) == (verb, 0)
    assert str(row.pk) in json.dumps([line.object_id, line.scope])


def test_other_verbs_ask_too(alias, policy, handler):
    save_schedule(alias, name="nightly", handler_type="tests.any", expression="@daily")
    of_groups = [f"{verb}_failure_groups" for verb in ("assign", "acknowledge", "snooze", "reopen")]
    others = ("set_external_retries", "annotate_incident", "override_priority", "publish_message")
    refuse("fire_now", *others, *of_groups)
    for verb in (
        lambda: fire_now(alias, "nightly"),
        lambda: set_external_retries(alias, 1, 2),
        lambda: operations.annotate_incident(uuid4(), "text", using=alias),
        lambda: operations.override_priority("tests.any", 5, using=alias),
        lambda: operations.assign_failure_groups(["f1"], assigned_to="", using=alias),
        lambda: operations.acknowledge_failure_groups(["f1"], using=alias),
        lambda: operations.snooze_failure_groups(["f1"], failures=1, using=alias),
        lambda: operations.reopen_failure_groups(["f1"], using=alias),
        lambda: operations.publish_message("approved", key=4711, payload={}, using=alias),
    ):
        with pytest.raises(NotAuthorized):
            verb()
    assert [request.action for request in policy.asked] == [
        *("save_schedule", "fire_now", "set_external_retries", "annotate_incident", "override_priority"),
        *of_groups,
        "publish_message",
    ]
    assert (policy.asked[-1].target, policy.asked[-1].arguments["key"]) == ("approved", 4711)
    assert not Message.objects.using(alias).exists()
    assert policy.asked[0].target == policy.asked[1].target == "nightly"
    assert Schedule.objects.using(alias).get().fired == 0


def test_what_follows_from_a_verb_is_not_asked_about(alias, policy, handler):
    save_schedule(alias, name="nightly", handler_type="tests.any", expression="@daily")
    del policy.asked[:]
    fire_now(alias, "nightly")
    assert [request.action for request in policy.asked] == ["fire_now"]


def test_a_batch_is_asked_as_if_it_were_done_at_once(alias, policy, frozen):
    rows = [make_job(alias) for _ in range(3)]
    refuse("cancel")
    with pytest.raises(NotAuthorized):
        operations.start_batch("cancel", rows, using=alias)
    assert not Batch.objects.using(alias).exists()
    refuse("nothing")
    del policy.asked[:]
    with acting(ANNA):
        batch = operations.start_batch("cancel", rows, using=alias)
    refuse()
    batch = run_to_the_end(alias, frozen, batch)
    assert (batch.changed, batch.skipped) == (3, 0), "its pieces are not asked about"
    assert [request.action for request in policy.asked] == ["start_batch", "cancel"]


def test_executors_are_not_asked_about(alias, policy):
    refuse()
    with acting(Operator(OperatorType.EXECUTOR, "node-1")):
        operations.deploy("shop:1", ["tests.any"], using=alias)
    assert not policy.asked


def test_a_handler_is_code(alias, policy, handle):
    seen = []

    def chain():
        try:
            handle_next.using(database=alias).enqueue()
        except NotAuthorized:
            seen.append("refused")

    handle_next = handle(lambda: None, name="tests.next")
    row = handle(chain, name="tests.chain").using(database=alias).enqueue()
    Policy.answer = staticmethod(lambda request: request.principal is not None)
    with acting(ANNA):
        execute_by_hand(row.pk, using=alias)
    assert seen == ["refused"], "what the handler does is not done by who executed it"


def test_jobs_run_whatever_the_policy_says(alias, policy, handler):
    handler.enqueue(1)
    refuse()
    run_one(alias)
    assert not Job.objects.using(alias).exists()


@pytest.mark.parametrize("answer", [False, None, "", 1, "too late for that"])
def test_only_true_permits(alias, policy, handler, answer):
    Policy.answer = staticmethod(lambda request: answer)
    with pytest.raises(NotAuthorized) as caught:
        handler.enqueue(1)
    if answer == "too late for that":
        assert str(caught.value) == answer
        assert AuditLog.objects.using(alias).get().new_value == {"refused": answer}
    assert isinstance(caught.value, PermissionDenied)


def test_a_policy_may_raise_and_use_verbs(alias, policy, handler):
    def answer(request):
        operations.find_states([], alias)
        operations.suspend(process_instance_id="p1", using=alias)
        raise NotAuthorized("not you")

    Policy.answer = staticmethod(answer)
    with pytest.raises(NotAuthorized, match="not you"):
        handler.enqueue(1)
    assert len(policy.asked) == 1


def test_an_error_of_the_policy_permits_nothing(alias, policy, handler):
    def answer(request):
        raise ZeroDivisionError

    Policy.answer = staticmethod(answer)
    with pytest.raises(ZeroDivisionError):
        handler.enqueue(1)
    assert not Job.objects.using(alias).exists()


def test_a_function_is_a_policy_too(alias, settings, policy, handler):
    settings.JOBEXEC = {**settings.JOBEXEC, "AUTHORIZATION": f"{__name__}.as_function"}
    refuse()
    with pytest.raises(NotAuthorized):
        handler.enqueue(1)


def test_in_a_transaction_the_caller_may_go_on(alias, policy, handler):
    from django.db import transaction

    refuse("suspend")
    with transaction.atomic(using=alias):
        row = handler.enqueue(1)
        with pytest.raises(NotAuthorized):
            operations.suspend(row, using=alias)
    assert Job.objects.using(alias).filter(pk=row.pk).exists()
    assert not SuspendedJob.objects.using(alias).exists()
    assert AuditLog.objects.using(alias).get().object_id == str(row.pk)


def test_a_refusal_that_cannot_be_written_is_one_all_the_same(alias, policy, handler, monkeypatch, caplog):
    from django.db import ProgrammingError, transaction

    def no_grant(*args, **kwargs):
        raise ProgrammingError("permission denied for table jobexec_auditlog")

    monkeypatch.setattr(operations.audit, "_insert", no_grant)
    refuse("suspend")
    with transaction.atomic(using=alias):
        row = handler.enqueue(1)
        with pytest.raises(NotAuthorized):
            operations.suspend(row, using=alias)
    assert Job.objects.using(alias).filter(pk=row.pk).exists()
    assert "Refused: suspend by code" in caplog.text
    assert "permission denied" in caplog.text


def test_the_line_outlasts_the_transaction_of_the_call(alias, policy, handler):
    from django.db import transaction

    refuse()
    with acting(ANNA):
        with pytest.raises(NotAuthorized), transaction.atomic(using=alias):
            handler.enqueue(1)
        assert not AuditLog.objects.using(alias).exists()
        with pytest.raises(NotAuthorized):
            handler.enqueue(2)
    lines = AuditLog.objects.using(alias).order_by("timestamp")
    assert [(line.verb, line.operator) for line in lines] == [("enqueue", "anna")] * 2


def test_the_command_reports_it(alias, policy):
    row = make_job(alias)
    refuse("cancel")
    code, text = jobs("cancel", row.pk, "--yes", alias=alias)
    assert code != 0
    assert "does not permit" in text
    assert policy.asked[-1].principal.type == OperatorType.COMMAND
    assert Job.objects.using(alias).exists()


def test_without_a_policy_nothing_is_asked_or_written(alias, handler, policy, settings):
    settings.JOBEXEC = {"ENGINES": {alias: {}}}
    refuse()
    assert operations.cancel(handler.enqueue(1), using=alias)
    assert not policy.asked
    assert not AuditLog.objects.using(alias).exists()
