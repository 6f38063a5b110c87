"""`manage.py jobs`: what is done with single batches, incidents and definitions."""

from datetime import UTC, datetime, timedelta
from uuid import uuid4

import pytest

import jobexec
import jobexec.handlers.registry
from jobexec.models import (
    Batch,
    BatchFailure,
    DeadLetterJob,
    Deployment,
    FailureGroup,
    Incident,
    Job,
    JobDefinition,
    JobLog,
    LogState,
    TimerJob,
)
from jobexec.operations import (
    create_job,
    delete_jobs,
    deploy,
    fail_job,
    move_to_dead_letter,
    register_deployment,
    start_batch,
    suspend,
)
from jobexec.operations.batches import definitions
from jobexec.operations.batches.jobs import SEED
from jobexec.testing import ManualExecutor
from tests.support.batches import left, own_jobs
from tests.support.factories import a_failure, a_run, make_row, reload, work
from tests.support.jobs_command import jobs, objects

pytestmark = pytest.mark.usefixtures("engines", "frozen")

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)


@pytest.fixture
def batch(alias):
    return start_batch("requeue", DeadLetterJob.objects.using(alias), arguments={"retries": 5}, using=alias)


class TestBatchesOfJobs:
    @pytest.fixture
    def batch(self, alias, handle):
        def work(token):
            raise ValueError

        job = handle(work, database=alias, retries="R1/PT0S")
        batch = jobexec.batch(using=alias, name="import", on_failure=job.s("secret"))
        batch.add(job.s("secret"))
        ManualExecutor(using=alias, reraise=False).run_due()
        return batch

    def test_list_and_show(self, alias, batch):
        _, text = jobs("batches", alias=alias)
        assert "import" in text and "open" in text
        code, text = jobs("batches", "show", batch.id, alias=alias)
        assert code == 0 and "on_failure" in text and "tests.work" in text and "secret" not in text
        _, (told,) = objects("batches", "show", batch.id, alias=alias)
        assert (told["name"], told["total"], told["failed_jobs"]) == ("import", 1, 1)
        assert "secret" not in str(told["arguments"])
        assert "tests.work" in {each["handler_type"] for each in told["jobs"]}

    def test_seal_retry_and_cancel(self, alias, batch):
        assert jobs("batches", "seal", batch.id, alias=alias) == (0, "1 batch sealed.\n")
        assert batch.state == "running"
        text = "The failed jobs of 1 batch are retried.\n"
        assert jobs("batches", "retry", batch.id, alias=alias) == (0, text)
        code, text = jobs("batches", "retry", batch.id, alias=alias)
        assert (code, "it has no failed jobs" in text) == (3, True)
        assert batch.progress().open == 1
        assert jobs("batches", "cancel", batch.id, "--yes", alias=alias) == (0, "1 batch cancelled.\n")
        code, text = jobs("batches", "seal", batch.id, alias=alias)
        assert code == 3 and "has ended (cancelled)" in text

    @pytest.mark.gate
    def test_why(self, alias, batch):
        batch.add(jobexec.handlers.registry.get_handler("tests.work").s("secret"))
        code, text = jobs("why", batch.id, alias=alias)
        assert code == 0 and "does not end before it is sealed" in text
        assert "1 of its jobs has not ended." in text and "1 of them are jobs" in text
        _, (told,) = objects("why", batch.id, alias=alias)
        assert told["state"] == "open"
        assert [each["code"] for each in told["reasons"]] == ["batch_open", "batch_children", "batch_jobs"]
        batch.seal()
        batch.cancel()
        assert "The batch has ended (cancelled" in jobs("why", batch.id, alias=alias)[1]

    def test_why_it_stands_still(self, alias, batch):
        batch.seal()
        delete_jobs(TimerJob.objects.using(alias).get(batch_id=batch.id), using=alias)
        _, (told,) = objects("why", batch.id, alias=alias)
        assert [each["code"] for each in told["reasons"]] == ["batch_stalled", "batch_ends"]

    def test_why_it_stands_still_with_a_suspended_monitor(self, alias, batch):
        batch.seal()
        monitor = TimerJob.objects.using(alias).get(batch_id=batch.id)
        suspend(monitor, using=alias)
        _, (told,) = objects("why", batch.id, alias=alias)
        assert [each["code"] for each in told["reasons"]] == ["batch_monitor_suspended", "batch_ends"]
        assert told["reasons"][0]["text"] == f"Its monitor job {monitor.pk} is suspended."

    def test_why_its_monitor_does_not_end_it(self, alias, batch, settings):
        batch.seal()
        monitor = TimerJob.objects.using(alias).get(batch_id=batch.id)
        monitor.exception_message = "InvalidJob: category: expected one of default, got 'mail'."
        monitor.save(using=alias)
        said = "Its monitor job has failed: InvalidJob: category: expected one of default, got 'mail'."
        assert said in jobs("why", batch.id, alias=alias)[1]
        move_to_dead_letter([monitor.pk], using=alias)
        _, (told,) = objects("why", batch.id, alias=alias)
        assert [each["code"] for each in told["reasons"]][:2] == ["batch_stalled", "batch_monitor_failed"]
        assert told["reasons"][1]["text"] == said


class TestBatches:
    def test_show(self, alias, batch):
        BatchFailure.objects.using(alias).create(batch=batch, job_id=uuid4(), reason="it is running")
        code, text = jobs("batches", "show", batch.pk, alias=alias)
        assert code == 0 and str(batch.pk) in text and 'Arguments: {"retries": 5}' in text
        assert "it is running" in text and "batch_seed" in text and "stalled" not in text
        code, (told,) = objects("batches", "show", batch.pk, alias=alias)
        assert (code, told["id"], told["stalled"]) == (0, str(batch.pk), False)
        assert [each["reason"] for each in told["failures"]] == ["it is running"]
        assert [each["handler_type"] for each in told["jobs"]] == [SEED]
        assert jobs("batches", "show", uuid4(), alias=alias) == (3, "There is no such batch.\n")

    def test_one_that_stands_still_says_so_and_goes_on(self, alias, batch):
        delete_jobs(own_jobs(alias, batch).get(), using=alias)
        assert (
            "The batch has stalled: the job that continues it is missing"
            in jobs("batches", "show", batch.pk, alias=alias)[1]
        )
        assert "stalled" in jobs("batches", alias=alias)[1]
        assert jobs("batches", "activate", batch.pk, alias=alias) == (0, "1 batch continues.\n")
        assert left(alias, batch) == {SEED: 1}

    def test_suspend(self, alias, batch):
        _, text = jobs("batches", "suspend", batch.pk, alias=alias)
        assert text == "1 batch suspended. Its running jobs finish.\n"
        assert not own_jobs(alias, batch).exists()

    def test_cancel_and_delete_ask(self, alias, batch):
        for verb in ("cancel", "delete"):
            code, text = jobs("batches", verb, batch.pk, alias=alias)
            assert code == 2 and "use --yes" in text
        assert jobs("batches", "cancel", "--yes", batch.pk, alias=alias) == (0, "1 batch cancelled.\n")
        assert Batch.objects.using(alias).get().state == "cancelled"
        assert jobs("batches", "delete", "--yes", batch.pk, alias=alias) == (0, "1 batch deleted.\n")
        assert not Batch.objects.using(alias).exists()

    def test_a_dry_run_and_what_is_left_alone(self, alias, batch):
        code, text = jobs("batches", "cancel", "--dry-run", batch.pk, alias=alias)
        assert code == 0 and str(batch.pk) in text and text.endswith("Nothing has been changed.\n")
        assert Batch.objects.using(alias).get().state == "seeding"
        nobody = uuid4()
        code, text = jobs("batches", "suspend", batch.pk, nobody, alias=alias)
        assert code == 3 and "1 batch was skipped:" in text and f"There is no batch {nobody}" in text
        code, (told,) = objects("batches", "suspend", nobody, alias=alias)
        assert (code, told["operation"], list(told["skipped"])) == (3, "suspend", [str(nobody)])

    def test_options_stand_before_or_behind_the_inner_name(self, alias, batch):
        assert jobs("batches", "show", batch.pk, "--json", alias=alias)[1].startswith("{")
        assert jobs("batches", "show", "--json", batch.pk, "--database", alias, alias="nothing")[0] == 0


class TestIncidents:
    def test_annotate(self, alias):
        fail_job(alias, work(alias), a_failure(kind="fatal"), a_run(alias))
        incident = Incident.objects.using(alias).get()
        told = jobs("incidents", "annotate", incident.pk, "asked the bank", alias=alias)
        assert told == (0, "1 incident annotated.\n")
        incident.refresh_from_db()
        assert incident.annotation == "asked the bank"
        assert jobs("incidents", "annotate", incident.pk, "", alias=alias)[0] == 0
        incident.refresh_from_db()
        assert incident.annotation == ""
        code, text = jobs("incidents", "annotate", uuid4(), "x", alias=alias)
        assert code == 3 and "1 incident was skipped:" in text and "There is no incident" in text
        code, text = jobs("incidents", "annotate", incident.pk, "x" * 4001, alias=alias)
        assert code == 2 and "annotation: expected a string of at most 4000" in text


class TestDefinitions:
    @pytest.fixture(autouse=True)
    def pay(self, engines, alias):
        assert jobs("definitions", alias=alias)[0] == 0
        JobDefinition.objects.using(alias).create(
            id="shop.pay", handler_type="shop.pay", category="default", priority=3
        )

    def test_the_projects_own_come_first(self, alias):
        JobDefinition.objects.using(alias).create(id="jobexec.own", handler_type="jobexec.own", category="default")
        lines = jobs("definitions", alias=alias)[1].splitlines()
        assert [line.split()[0] for line in lines] == ["definition", "shop.pay", "jobexec.own"]

    def test_override_and_clear(self, alias):
        job = create_job(alias, handler_type="shop.pay", job_definition_id="shop.pay")
        code, text = jobs("definitions", "override", "shop.pay", 9, alias=alias)
        assert (code, text) == (0, "New jobs of shop.pay have priority 9.\n")
        assert reload(alias, job).priority == 0
        head, row = jobs("definitions", alias=alias)[1].splitlines()
        assert head.split()[:2] == ["definition", "priority"] and row.split()[:3] == ["shop.pay", "3", "9"]
        _, text = jobs("definitions", "override", "--cascade", "shop.pay", 8, alias=alias)
        assert text.endswith("1 job has the new priority.\n")
        assert reload(alias, job).priority == 8
        assert objects("definitions", alias=alias)[1][0]["overriding_priority"] == 8
        _, text = jobs("definitions", "clear", "shop.pay", alias=alias)
        assert text == "New jobs of shop.pay have the priority of their code again.\n"
        assert JobDefinition.objects.using(alias).get(pk="shop.pay").overriding_priority is None

    @pytest.mark.parametrize("arguments", [("override", "shop", 9), ("clear", "shop")])
    def test_an_unknown_one(self, alias, arguments):
        code, text = jobs("definitions", *arguments, alias=alias)
        assert code == 3 and "There is no job definition 'shop'" in text

    def test_a_bad_priority(self, alias):
        code, text = jobs("definitions", "override", "shop.pay", 5_000_000, alias=alias)
        assert code == 2 and "priority: expected a number" in text

    def test_retries(self, alias, monkeypatch):
        dead = make_row(DeadLetterJob, alias, job_definition_id="shop.pay", retries=0)
        _, (told,) = objects("definitions", "retries", "--dry-run", "shop.pay", 4, alias=alias)
        assert told["matching"] == {"dead_letter": 1} and isinstance(reload(alias, dead), DeadLetterJob)
        assert jobs("definitions", "retries", "shop.pay", 4, alias=alias) == (0, "1 job requeued.\n")
        assert (type(reload(alias, dead)), reload(alias, dead).retries) == (Job, 4)
        monkeypatch.setattr(definitions, "_FEW", 0)
        make_row(DeadLetterJob, alias, job_definition_id="shop.pay", retries=0)
        _, text = jobs("definitions", "retries", "shop.pay", 4, alias=alias)
        batch = Batch.objects.using(alias).get()
        assert text == f"Batch {batch.pk} has been started.\n" and batch.create_user


class TestDeployments:
    @pytest.fixture(autouse=True)
    def versions(self, engines, alias, frozen):
        assert jobs("deployments", alias=alias) == (0, "No deployments.\n")
        for number in (1, 2, 3):
            deploy(f"shop:{number}", ["shop.pay"], using=alias)
            frozen.tick(86400)
        register_deployment("shop:3", "gone", using=alias)

    def test_the_list(self, alias):
        _, rows = objects("deployments", alias=alias)
        assert [(row["id"], row["nodes"]) for row in rows] == [("shop:3", 1), ("shop:2", 0), ("shop:1", 0)]
        assert jobs("deployments", alias=alias)[1].splitlines()[1].split()[0] == "shop:3"

    @pytest.mark.gate
    def test_retire(self, alias):
        make_row(DeadLetterJob, alias, deployment_id="shop:2")
        code, text = jobs("deployments", "retire", "shop:2", "shop:3", alias=alias)
        assert code == 3 and text.startswith(
            "1 deployment retired.\n1 deployment was skipped:\n  shop:2  jobs refer to it"
        )
        code, text = jobs("deployments", "retire", "--superseded-for", "3d", alias=alias)
        assert (code, text) == (0, "0 deployments retired.\n")
        assert jobs("deployments", "retire", "--superseded-for", "1d", alias=alias)[1] == "1 deployment retired.\n"
        assert Deployment.objects.using(alias).get().pk == "shop:2"

    def test_registrations(self, alias):
        assert jobs("deployments", "retire", "--node", "gone", alias=alias) == (0, "1 registration retired.\n")
        assert jobs("deployments", "retire", "--node", "gone", alias=alias) == (0, "0 registrations retired.\n")

    @pytest.mark.gate
    @pytest.mark.parametrize(
        "arguments", [(), ("shop:1", "--superseded-for", "1d"), ("--node", "x", "--superseded-for", "1d")]
    )
    def test_it_must_be_said_what_is_meant(self, alias, arguments):
        code, text = jobs("deployments", "retire", *arguments, alias=alias)
        assert code == 2 and "Expected either deployments" in text


class TestGroups:
    @pytest.fixture
    def group(self, alias):
        return FailureGroup.objects.using(alias).create(
            fingerprint="f1", handler_type="shop.pay", message="no", first_time=NOW, last_time=NOW, count=7
        )

    @pytest.mark.gate
    def test_what_is_quiet_is_listed_on_request(self, alias, group):
        make_row(DeadLetterJob, alias, fingerprint="f1")
        code, text = jobs("groups", alias=alias)
        assert code == 0 and "pay: no" in text
        assert text.split()[0] == "fingerprint" and "attention" not in text, "all of them are open"
        assert "open" in jobs("groups", "--all", alias=alias)[1]
        assert jobs("groups", "snooze", "f1", "--failures", 2, alias=alias) == (0, "1 group of failures snoozed.\n")
        assert jobs("groups", alias=alias) == (0, "No groups of failures.\n")
        _, (told,) = objects("groups", "--all", alias=alias)
        assert (told["fingerprint"], told["quiet"], told["snoozed_to_count"], told["dead_letters"]) == (
            "f1",
            True,
            9,
            1,
        )
        assert jobs("groups", "reopen", "f1", alias=alias) == (0, "1 group of failures reopened.\n")
        assert "pay: no" in jobs("groups", alias=alias)[1]

    def test_they_are_acknowledged_and_assigned(self, alias, group, monkeypatch):
        monkeypatch.setattr("jobexec.operations.manage.failure_groups._is_user", lambda name: name == "ben")
        code, text = jobs("groups", "acknowledge", "f1", "gone", alias=alias)
        assert code == 3 and "1 group of failures acknowledged" in text and "there is no such group" in text
        assert "assigned to" not in jobs("groups", "--all", alias=alias)[1]
        assert jobs("groups", "assign", "f1", "--to", "ben", alias=alias)[0] == 0
        assert "assigned to" in jobs("groups", "--all", alias=alias)[1]
        group.refresh_from_db()
        assert (group.acknowledged_at, group.assigned_to) == (NOW, "ben")
        code, text = jobs("groups", "assign", "f1", "--to", "who", alias=alias)
        assert code == 2 and "assigned_to: expected the name of an active user" in text

    def test_what_is_loud_fits_a_narrow_terminal(self, alias, group, monkeypatch):
        monkeypatch.setenv("COLUMNS", "80")
        FailureGroup.objects.using(alias).update(
            fingerprint="f" * 32, handler_type="shop.orders.jobs.charge", message="no " * 50, assigned_to="ben"
        )
        _, text = jobs("groups", alias=alias, terminal=True)
        assert max(map(len, text.splitlines())) < 80 + len("\x1b[1m\x1b[0m") and "ben" in text and "no no" in text

    def test_a_snooze_needs_an_end(self, alias, group):
        code, text = jobs("groups", "snooze", "f1", alias=alias)
        assert (code, text) == (2, "Expected --until or --failures.")


class TestCleanup:
    def test_deletes_what_the_settings_say_has_expired(self, alias, settings):
        settings.JOBEXEC = {**settings.JOBEXEC, "DEAD_LETTER_TIME_TO_LIVE": "P30D", "HISTORY_TIME_TO_LIVE": "P14D"}
        old, recent = NOW - timedelta(days=31), NOW - timedelta(days=29)
        dead = [make_row(DeadLetterJob, alias, died_at=each) for each in (old, recent)]
        rows = [JobLog(timestamp=each, state=LogState.SUCCESSFUL, job_id=uuid4()) for each in (recent, NOW)]
        JobLog.objects.using(alias).bulk_create(rows)
        assert jobs("cleanup", alias=alias) == (0, "2 rows deleted.\n")
        assert list(DeadLetterJob.objects.using(alias)) == [dead[1]]
        assert [row.timestamp for row in JobLog.objects.using(alias).exclude(state=LogState.DELETED)] == [NOW]
        assert objects("cleanup", alias=alias) == (0, [{"operation": "cleanup", "count": 0}])
