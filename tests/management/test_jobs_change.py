"""`manage.py jobs`: what changes jobs, by id and by conditions, at once and by batches."""

import sys
from datetime import UTC, datetime, timedelta
from uuid import uuid4

import pytest

from jobexec import clock
from jobexec.management.jobs.changes import change
from jobexec.management.jobs.changes.subcommands import SCOPES, SUBCOMMANDS
from jobexec.management.jobs.output import screen
from jobexec.models import JOB_TABLES, Batch, DeadLetterJob, Job, SuspendedJob, Suspension, SuspensionScope, TimerJob
from jobexec.operations import suspend
from jobexec.operations.batches.control import OPERATIONS
from tests.support.audit import audit_log
from tests.support.factories import make_job, make_row, reload, table_of, work
from tests.support.jobs_command import jobs, objects

DAY = timedelta(days=1)
pytestmark = pytest.mark.usefixtures("engines", "frozen")

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)


class Keyboard:
    """A terminal at which somebody answers."""

    def __init__(self, answer):
        self.answer = answer

    def isatty(self):
        return True

    def readline(self):
        return f"{self.answer}\n"


class TestVerbs:
    def test_retry(self, alias):
        retry = make_row(TimerJob, alias, attempts=1, due_date=NOW + DAY)
        assert jobs("retry", retry.pk, alias=alias) == (0, "1 job is due now.\n")
        assert table_of(alias, retry) is Job

    def test_execute(self, alias, handle):
        handle(lambda: None, name="tests.fine")
        handle(lambda: 1 / 0, name="tests.fail")
        columns = {"handler_configuration": {"args": [], "kwargs": {}}, "due_date": NOW + DAY}
        fine, fail = (make_row(TimerJob, alias, handler_type=f"tests.{name}", **columns) for name in ("fine", "fail"))
        dead = make_row(DeadLetterJob, alias, handler_type="tests.fine", retries=0)
        assert jobs("execute", fine.pk, alias=alias) == (0, "1 job executed.\n")
        failed = "ZeroDivisionError: division by zero"
        assert jobs("execute", fail.pk, alias=alias) == (1, f"The job has failed: {failed}\n")
        assert objects("execute", fail.pk, alias=alias)[1][0]["failure"] == failed
        code, said = jobs("execute", dead.pk, alias=alias)
        assert code == 3 and f"Job {dead.pk} is a dead letter. Requeue it first." in said
        assert jobs("execute", fine.pk, alias=alias)[0] == 3

    def test_requeue(self, alias):
        dead = make_row(DeadLetterJob, alias, retries=0)
        assert jobs("requeue", "--retries", 5, dead.pk, alias=alias) == (0, "1 job requeued with 5 retries.\n")
        assert reload(alias, dead).retries == 5

    def test_the_audit_log_names_who_did_it_and_where(self, alias, monkeypatch):
        monkeypatch.setenv("LOGNAME", "ann")
        monkeypatch.setattr("socket.gethostname", lambda: "ops-1")
        rows = [make_row(DeadLetterJob, alias, retries=0) for _ in range(2)]
        jobs("requeue", "--retries", 5, *(row.pk for row in rows), alias=alias)
        jobs("list", alias=alias)
        (entry,) = audit_log(alias)
        who = (entry.operator_type, entry.operator, entry.via, entry.origin)
        assert who == ("command", "ann", "jobs requeue", "ops-1")
        assert (entry.verb, entry.count, entry.new_value) == ("requeue", 2, {"retries": 5})

    def test_suspend_and_activate(self, alias):
        job = make_job(alias)
        assert jobs("suspend", job.pk, "--until", "+2h", alias=alias) == (
            0,
            "1 job suspended until 03/01/2026 14:00:00 UTC. "
            "If it is running, it finishes; only its retry is held back.\n",
        )
        assert table_of(alias, job) is SuspendedJob
        assert Suspension.objects.using(alias).get().activate_time == NOW + timedelta(hours=2)
        assert jobs("activate", job.pk, alias=alias) == (0, "1 job activated.\n")
        assert table_of(alias, job) is Job

    @pytest.mark.gate
    def test_a_whole_scope(self, alias):
        for _ in range(2):
            make_job(alias, tenant_id="acme")
        code, text = jobs("suspend", "--scope", "tenant", "acme", "--at", "2026-03-01T11:00", alias=alias)
        assert code == 0
        assert text.startswith("Tenant acme suspended from 03/01/2026 11:00")
        assert text.endswith("; 2 jobs moved to the suspended jobs.\n")
        assert table_of(alias, make_job(alias, tenant_id="acme")) is Job
        told = {"operation": "activate", "scope": "tenant", "value": "acme", "moved": 2}
        assert objects("activate", "--scope", "tenant", "acme", alias=alias) == (0, [told])
        assert set(SCOPES.values()) == set(SuspensionScope.values) - {"id", "tenant_process_definition"}
        code, text = jobs("suspend", "--scope", "process-definition-version", "order:1", alias=alias)
        assert code == 0 and Suspension.objects.using(alias).get().scope == "process_definition_id"
        assert jobs("activate", "--scope", "process-definition-version", "order:1", alias=alias)[0] == 0
        of_tenant = ("--scope", "process-definition", "order", "--of-tenant", "acme")
        assert jobs("suspend", *of_tenant, alias=alias)[0] == 0
        assert Suspension.objects.using(alias).get().shown_value == "order (acme)"
        assert jobs("activate", *of_tenant, alias=alias)[0] == 0 and not Suspension.objects.using(alias).exists()
        code, text = jobs("suspend", "--scope", "tenant", "acme", "--of-tenant", "acme", alias=alias)
        assert code == 2 and "--of-tenant needs --scope process-definition" in text
        code, text = jobs("suspend", "--scope", "shop", "acme", alias=alias)
        assert code == 2 and "--scope: expected one of process-instance, process-definition" in text
        code, text = jobs("suspend", "--scope", "tennant", "acme", alias=alias)
        assert code == 2 and text.endswith("got 'tennant'. Did you mean 'tenant'?")
        code, text = jobs("suspend", "--scope", "handler", "tests.levy", alias=alias)
        assert code == 2 and text.endswith("got 'handler'. Did you mean 'job-definition'?")
        code, text = jobs("suspend", "--scope", "tenant", "acme", "--dry-run", alias=alias)
        assert code == 2 and "--scope cannot be combined" in text

    @pytest.mark.parametrize("verb", ["suspend", "activate"])
    def test_a_whole_scope_has_no_conditions(self, alias, verb):
        jobs("suspend", "--scope", "tenant", "acme", alias=alias)
        given = ("--scope", "category", "default", "--tenant", "beta", "--handler", "shop.*")
        code, text = jobs(verb, *given, alias=alias)
        assert code == 2 and "Give --scope or conditions, not both: handler, tenant_ids" in text
        assert Suspension.objects.using(alias).get().value == "acme"

    def test_cancel(self, alias):
        waits, runs = make_job(alias, priority=-1), work(alias)
        Job.objects.using(alias).filter(pk=waits.pk).update(lock_owner=None)
        assert jobs("cancel", "--yes", waits.pk, runs.id, alias=alias) == (
            0,
            "2 jobs cancelled. Those that are running have been asked to stop.\n",
        )
        assert table_of(alias, waits) is None and reload(alias, runs).cancel_requested

    def test_delete(self, alias):
        rows = [make_row(table, alias) for table in JOB_TABLES]
        assert jobs("delete", "--yes", *(row.pk for row in rows), alias=alias) == (0, "6 jobs deleted.\n")
        assert [table_of(alias, row) for row in rows] == [None] * 6

    def test_reschedule(self, alias):
        job = make_job(alias)
        assert jobs("reschedule", job.pk, "--to", "2026-03-02T08:30", alias=alias) == (
            0,
            "1 job is due 03/02/2026 08:30:00 UTC.\n",
        )
        assert reload(alias, job).due_date == datetime(2026, 3, 2, 8, 30, tzinfo=UTC)

    def test_prioritize(self, alias):
        job = make_job(alias)
        assert jobs("prioritize", job.pk, "--priority", 7, alias=alias) == (0, "1 job has priority 7.\n")
        assert reload(alias, job).priority == 7

    def test_each_is_an_operation_that_a_batch_can_do(self):
        assert {each.verb for each in SUBCOMMANDS if each.name != "unlock"} <= set(OPERATIONS)

    def test_recalculate(self, alias, settings):
        settings.JOBEXEC = {**settings.JOBEXEC, "DEFAULT_RETRY_PLAN": "R3/PT1H"}
        retry = make_row(TimerJob, alias, attempts=1, due_date=NOW + DAY, create_time=NOW - timedelta(minutes=10))
        timer = make_row(TimerJob, alias, due_date=NOW + DAY)
        assert jobs("recalculate", retry.pk, alias=alias) == (0, "1 job has a new due date.\n")
        assert reload(alias, retry).due_date == NOW + timedelta(hours=1)
        jobs("recalculate", "--from-creation", "--all-matching", alias=alias)
        assert reload(alias, retry).due_date == NOW + timedelta(minutes=50)
        assert reload(alias, timer).due_date == NOW + DAY
        jobs("recalculate", "--from-creation", "--batch", "--all-matching", alias=alias)
        assert Batch.objects.using(alias).get().arguments == {"from_creation": True}

    def test_unlock(self, alias):
        lost = make_row(Job, alias, lock_owner="gone:1", lock_expiration_time=NOW - DAY)
        held = make_row(Job, alias, lock_owner="here:1", lock_expiration_time=NOW + DAY)
        free = make_job(alias)
        code, (told,) = objects("unlock", "--dry-run", "--all-matching", alias=alias)
        assert told["matching"] == {"executable": 2, "timer": 0, "blocked": 0, "suspended": 0, "dead_letter": 0}
        code, (told,) = objects("unlock", "--all-matching", alias=alias)
        assert (code, told["changed"], list(told["skipped"])) == (3, [str(lost.pk)], [str(held.pk)])
        assert not reload(alias, lost).locked and reload(alias, held).locked
        code, text = jobs("unlock", free.pk, alias=alias)
        assert code == 3 and "it is not locked" in text

    def test_many_are_unlocked_without_a_batch(self, alias, monkeypatch):
        monkeypatch.setattr(change, "AT_ONCE", 1)
        for _ in range(3):
            make_row(Job, alias, lock_owner="gone:1", lock_expiration_time=NOW - DAY, exclusive=False)
        assert jobs("unlock", "--all-matching", alias=alias) == (0, "3 jobs unlocked.\n")

    def test_bury(self, alias):
        job, other = make_job(alias), make_row(TimerJob, alias, due_date=NOW + DAY)
        code, text = jobs("bury", job.pk, alias=alias)
        assert code == 2 and "use --yes" in text
        told = jobs("bury", "--yes", "--reason", "obsolete", job.pk, alias=alias)
        assert told == (0, "1 job is now a dead letter.\n")
        assert reload(alias, job).exception_message == "obsolete"
        assert jobs("bury", "--yes", other.pk, alias=alias)[0] == 0
        assert table_of(alias, other) is DeadLetterJob
        jobs("bury", "--yes", "--batch", "--reason", "obsolete", make_job(alias).pk, alias=alias)
        batch = Batch.objects.using(alias).get()
        assert (batch.type, batch.arguments) == ("move_to_dead_letter", {"reason": "obsolete"})

    def test_a_scope_that_is_mistyped(self, alias, handle):
        handle(lambda: None, name="tests.charge")
        for scope, value, said in [
            ("job-definition", "tests.chrage", "no job definition 'tests.chrage' is known"),
            ("category", "defualt", "no category 'defualt' is known"),
            ("tenant", "", "--scope: tenant_id: expected a string that is not empty"),
            ("tenant", "x" * 65, "--scope: tenant_id: expected a string of at most 64 characters"),
        ]:
            code, text = jobs("suspend", "--scope", scope, value, alias=alias)
            assert code == (2 if scope == "tenant" else 3)
            assert said in text
            assert scope == "tenant" or "Did you mean" in text
        assert not Suspension.objects.using(alias).exists()

    def test_a_scope_that_no_job_has(self, alias):
        code, text = jobs("suspend", "--scope", "process-definition", "odrer", "--of-tenant", "acme", alias=alias)
        said = "Process definition of a tenant odrer (acme) suspended; 0 jobs moved to the suspended jobs."
        assert (code, text) == (0, f"{said} No job has this value now.\n")

    def test_what_is_said_of_a_scope(self, alias, handle):
        handle(lambda: None, name="tests.charge")
        make_job(alias, job_definition_id="tests.charge")
        scope = ("--scope", "job-definition", "tests.charge")
        assert jobs("activate", *scope, alias=alias) == (0, "Job definition tests.charge was not suspended.\n")
        told = "Job definition tests.charge suspended; 1 job moved to the suspended jobs.\n"
        assert jobs("suspend", *scope, alias=alias) == (0, told)
        told = "Job definition tests.charge activated; 1 job can run again.\n"
        assert jobs("activate", *scope, alias=alias) == (0, told)

    def test_suspend_new_jobs_only(self, alias):
        job = make_row(Job, alias, tenant_id="acme", create_time=NOW - DAY)
        code, text = jobs("suspend", "--scope", "tenant", "acme", "--new-jobs-only", alias=alias)
        assert (code, text) == (0, "Tenant acme suspended; 0 jobs moved to the suspended jobs.\n")
        assert table_of(alias, job) is Job
        assert Suspension.objects.using(alias).get().include_jobs is False
        code, text = jobs("suspend", job.pk, "--new-jobs-only", alias=alias)
        assert code == 2 and "--new-jobs-only needs --scope" in text


class TestWhichJobs:
    def test_some_are_left_alone(self, alias):
        dead, other, nobody = make_row(DeadLetterJob, alias), make_job(alias), uuid4()
        code, text = jobs("requeue", dead.pk, other.pk, nobody, alias=alias)
        assert code == 3
        assert text.splitlines()[:2] == ["1 job requeued with 3 retries.", "2 jobs were skipped:"]
        assert (
            f"  {other.pk}  not possible for a job that is executable" in text
            and f"  {nobody}  the job no longer exists" in text
        )
        code, (told,) = objects("requeue", other.pk, alias=alias)
        assert (code, told["changed"], list(told["skipped"])) == (3, [], [str(other.pk)])

    def test_all_that_meet_conditions(self, alias):
        ours = [make_row(DeadLetterJob, alias, handler_type="shop.ship", tenant_id="acme") for _ in range(3)]
        theirs = make_row(DeadLetterJob, alias, handler_type="shop.pay", tenant_id="acme")
        code, (told,) = objects("requeue", "--all-matching", "--handler", "shop.sh*", "--tenant", "acme", alias=alias)
        assert code == 0 and told["skipped"] == {}
        assert set(told["changed"]) == {str(row.pk) for row in ours}
        assert table_of(alias, theirs) is DeadLetterJob
        code, text = jobs("requeue", "--all-matching", "--handler", "none", alias=alias)
        assert code == 0 and text.endswith("0 jobs requeued with 3 retries.\n")  # after a hint, if there are handlers

    def test_a_job_that_moves_is_not_met_again_in_its_new_table(self, alias):
        timer, job = make_row(TimerJob, alias, due_date=NOW + DAY), make_job(alias)
        states = ["--state", "executable", "--state", "timer"]
        code, (told,) = objects("reschedule", "--to", "now", "--all-matching", *states, alias=alias)
        assert code == 0 and sorted(told["changed"]) == sorted([str(timer.pk), str(job.pk)])

    @pytest.mark.parametrize(
        ("verb", "usual"),
        [
            ("retry", {"timer": 1}),
            ("requeue", {"dead_letter": 1}),
            ("suspend", {"executable": 1, "timer": 1, "blocked": 1, "external_worker": 1}),
            ("activate", {"suspended": 1}),
            ("cancel", {"executable": 1, "timer": 1, "blocked": 1, "suspended": 1, "external_worker": 1}),
            ("delete", {table.state.replace(" ", "_"): 1 for table in JOB_TABLES}),
        ],
    )
    def test_the_states_that_are_meant_where_none_is_named(self, alias, verb, usual):
        for table in JOB_TABLES:
            make_row(table, alias)
        code, (told,) = objects(verb, "--all-matching", "--dry-run", alias=alias)
        assert (code, told["matching"], told["at_least"]) == (0, usual, [])
        _, (told,) = objects(verb, "--all-matching", "--dry-run", "--state", "dead_letter", alias=alias)
        assert told["matching"] == ({"dead_letter": 1} if "dead_letter" in usual else {})

    def test_a_dry_run_changes_nothing(self, alias):
        dead, other = make_row(DeadLetterJob, alias), make_job(alias)
        code, text = jobs("requeue", "--dry-run", dead.pk, other.pk, alias=alias)
        assert (code, table_of(alias, dead)) == (3, DeadLetterJob)
        assert f"{other.pk}  executable" in text and text.endswith("Nothing has been changed.\n")
        code, text = jobs("delete", "--dry-run", "--all-matching", alias=alias)
        assert code == 0 and str(dead.pk) in text and str(other.pk) in text and "1 dead letter jobs" in text
        assert table_of(alias, other) is Job
        _, (told,) = objects("requeue", "--dry-run", dead.pk, alias=alias)
        assert told == {"operation": "requeue", "dry_run": True, "states": {str(dead.pk): "dead_letter"}}

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            (["requeue"], "Give the ids of jobs, or --all-matching"),
            (["requeue", "--tenant", "acme"], "Give the ids of jobs, or --all-matching"),
            (["requeue", uuid4(), "--tenant", "acme"], "Give ids or conditions, not both: tenant_ids."),
            (["requeue", uuid4(), "--retries", "0"], "retries: expected a whole number of at least 1, got 0"),
            (["requeue", uuid4(), "--retries", "2147483648"], "retries: expected a whole number of at most 2147483647"),
            (["prioritize", uuid4(), "--priority", "5000000"], "priority: expected a number from"),
            (["suspend", uuid4(), "--until", "2h ago"], "until: expected a time after now"),
        ],
    )
    def test_bad_input_is_usage(self, alias, arguments, message):
        code, text = jobs(*arguments, alias=alias)
        assert code == 2 and message in text


class TestBatches:
    def test_more_than_are_done_at_once(self, alias, monkeypatch):
        monkeypatch.setattr(change, "AT_ONCE", 2)
        rows = [make_row(table, alias, tenant_id="acme") for table in (Job, TimerJob, TimerJob, DeadLetterJob)]
        code, text = jobs("suspend", "--all-matching", "--tenant", "acme", "--until", "+2h", alias=alias)
        batches = list(Batch.objects.using(alias).order_by("pk"))
        assert code == 0
        assert text.splitlines() == [f"Batch {batch.pk} has been started." for batch in batches]
        assert [batch.selection["table"] for batch in batches] == ["job", "timerjob"]
        assert {batch.type for batch in batches} == {"suspend"}
        assert batches[0].arguments == {"until": (NOW + timedelta(hours=2)).isoformat()}
        assert batches[0].tenant_id == "acme" and batches[0].create_user
        assert [table_of(alias, row) for row in rows] == [type(row) for row in rows]

    def test_when_asked_for(self, alias):
        dead = make_row(DeadLetterJob, alias)
        code, (told,) = objects("requeue", "--batch", dead.pk, alias=alias)
        batch = Batch.objects.using(alias).get()
        assert (code, told) == (0, {"operation": "requeue", "batches": [str(batch.pk)]})
        assert batch.selection == {"ids": [dead.pk.hex]} and batch.arguments == {"retries": 3}

    def test_many_ids(self, alias, monkeypatch):
        monkeypatch.setattr(change, "AT_ONCE", 1)
        jobs("requeue", make_row(DeadLetterJob, alias).pk, make_row(DeadLetterJob, alias).pk, alias=alias)
        assert len(Batch.objects.using(alias).get().selection["ids"]) == 2


class TestAsking:
    @pytest.mark.parametrize("verb", ["cancel", "delete"])
    def test_refuses_where_there_is_no_terminal(self, alias, verb):
        job = make_job(alias)
        code, text = jobs(verb, job.pk, alias=alias)
        assert code == 2 and "use --yes" in text
        code, text = jobs(verb, "--all-matching", alias=alias)
        assert code == 2 and table_of(alias, job) is Job

    @pytest.mark.parametrize(("answer", "code"), [("y", 0), ("YES", 0), ("", 3), ("n", 3), ("delete", 3)])
    def test_at_a_terminal(self, alias, monkeypatch, capsys, answer, code):
        monkeypatch.setattr(sys, "stdin", Keyboard(answer))
        job = make_job(alias)
        found, _ = jobs("delete", job.pk, alias=alias)
        assert (found, table_of(alias, job)) == (code, None if code == 0 else Job)
        asked = capsys.readouterr().out
        assert asked.startswith("This affects 1 job. Deleted jobs never run and cannot be restored. ")
        assert "Running jobs are skipped. Are you sure? [y/N]" in asked

    def test_the_end_of_input_is_a_no(self, monkeypatch):
        monkeypatch.setattr(sys, "stdin", Keyboard(""))
        monkeypatch.setattr("builtins.input", lambda question: (_ for _ in ()).throw(EOFError))
        assert screen.ask("Sure?") is False

    def test_what_destroys_nothing_is_done_at_once(self, alias):
        job = make_job(alias)
        suspend(job.pk, using=alias)
        assert jobs("activate", job.pk, alias=alias)[0] == 0


def test_moments_count_from_now(alias):
    job = make_job(alias)
    jobs("reschedule", job.pk, "--to", "in 90m", alias=alias)
    assert reload(alias, job).due_date == clock.now(alias) + timedelta(minutes=90)
