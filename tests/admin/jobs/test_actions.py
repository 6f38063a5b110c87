"""Actions do what they say, and say what they did and did not do."""

import re
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial

import pytest
from django.db import IntegrityError

from jobexec import clock, operations
from jobexec.admin.common import actions, batching
from jobexec.admin.history.audit_log import sentence
from jobexec.admin.messages.actions import DeleteMessages
from jobexec.models import (
    DeadLetterJob,
    Deployment,
    DeploymentRegistration,
    ExecutorNode,
    FailureGroup,
    HistoryJob,
    Job,
    JobDefinition,
    JobKey,
    JobLog,
    JobProgress,
    LogState,
    Message,
    SuspendedJob,
    Suspension,
    SuspensionScope,
    TimerJob,
)
from jobexec.operations.manage.verbs import VERBS
from tests.support.audit import audit_log

from .. import data
from ..conftest import list_url, page_url


def logged():
    return [(entry.object_id, sentence(entry)) for entry in audit_log()]


def test_requeue_asks_for_the_retries_first(admin):
    job = data.dead_letter()
    response = admin.act(DeadLetterJob, "requeue", [job], answered=False)
    assert response.status_code == 200
    assert b'name="retries" value="3"' in response.content
    (shown,) = re.findall(rf"<li>(.+) · {job.pk}</li>", response.content.decode())
    assert shown.startswith("charge_card(")
    assert DeadLetterJob.objects.count() == 1
    assert logged() == []


@pytest.mark.parametrize("answer", ["0", "-1", "x", "", "1001"])
def test_a_wrong_answer_is_asked_again(admin, answer):
    job = data.dead_letter()
    response = admin.act(DeadLetterJob, "requeue", [job], retries=answer)
    assert b"errorlist" in response.content
    assert DeadLetterJob.objects.count() == 1


def test_requeue(admin):
    jobs = [data.dead_letter() for _ in range(3)]
    response = admin.act(DeadLetterJob, "requeue", jobs, retries="5")
    assert admin.told(response) == [("success", "3 jobs requeued with 5 retries.")]
    assert [(job.retries, job.attempts, job.exception_message) for job in Job.objects.all()] == [(5, 0, "")] * 3
    assert logged() == [("", "requeue: retries 5")]
    (entry,) = audit_log()
    assert (entry.count, set(entry.scope["ids"])) == (3, {str(job.pk) for job in jobs})


def test_a_requeued_job_of_a_suspended_tenant_is_suspended(admin):
    Suspension.objects.create(scope=SuspensionScope.TENANT, value="acme")
    admin.act(DeadLetterJob, "requeue", [data.dead_letter(tenant_id="acme")], retries="5")
    assert SuspendedJob.objects.count() == 1


def test_reset_retries(admin):
    job = data.make(TimerJob, due_date=clock.now() + timedelta(hours=1))
    response = admin.act(TimerJob, "reset_retries", [job], retries="9")
    assert admin.told(response) == [("success", "1 job has 9 retries.")]
    job.refresh_from_db()
    assert job.retries == 9
    assert logged() == [(str(job.pk), "set retries: retries 3 → 9")]


def test_retry_now(admin):
    waiting = data.make(TimerJob, due_date=clock.now() + timedelta(hours=1), attempts=1, retries=2)
    response = admin.act(TimerJob, "retry_now", [waiting])
    assert admin.told(response) == [("success", "1 job is due now.")]
    assert [(job.pk, job.retries, job.attempts) for job in Job.objects.all()] == [(waiting.pk, 2, 1)]


def test_suspend_and_activate(admin):
    due = clock.now() + timedelta(hours=1)
    waiting = data.make(TimerJob, due_date=due, attempts=1)
    response = admin.act(TimerJob, "suspend", [waiting])
    assert admin.told(response)[0][1].startswith("1 job suspended.")
    suspended = SuspendedJob.objects.get()
    assert suspended.due_date == due
    response = admin.act(SuspendedJob, "activate", [suspended])
    assert admin.told(response)[-1] == ("success", "1 job activated.")
    assert TimerJob.objects.get().due_date == due


def test_suspending_a_running_job_lets_it_finish(admin):
    job = data.running()
    admin.act(Job, "suspend", [job])
    job.refresh_from_db()
    assert job.suspend_requested
    assert job.locked


def test_reschedule(admin, settings):
    settings.TIME_ZONE = "Europe/Berlin"
    job = data.make(Job)
    response = admin.act(Job, "reschedule", [job], due_date="2099-07-01T10:00:00")
    assert admin.told(response) == [("success", "1 job is due 07/01/2099 10:00:00 CEST.")]
    assert TimerJob.objects.get().due_date == datetime(2099, 7, 1, 8, tzinfo=UTC)


def test_set_priority(admin):
    jobs = [data.make(Job), data.running()]
    response = admin.act(Job, "set_priority", jobs, priority="-3")
    assert admin.told(response) == [("success", "2 jobs have priority -3.")]
    assert set(Job.objects.values_list("priority", flat=True)) == {-3}


def test_delete_asks_first_and_tells_the_log(admin):
    job = data.dead_letter()
    page = admin.act(DeadLetterJob, "delete_selected", [job], answered=False)
    assert b"cannot be restored" in page.content
    assert DeadLetterJob.objects.exists()
    response = admin.act(DeadLetterJob, "delete_selected", [job])
    assert admin.told(response) == [("success", "1 job deleted.")]
    assert not DeadLetterJob.objects.exists()
    assert JobLog.objects.get().state == LogState.DELETED
    assert logged() == [(str(job.pk), "delete jobs")]


def test_running_jobs_are_left_alone_with_the_reason(admin):
    free, busy = [data.make(Job) for _ in range(2)], [data.running() for _ in range(5)]
    response = admin.act(Job, "delete_selected", [*free, *busy])
    success, warning = admin.told(response)
    assert success == ("success", "2 jobs deleted.")
    assert warning[0] == "warning"
    assert warning[1].startswith(f"5 jobs skipped: it is running or queued on {data.OWNER} (")
    assert warning[1].count(", ") == 3
    assert set(audit_log()[0].scope["ids"]) == {str(job.pk) for job in free}


def test_rows_that_are_gone_meanwhile_are_named(admin):
    kept, done, moved = data.dead_letter(), data.dead_letter(), data.dead_letter()
    DeadLetterJob.objects.filter(pk=done.pk).delete()
    operations.requeue(moved)
    response = admin.act(DeadLetterJob, "requeue", [kept, moved, done], retries="3")
    told = admin.told(response)
    assert ("success", "1 job requeued with 3 retries.") in told
    assert ("warning", f"1 dead letter job skipped: its state is now executable ({moved.pk}).") in told
    assert ("warning", f"1 dead letter job skipped: it is done or deleted ({done.pk}).") in told


def test_keys_that_are_none_are_refused(admin):
    response = admin.act(DeadLetterJob, "requeue", [Deployment(pk="shop:1")], retries="3")
    assert admin.told(response) == [("error", "“shop:1” is not a valid UUID.")]


def test_keys_that_are_no_numbers_are_refused(admin):
    response = admin.act(JobKey, "delete_selected", [Deployment(pk="shop:1")])
    assert admin.told(response) == [("error", "“shop:1” value must be an integer.")]


class TestAllRowsWithoutABatch:
    """A request changes no more rows than it can before the web server ends it."""

    @pytest.fixture(autouse=True)
    def few_at_once(self, monkeypatch):
        monkeypatch.setattr(batching, "BATCH_ABOVE", 2)

    def test_too_many_are_refused(self, admin):
        rows = [data.history_job() for _ in range(3)]
        told = admin.told(admin.act(HistoryJob, "retry_now", rows[:1], select_across="1"))
        assert told == [("error", "At most 2 at once: select fewer, or filter the list.")]
        assert not audit_log()
        assert admin.told(admin.act(HistoryJob, "retry_now", rows))[-1] == ("success", "3 jobs are due now.")

    def test_pages_of_rows_are_deleted_after_a_question(self, admin, monkeypatch):
        rows = [data.message(key=str(n)) for n in range(3)]
        ask = partial(admin.act, Message, "delete_selected", rows[:1], select_across="1")
        assert b"3 messages" in ask(answered=False).content
        monkeypatch.setattr(DeleteMessages, "most", 2)
        assert admin.told(ask())[-1][0] == "error" and Message.objects.count() == 3
        monkeypatch.setattr(DeleteMessages, "most", 3)
        assert admin.told(ask())[-1] == ("success", "3 messages deleted.") and not Message.objects.exists()


def test_many_reasons_are_summed_up(admin):
    for number in range(8):
        data.running(lock_owner=f"worker-{number}:boot")
    told = admin.told(admin.act(Job, "delete_selected", list(Job.objects.all())))
    assert len(told) == 6
    assert told[-1] == ("warning", "3 jobs skipped: other reasons.")


@pytest.mark.gate
def test_all_pages_and_only_what_the_filter_shows(admin):
    for number in range(120):
        data.dead_letter(process_instance_id="order-1" if number < 110 else "order-2")
    first = [DeadLetterJob.objects.first()]
    query = "?q=order-1"
    page = admin.act(DeadLetterJob, "requeue", first, answered=False, select_across="1", query=query)
    assert b"110 dead letter jobs" in page.content
    assert page.content.count(b'name="_selected_action"') == 1
    response = admin.act(DeadLetterJob, "requeue", first, retries="2", select_across="1", query=query)
    assert admin.told(response) == [("success", "110 jobs requeued with 2 retries.")]
    assert response["Location"].endswith(query)
    assert DeadLetterJob.objects.count() == 10
    assert [(entry.verb, entry.count) for entry in audit_log()] == [("requeue", 110)]


def test_all_pages_of_nothing(admin):
    data.dead_letter()
    response = admin.act(
        DeadLetterJob, "requeue", [DeadLetterJob()], retries="2", select_across="1", query="?q=order-2"
    )
    assert admin.told(response) == [("warning", "Nothing was changed: no row matches any more.")]


def test_from_the_page_of_a_job_to_where_it_went(admin):
    job = data.dead_letter()
    response = admin.act(DeadLetterJob, "requeue", [job], retries="3", _from_page="1")
    assert response["Location"] == f"{list_url(DeadLetterJob)}locate/{job.pk}/"
    response = admin.get(response["Location"], follow=True)
    assert response.redirect_chain[-1][0] == page_url(Job(pk=job.pk))
    assert b"1 job requeued with 3 retries." in response.content
    assert b"requeue: retries 0 \xe2\x86\x92 3" in response.content  # among what people did


def test_register_and_unregister_is_remembered(admin):
    data.node(name="worker-1")
    shop = Deployment.objects.create(id="shop:1", name="shop", version="1")
    page = admin.act(Deployment, "register", [shop], answered=False)
    assert b'<option value="worker-1">' in page.content
    response = admin.act(Deployment, "register", [shop], node_name="worker-1")
    assert admin.told(response)[0][1].startswith("1 deployment registered for worker-1")
    assert operations.registered_deployments("worker-1") == ["shop:1"]
    admin.act(Deployment, "unregister", [shop], node_name="worker-1")
    operations.register_own_deployment("shop:1", "worker-1")  # what a restart does
    assert not DeploymentRegistration.objects.get().registered
    assert [entry.verb for entry in audit_log()] == ["register_deployment", "unregister_deployment"]


def test_retire_deployments_and_registrations(admin):
    data.node(name="worker-1")
    old, new = (Deployment.objects.create(id=f"shop:{n}", name="shop", version=str(n)) for n in (1, 2))
    data.make(Job, deployment_id="shop:2")
    for name in ("worker-1", "gone"):
        operations.register_deployment("shop:2", name)
    admin.act(Deployment, "retire_registrations", [new], node_name="gone")
    response = admin.act(Deployment, "retire_registrations", [new], node_name="worker-1")
    assert "Node 'worker-1' is alive" in admin.told(response)[-1][1]
    assert [row.node_name for row in DeploymentRegistration.objects.all()] == ["worker-1"]
    response = admin.act(Deployment, "retire", [old, new])
    assert [text for _, text in admin.told(response)][-2:] == [
        "1 deployment retired.",
        "1 deployment skipped: jobs refer to it (shop:2).",
    ]
    assert list(Deployment.objects.values_list("pk", flat=True)) == ["shop:2"]


def test_lift_a_suspension(admin):
    job = data.make(Job, tenant_id="acme")
    operations.suspend(tenant_id="acme")
    response = admin.act(Suspension, "lift", [Suspension.objects.get()])
    assert admin.told(response) == [("success", "1 suspension lifted.")]
    assert Job.objects.get().pk == job.pk


def test_suspend_with_dates_in_the_current_time_zone(admin, settings):
    settings.TIME_ZONE = "Europe/Berlin"
    job = data.make(Job)
    asked = admin.act(Job, "suspend", [job], answered=False)
    assert asked.content.count(b"In the time zone Europe/Berlin.") == 2
    response = admin.act(Job, "suspend", [job], at="2099-07-01T10:00:00", until="2099-07-02T10:00:00")
    dates = "from 07/01/2099 10:00:00 CEST until 07/02/2099 10:00:00 CEST"
    assert admin.told(response)[0][1].startswith(f"1 job suspended {dates}.")
    suspension = Suspension.objects.get()
    assert (suspension.scope, suspension.value) == (SuspensionScope.JOB, str(job.pk))
    assert suspension.suspend_time == datetime(2099, 7, 1, 8, tzinfo=UTC)
    assert suspension.activate_time == datetime(2099, 7, 2, 8, tzinfo=UTC)
    assert Job.objects.get().pk == job.pk
    dated = {"at": "2099-07-01T08:00:00Z", "until": "2099-07-02T08:00:00Z"}
    assert [(entry.object_id, entry.new_value) for entry in audit_log()] == [(str(job.pk), dated)]
    page = admin.get(list_url(Suspension)).content.decode()
    assert "planned" in page
    assert "07/01/2099 10:00:00 CEST" in page
    assert "07/02/2099 10:00:00 CEST" in page


@pytest.mark.parametrize(
    "dates",
    [
        {"until": "2001-01-01T00:00:00"},
        {"at": "2099-01-02T00:00:00", "until": "2099-01-01T00:00:00"},
        {"at": "2099-01-02T00:00:00", "until": "2099-01-02T00:00:00"},
    ],
)
def test_an_end_before_the_beginning_is_asked_again(admin, dates):
    job = data.make(Job)
    response = admin.act(Job, "suspend", [job], **dates)
    assert b"This must be in the future and after the start." in response.content
    assert not Suspension.objects.exists()
    assert b"Enter a valid date/time." in admin.act(Job, "suspend", [job], at="tomorrow").content


def test_suspend_the_jobs_of_a_handler(admin):
    job = data.make(Job, job_definition_id="tests.pay")
    pay = JobDefinition.objects.create(id="tests.pay", handler_type="tests.pay", category="default", priority=0)
    response = admin.act(JobDefinition, "suspend", [pay], until="2099-07-01T10:00:00", include_jobs="on")
    assert admin.told(response)[0][1].startswith("1 definition suspended until 07/01/2099")
    assert [(id, message[:7]) for id, message in logged()] == [("tests.pay", "suspend")]
    assert SuspendedJob.objects.get().pk == job.pk
    assert "in force" in admin.get(list_url(Suspension)).content.decode()


def test_a_suspension_can_be_given_an_end(admin, settings):
    settings.TIME_ZONE = "Europe/Berlin"
    job = data.make(Job, tenant_id="acme")
    operations.suspend(tenant_id="acme")
    operations.suspend(tenant_id="later", at=datetime(2099, 7, 2, tzinfo=UTC))
    now, later = Suspension.objects.order_by("pk")
    response = admin.act(Suspension, "lift", [now, later], at="2099-07-01T10:00:00")
    told = admin.told(response)
    assert told[0] == ("success", "1 suspension ends 07/01/2099 10:00:00 CEST.")
    assert told[1][1].startswith("1 suspension skipped: at: expected a time after the suspension begins")
    assert SuspendedJob.objects.get().pk == job.pk
    assert Suspension.objects.get(pk=now.pk).activate_time == datetime(2099, 7, 1, 8, tzinfo=UTC)
    admin.act(Suspension, "lift", [now, later])
    assert not Suspension.objects.exists()
    assert Job.objects.get().pk == job.pk


def test_a_failure_of_the_database_is_not_hidden(admin, monkeypatch):
    def fail(*args, **kwargs):
        raise IntegrityError("broken")

    monkeypatch.setitem(VERBS, "requeue", replace(VERBS["requeue"], function=fail))
    with pytest.raises(IntegrityError):
        admin.act(DeadLetterJob, "requeue", [data.dead_letter()], retries="3")
    assert logged() == []


@pytest.mark.gate
def test_cancel_removes_what_waits_and_asks_what_runs(admin):
    waiting, running = data.make(TimerJob), data.running()
    asked = admin.act(TimerJob, "cancel", [waiting], answered=False)
    assert b"are not retried" in asked.content
    response = admin.act(TimerJob, "cancel", [waiting])
    assert admin.told(response) == [("success", "1 job cancelled. If it is running, it has been asked to stop.")]
    assert not TimerJob.objects.exists()
    admin.act(Job, "cancel", [running])
    assert Job.objects.get().cancel_requested
    assert JobLog.objects.get(job_id=waiting.pk).state == LogState.CANCELLED
    assert b"being cancelled" in admin.get(list_url(Job)).content


def test_a_running_job_shows_how_far_it_has_come(admin):
    running = data.running()
    JobProgress.objects.create(job_id=running.pk, attempt=1, done=25, total=100, update_time=clock.now())
    for url in (list_url(Job), page_url(running)):
        content = admin.get(url).content.decode()
        assert '<meter min="0" max="100" value="25"></meter> 25 / 100' in content
    JobProgress.objects.update(total=None)
    assert "25 done<br>" in admin.get(list_url(Job)).content.decode()


def test_nodes_are_paused_resumed_and_drained(admin):
    node = data.node()
    for action, state in (("pause", "paused"), ("resume", "active"), ("drain", "draining")):
        admin.act(ExecutorNode, action, [node])
        node.refresh_from_db()
        assert node.requested_state == state
    assert [entry.verb for entry in audit_log()] == ["pause_nodes", "resume_nodes", "drain_nodes"]


@pytest.mark.parametrize(
    ("state", "requested", "offered"),
    [
        ("active", "active", {"pause", "drain"}),
        ("active", "draining", set()),
        ("active", "paused", {"resume", "drain"}),
        ("paused", "paused", {"resume", "drain"}),
        ("paused", "active", {"pause", "drain"}),
        ("draining", "draining", set()),
        ("dead", "active", set()),
    ],
)
def test_the_page_of_a_node_offers_what_can_change_it(admin, state, requested, offered):
    node = data.node(state=state, requested_state=requested)
    assert {each.name for each in admin.get(page_url(node)).context["row_actions"]} == offered


RUNNING = "/admin/jobexec/executornode/running/"


def test_of_two_nodes_of_one_name_the_selected_one_is_paused(admin):
    twins = [data.node(pid=pid, hostname="berlin") for pid in (101, 102)]
    response = admin.act(ExecutorNode, "pause", twins[1:])
    assert admin.told(response) == [("success", "1 node will follow at its next heartbeat.")]
    assert set(ExecutorNode.objects.values_list("pid", "requested_state")) == {(101, "active"), (102, "paused")}
    name = twins[0].name
    for url in (list_url(ExecutorNode), page_url(twins[0]), RUNNING):
        assert f"{name} (101 on berlin)" in admin.get(url).content.decode()
    assert f"{name} (102 on berlin)" in admin.act(ExecutorNode, "drain", twins[1:], answered=False).content.decode()


def test_a_node_that_is_not_alive_is_named(admin):
    """Another node has its name, and lives."""
    twins = [data.node(pid=pid, hostname="berlin") for pid in (101, 102)]
    ExecutorNode.objects.filter(pk=twins[0].pk).update(lease_expiration_time=clock.now() - timedelta(seconds=1))
    ((level, text),) = admin.told(admin.act(ExecutorNode, "pause", twins[:1]))
    assert (level, text) == ("warning", f"1 executor node skipped: it is not alive ({twins[0].name} (101 on berlin)).")


def test_stuck_threads_are_shown(admin):
    data.node(stuck_threads=2)
    assert "2 threads are stuck" in admin.get(list_url(ExecutorNode)).content.decode()


def test_the_question_says_how_many_jobs_of_which_handlers_and_tenants(admin):
    rows = [
        data.dead_letter(tenant_id="acme"),
        data.dead_letter(tenant_id="acme"),
        data.dead_letter(tenant_id="globex"),
    ]
    rows += [data.dead_letter(handler_type="shop.jobs.pack", fingerprint="e" * 32)]
    text = admin.act(DeadLetterJob, "requeue", rows, answered=False).content.decode()
    assert "<h2>4 dead letter jobs</h2>" in text
    first, second, third = re.findall(r"<li>(shop\.\S+?(?: of tenant \w+)?: \d)</li>", text)
    assert first == "shop.jobs.charge_card of tenant acme: 2"
    assert {second, third} == {"shop.jobs.charge_card of tenant globex: 1", "shop.jobs.pack: 1"}


def test_the_question_about_a_group_is_about_its_dead_letters(admin):
    group = data.failure_group()
    data.dead_letter(tenant_id="acme")
    text = admin.act(FailureGroup, "requeue", [group], answered=False).content.decode()
    assert "<li>shop.jobs.charge_card of tenant acme: 1</li>" in text


@pytest.mark.parametrize(
    ("limit", "estimate", "told"),
    [
        (4, None, ["shop.jobs.charge_card of tenant acme: 3", "shop.jobs.pack: 1"]),
        (3, None, ["shop.jobs.charge_card of tenant acme: 3+", "shop.jobs.pack: 1+", "…"]),
        (3, 20_000, ["shop.jobs.charge_card of tenant acme: ≈15,000", "shop.jobs.pack: ≈5,000", "…"]),
    ],
)
def test_the_question_estimates_many_jobs(admin, monkeypatch, limit, estimate, told):
    """Exactly as many as the limit are counted; of more, the first ones stand for all that the database expects."""
    monkeypatch.setattr(actions, "COUNT_LIMIT", limit)
    monkeypatch.setattr(actions, "estimated", lambda rows: estimate)
    rows = [data.dead_letter(tenant_id="acme") for _ in range(3)] + [data.dead_letter(handler_type="shop.jobs.pack")]
    asked = admin.act(DeadLetterJob, "requeue", rows, answered=False)
    assert asked.context["meant"] == told
