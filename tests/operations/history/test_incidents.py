"""Incidents: one for each dead letter, opened and closed with it, whichever way it came and goes."""

from datetime import UTC, datetime, timedelta

import pytest
from django.db import connections, transaction
from django.test.utils import CaptureQueriesContext

from jobexec.exceptions import InvalidJob
from jobexec.executor.execute_now import execute_now
from jobexec.handlers import registry
from jobexec.handlers.decorator import job
from jobexec.identifiers import uuid7
from jobexec.models import DeadLetterJob, Incident, Job, SuspendedJob, TimerJob
from jobexec.operations import (
    annotate_incident,
    delete_jobs,
    fail_job,
    fail_jobs,
    requeue,
    set_retries,
    suspend,
    trigger_due_timers,
)
from jobexec.operations.rows.bury_unreadable import bury
from jobexec.operations.settle.recover import mark_suspect_started, recover_node
from tests.support.columns import VALUES
from tests.support.factories import a_failure, a_run, acquire, make_job, make_node, make_row, reload, table_of, work
from tests.support.forms import MOVES, move
from tests.support.threads import Undo, undo

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
COPIED = [
    *("job_definition_id", "handler_type", "category", "process_instance_id", "process_definition_key"),
    *("deployment_id", "tenant_id", "failed_activity_id", "fingerprint"),
]


@pytest.fixture(params=MOVES)
def form(request, alias, monkeypatch):
    """Both ways in which rows move."""
    move(request.param, alias, monkeypatch)


def only(alias):
    return Incident.objects.using(alias).get()


def states(alias):
    found = Incident.objects.using(alias).order_by("timestamp", "pk").values_list("job_id", "state")
    return list(found)


def dead_letter(alias, **columns):
    """A job that has failed for good."""
    work_ = work(alias, **columns)
    return fail_job(alias, work_, a_failure("ValueError: no", kind="fatal"), a_run(alias))


def test_the_last_failure_opens_one_and_no_other_failure_does(alias, form, frozen):
    columns = {name: VALUES[name] for name in (*COPIED, "retry_plan") if name in VALUES and name != "handler_type"}
    columns |= {"category": "default", "deployment_id": "", "retries": 2}
    job = work(alias, **columns)
    assert isinstance(fail_job(alias, job, a_failure(), a_run(alias)), TimerJob)
    assert not Incident.objects.using(alias).exists()
    frozen.tick(timedelta(days=1))
    trigger_due_timers(alias, 5)
    (job,) = acquire(alias)
    fail_job(alias, job, a_failure("ValueError: the last one"), a_run(alias))
    incident, dead = only(alias), DeadLetterJob.objects.using(alias).get()
    assert (incident.job_id, incident.state, incident.type) == (dead.pk, "open", "failedJob")
    assert (incident.timestamp, incident.end_time) == (dead.died_at, None)
    assert (incident.message, incident.annotation) == ("ValueError: the last one", "")
    assert {name: getattr(incident, name) for name in COPIED} == {name: getattr(dead, name) for name in COPIED}
    assert incident.fingerprint
    assert incident.process_instance_id == "pi"


@pytest.mark.parametrize("kind", ["fatal", "unknown"])
def test_whatever_ends_a_job_for_good_opens_one(alias, form, kind):
    job = work(alias)
    Job.objects.using(alias).filter(pk=job.id).update(unknown_since=NOW - timedelta(days=9999))
    fail_job(alias, job, a_failure(kind=kind), a_run(alias))
    assert states(alias) == [(job.id, "open")]


def test_a_group_takes_one_statement_however_large_it_is(alias, form):
    def statements(size):
        for _ in range(size):
            make_job(alias, retries=1)
        jobs = acquire(alias)
        with CaptureQueriesContext(connections[alias]) as queries:
            fail_jobs(alias, [(job, a_failure(str(n)), a_run(alias)) for n, job in enumerate(jobs)])
        return [query["sql"] for query in queries]

    few, many = statements(2), statements(15)
    assert len(few) == len(many)
    assert len([sql for sql in many if "jobexec_incident" in sql]) == 1
    messages = Incident.objects.using(alias).order_by("pk").values_list("message", flat=True)
    assert list(messages) == ["0", "1", *map(str, range(15))], "in the order in which they died"


def test_a_row_that_cannot_be_read_opens_one(alias):
    row = make_row(Job, alias, process_instance_id="p")
    assert bury(alias, Job, row.pk, "broken")
    incident = only(alias)
    assert (incident.job_id, incident.state, incident.message) == (row.pk, "open", "broken")
    assert incident.fingerprint == DeadLetterJob.objects.using(alias).get().fingerprint != ""


def test_a_job_that_kills_its_process_opens_one(alias, form, frozen):
    node = make_node(alias)
    job = work(alias, node.lock_owner, retries=1)
    Job.objects.using(alias).filter(pk=job.id).update(lost_runs=2)
    assert mark_suspect_started(job)
    recover_node(alias, node)
    assert states(alias) == [(job.id, "open")]
    assert "died while it ran" in only(alias).message


@pytest.mark.parametrize("verb", [requeue, lambda target, using: set_retries(target, 2, using=using)])
@pytest.mark.parametrize("to", [Job, SuspendedJob])
def test_new_retries_resolve_it(alias, form, verb, to, frozen):
    if to is SuspendedJob:
        suspend(tenant_id="t", using=alias)
    dead, other = make_row(DeadLetterJob, alias, tenant_id="t"), dead_letter(alias)
    Incident.objects.using(alias).create(job_id=dead.pk, timestamp=NOW, handler_type="h", category="c", message="m")
    frozen.tick(60)
    assert verb(dead, using=alias)
    assert table_of(alias, dead) is to
    incident = Incident.objects.using(alias).get(job_id=dead.pk)
    assert (incident.state, incident.end_time) == ("resolved", NOW + timedelta(minutes=1))
    assert incident.message == "m", "what it was stays"
    assert Incident.objects.using(alias).get(job_id=other.pk).state == "open", "others are let alone"


def test_one_that_dies_again_has_two(alias, form, frozen):
    dead = dead_letter(alias)
    requeue(dead, using=alias)
    frozen.tick(60)
    (again,) = acquire(alias)
    fail_job(alias, again, a_failure(kind="fatal"), a_run(alias))
    assert states(alias) == [(dead.pk, "resolved"), (dead.pk, "open")]
    frozen.tick(60)
    delete_jobs(dead.pk, using=alias)
    assert states(alias) == [(dead.pk, "resolved"), (dead.pk, "deleted")]
    ends = Incident.objects.using(alias).order_by("pk").values_list("end_time", flat=True)
    assert list(ends) == [NOW, NOW + timedelta(minutes=2)]


def test_execute_now_resolves_it(alias):
    with registry.isolated():

        @job(name="tests.well")
        def well():
            return 7

        dead = dead_letter(alias, handler_type="tests.well")
        assert execute_now(dead.pk, using=alias) == 7
    assert states(alias) == [(dead.pk, "resolved")]


def test_one_that_is_refused_keeps_it(alias):
    dead = dead_letter(alias)
    assert not delete_jobs(uuid7(), using=alias)
    assert not requeue(make_job(alias), using=alias)
    assert states(alias) == [(dead.pk, "open")]


@pytest.mark.transactional
@pytest.mark.parametrize("verb", [requeue, delete_jobs])
def test_what_is_rolled_back_has_not_happened(alias, form, verb):
    dead, job = dead_letter(alias), work(alias)
    with pytest.raises(Undo), transaction.atomic(alias):
        assert verb(dead, using=alias)
        fail_job(alias, job, a_failure(kind="fatal"), a_run(alias))
        undo()
    assert states(alias) == [(dead.pk, "open")]
    assert type(reload(alias, dead)) is DeadLetterJob


def test_many_dead_letters_on_any_path_are_as_many_open_incidents(alias, form):
    for number in range(5):
        make_job(alias, tenant_id=str(number))
    dead = fail_jobs(alias, [(job, a_failure(kind="fatal"), a_run(alias)) for job in acquire(alias)])
    requeue(dead[:2], using=alias)
    delete_jobs(dead[2], using=alias)
    still = set(DeadLetterJob.objects.using(alias).values_list("pk", flat=True))
    assert set(Incident.objects.using(alias).filter(state="open").values_list("job_id", flat=True)) == still
    assert len(still) == 2


def test_annotate(alias):
    dead_letter(alias)
    incident = only(alias)
    annotate_incident(str(incident.pk), "Seen by Ada.\x00", using=alias)
    assert only(alias).annotation == "Seen by Ada.\\x00"
    annotate_incident(incident.pk, "", using=alias)
    assert only(alias).annotation == ""


@pytest.mark.parametrize("id", [uuid7(), "nonsense"])
def test_an_unknown_incident(alias, id):
    with pytest.raises(Incident.DoesNotExist, match="There is no incident"):
        annotate_incident(id, "x", using=alias)
    assert not Incident.objects.using(alias).exists(), "the caller's transaction goes on"


@pytest.mark.parametrize(("text", "got"), [("x" * 4001, "4001 characters"), (None, "None")])
def test_an_annotation_is_a_text_of_a_certain_length(alias, text, got):
    dead_letter(alias)
    with pytest.raises(InvalidJob, match=f"annotation: expected a string of at most 4000 characters, got {got}"):
        annotate_incident(only(alias).pk, text, using=alias)
