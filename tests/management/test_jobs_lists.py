"""`manage.py jobs`: incidents and batches."""

from datetime import UTC, datetime, timedelta

import pytest
from django.core.management import CommandError, call_command
from django.db import OperationalError, connections
from django.db.migrations.recorder import MigrationRecorder

from jobexec.management.jobs.actions import ACTIONS
from jobexec.models import DeadLetterJob, Incident
from jobexec.operations import fail_job, requeue
from jobexec.operations.batches.control import start_batch
from tests.support.factories import a_failure, a_run, work
from tests.support.jobs_command import jobs, objects

pytestmark = pytest.mark.usefixtures("engines", "frozen")

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)


@pytest.mark.gate
def test_incidents(alias, frozen):
    first, second, solved = (work(alias, retries=1, tenant_id="acme", exclusive=False) for _ in range(3))
    for job in (first, solved, second):
        fail_job(alias, job, a_failure("ValueError: no"), a_run(alias))
        frozen.tick(60)
    requeue(solved.id, using=alias)
    Incident.objects.using(alias).filter(job_id=first.id).update(annotation="asked the bank")
    code, text = jobs("incidents", alias=alias)
    head, *rows = text.splitlines()
    assert code == 0 and head.split()[:4] == ["job", "since", "call", "message"]
    assert [row.split()[0] for row in rows] == [str(second.id), str(first.id)]
    assert (
        "1 min ago" in rows[0]
        and "do_nothing()" in rows[0]
        and "ValueError: no" in rows[0]
        and "asked the bank" in rows[1]
    )
    _, (told,) = objects("incidents", "--limit", 1, alias=alias)
    assert (told["job_id"], told["state"]) == (str(second.id), "open")
    assert told["timestamp"] == (NOW + timedelta(minutes=2)).isoformat()
    _, (told,) = objects("incidents", "--state", "resolved", alias=alias)
    assert told["job_id"] == str(solved.id)
    assert jobs("incidents", "--state", "deleted", alias=alias) == (0, "No incidents.\n")


def test_incidents_in_a_narrow_terminal(alias, monkeypatch):
    """The id is cut as in a list of jobs, and can be entered as it is shown; the call has its place."""
    monkeypatch.setenv("COLUMNS", "80")
    arguments = {"args": [], "kwargs": {"order": 17}}
    job = work(alias, retries=1, handler_type="shop.charge", handler_configuration=arguments)
    fail_job(alias, job, a_failure("ValueError: no"), a_run(alias))
    code, text = jobs("incidents", alias=alias, terminal=True)
    _, row = text.splitlines()
    assert code == 0 and len(row) <= 80
    assert row.startswith(f"{str(job.id)[:13]}") and str(job.id) not in row
    assert "charge(order=17)" in row and "ValueError: no" in row
    assert jobs("why", row.split()[0], alias=alias)[0] == 0


@pytest.mark.gate
def test_batches(alias, frozen, monkeypatch):
    assert jobs("batches", alias=alias) == (0, "No batches.\n")
    rows = DeadLetterJob.objects.using(alias)
    first = start_batch("requeue", rows, arguments={"retries": 5}, using=alias, user="ada")
    frozen.tick(60)
    second = start_batch("delete", rows, using=alias)
    code, text = jobs("batches", alias=alias)
    _, latest, oldest = text.splitlines()
    assert code == 0
    assert latest.split()[:5] == [str(second.pk), "delete", "seeding", "0", "0"] and str(first.pk) in oldest
    assert oldest.split()[-1] == "ada" and "1 min ago" in oldest
    _, (_, told) = objects("batches", alias=alias)
    assert (told["id"], told["type"], told["arguments"]) == (str(first.pk), "requeue", {"retries": 5})
    assert (told["total"], told["open"], told["create_user"], told["end_time"]) == (0, 0, "ada", None)
    monkeypatch.setenv("COLUMNS", "80")
    _, text = jobs("batches", "--limit", 1, alias=alias, terminal=True)
    assert len(text.splitlines()) == 2


def test_what_to_do_before_the_first_migrate(alias, monkeypatch):
    def without_tables(*args):
        raise OperationalError("no such table: jobexec_job")

    monkeypatch.setattr(ACTIONS["list"], "run", without_tables)
    with pytest.raises(CommandError, match=r"^no such table"):
        call_command("jobs", "list", database=alias)
    recorder = MigrationRecorder(connections[alias])
    for app, name in list(recorder.applied_migrations()):
        if app == "jobexec":
            recorder.record_unapplied(app, name)
    missing = r"lacks migrations of jobexec \(0001_initial, .* and \d+ more\): run 'manage.py migrate jobexec"
    with pytest.raises(CommandError, match=missing):
        call_command("jobs", "list", database=alias)
