"""What a person does to single jobs, to definitions and to history that is still to be written."""

from datetime import timedelta

from jobexec import clock, operations
from jobexec.admin.history.audit_log import sentence
from jobexec.models import (
    Batch,
    DeadLetterJob,
    HistoryJob,
    Incident,
    Job,
    JobDefinition,
    JobLog,
    LogState,
    NodeState,
    SuspendedJob,
    TimerJob,
)
from tests.support.audit import audit_log

from .. import data
from ..conftest import list_url, page_url


def last_words():
    return sentence(audit_log()[-1])


def test_unlock_only_what_nobody_holds_any_more(admin):
    dead = data.node(beat=200, state=NodeState.DEAD)
    living = data.node(name="worker-2")
    lost, held = data.running(lock_owner=dead.lock_owner), data.running(lock_owner=living.lock_owner)
    free = data.make(Job)
    told = admin.told(admin.act(Job, "unlock", [lost, held, free]))
    assert told[0] == ("success", "1 job unlocked.")
    assert {text.split(" (")[0] for _level, text in told[1:]} == {
        "1 job skipped: it is not locked",
        f"1 job skipped: node worker-2 holds it and is alive: lease valid until {living.lease_expiration_time}",
    }
    lost.refresh_from_db()
    held.refresh_from_db()
    assert (lost.locked, held.locked) == (False, True)
    assert last_words() == "unlock"


class TestExecuteNow:
    def test_asks_first_and_tells(self, admin, handle):
        handle(lambda order: order, name="tests.double")
        job = data.make(TimerJob, handler_type="tests.double", handler_configuration={"args": [1], "kwargs": {}})
        assert b"the page waits until it has ended" in admin.act(TimerJob, "execute_now", [job], answered=False).content
        assert TimerJob.objects.count() == 1
        assert admin.told(admin.act(TimerJob, "execute_now", [job])) == [("success", "1 job executed.")]
        assert (TimerJob.objects.count(), JobLog.objects.get().state) == (0, LogState.SUCCESSFUL)
        assert last_words() == "execute"

    def test_a_failure_is_told_without_secrets(self, admin, handle):
        def pay(password):
            raise ValueError(f"no {password}")

        handle(pay, name="tests.pay")
        job = data.make(Job, handler_type="tests.pay", handler_configuration={"args": ["hush-hush"], "kwargs": {}})
        assert admin.told(admin.act(Job, "execute_now", [job])) == [
            ("error", f"{job.pk} has failed: ValueError: no ●●●")
        ]
        assert TimerJob.objects.get().exception_message == "ValueError: no ●●●"
        assert last_words() == "execute"

    def test_what_is_refused_is_left_alone(self, admin):
        busy, unknown = data.running(), data.make(Job, handler_type="tests.unknown")
        told = admin.told(admin.act(Job, "execute_now", [busy, unknown]))
        assert {level for level, _text in told} == {"warning"}
        assert any("is running or queued on worker-1" in text for _level, text in told)
        assert any("No handler 'tests.unknown' is registered" in text for _level, text in told)
        assert (Job.objects.count(), audit_log()) == (2, [])

    def test_not_many_at_once(self, admin):
        jobs = [data.make(Job) for _ in range(11)]
        assert admin.told(admin.act(Job, "execute_now", jobs)) == [("error", "Choose at most 10 jobs.")]


def test_move_to_the_dead_letters(admin):
    job, busy = data.make(Job), data.running()
    gone = data.make(Job)
    operations.delete_jobs(gone.pk)
    asked = admin.act(Job, "move_to_dead_letters", [job], answered=False)
    assert b"each gets an incident" in asked.content
    told = admin.told(admin.act(Job, "move_to_dead_letters", [job, busy, gone], reason="The order is void."))
    assert told[0] == ("success", "1 job is now a dead letter.")
    assert len(told) == 3
    dead = DeadLetterJob.objects.get()
    assert (dead.pk, dead.exception_message) == (job.pk, "The order is void.")
    assert Incident.objects.get().job_id == job.pk
    assert last_words() == "move to dead letter: reason The order is void."


def test_recalculate_the_due_date(admin):
    far = clock.now() + timedelta(days=30)
    retry = data.make(TimerJob, due_date=far, attempts=1, retry_plan="R3/PT10S")
    timer = data.make(TimerJob, due_date=far)
    told = admin.told(admin.act(TimerJob, "recalculate_due_date", [retry, timer]))
    assert told[0] == ("success", "1 job has a new due date.")
    assert "it waits for its first run" in told[1][1]
    assert TimerJob.objects.get(pk=retry.pk).due_date < clock.now() + timedelta(minutes=1)
    assert TimerJob.objects.get(pk=timer.pk).due_date == far
    suspended = data.make(SuspendedJob, due_date=far, attempts=1, retry_plan="R3/PT10S")
    admin.act(SuspendedJob, "recalculate_due_date", [suspended], from_creation="on")
    suspended.refresh_from_db()
    assert suspended.due_date < clock.now() + timedelta(minutes=1)


def a_definition(**columns):
    columns = {"handler_type": "tests.pay", "category": "default", "priority": 2, **columns}
    return JobDefinition.objects.create(id="tests.pay", **columns)


def test_definitions_of_the_project_come_first(admin):
    own = {"handler_type": "jobexec.batch", "category": "default"}
    JobDefinition.objects.create(id="jobexec.batch", **own)
    a_definition()
    assert [row.pk for row in admin.get(list_url(JobDefinition)).context["cl"].result_list] == [
        "tests.pay",
        "jobexec.batch",
    ]
    (latest, *_rest) = admin.get(f"{list_url(JobDefinition)}?o=-1").context["cl"].result_list
    assert latest.pk == "tests.pay", "and by name where the user asks for it"


def test_override_the_priority_of_a_definition(admin):
    pay, job = a_definition(), data.make(Job, job_definition_id="tests.pay")
    asked = admin.act(JobDefinition, "override_priority", [pay], answered=False)
    assert b'name="priority" value="2"' in asked.content
    response = admin.act(JobDefinition, "override_priority", [pay], priority="9")
    assert admin.told(response) == [("success", "The jobs of 1 definition get priority 9.")]
    assert Job.objects.get().priority == 0
    assert "instead of 2" in admin.get(list_url(JobDefinition)).content.decode()
    admin.act(JobDefinition, "override_priority", [pay], priority="8", cascade="on")
    job.refresh_from_db()
    assert job.priority == 8
    assert last_words() == "override priority: overriding_priority 9 → 8"
    response = admin.act(JobDefinition, "clear_priority", [pay])
    assert JobDefinition.objects.get().overriding_priority is None
    response = admin.act(JobDefinition, "clear_priority", [pay])
    assert admin.told(response)[-1][1].startswith("1 job definition skipped: its priority is not overridden")


def test_requeue_the_dead_letters_of_a_definition(admin):
    pay, job = a_definition(), data.dead_letter(job_definition_id="tests.pay")
    response = admin.act(JobDefinition, "set_retries", [pay], retries="4")
    assert admin.told(response) == [("success", "The dead letters of 1 definition are requeued with 4 retries.")]
    assert (Job.objects.get().pk, Job.objects.get().retries) == (job.pk, 4)
    response = admin.act(JobDefinition, "set_retries", [pay], retries="4")
    assert admin.told(response)[-1][1].startswith("1 job definition skipped: it has no dead letters")


def test_a_batch_of_them_knows_who_started_it(admin, monkeypatch):
    monkeypatch.setattr("jobexec.operations.batches.definitions._FEW", 0)
    pay, _ = a_definition(), data.dead_letter(job_definition_id="tests.pay")
    admin.act(JobDefinition, "set_retries", [pay], retries="4")
    assert Batch.objects.get().create_user == "admin"


def test_history_is_written_now_or_never(admin):
    job, other = data.history_job(), data.history_job()
    assert "&quot;order&quot;: 4711" in admin.get(page_url(job)).content.decode()
    response = admin.act(HistoryJob, "retry_now", [job])
    assert admin.told(response) == [("success", "1 job is due now.")]
    job.refresh_from_db()
    assert job.due_date <= clock.now()
    assert (job.attempts, job.retries) == (1, 9)
    assert b"lost for good" in admin.act(HistoryJob, "delete_selected", [other], answered=False).content
    response = admin.act(HistoryJob, "delete_selected", [other], _from_page="1")
    assert response["Location"] == list_url(HistoryJob)
    assert HistoryJob.objects.get().pk == job.pk
    assert JobLog.objects.get().state == LogState.DELETED
    response = admin.act(HistoryJob, "delete_selected", [other])
    assert admin.told(response)[-1][1].startswith("1 history job skipped: it is no longer in the list")
