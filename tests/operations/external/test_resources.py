"""External jobs of a resource: workers get them when it has a permit, and the permit goes with what they report."""

from datetime import timedelta

import pytest

import jobexec
from jobexec.exceptions import InvalidJob, JobStateError
from jobexec.models import BlockedJob, DeadLetterJob, ExternalWorkerJob, Incident, Job, SuspendedJob, TimerJob
from jobexec.operations import activate, hold_resource, set_due_date, suspend, trigger_due_timers
from jobexec.operations.external import (
    complete_external_job,
    fail_external_job,
    resolve_external_incident,
    set_external_retries,
)
from jobexec.operations.external.search import external_jobs_by_key
from jobexec.operations.resources.promote import blocked_resources, promote
from jobexec.operations.rows import move_statement
from jobexec.operations.why.explain import why
from tests.support.factories import fetch, make_external, make_job, make_node, table_of

pytestmark = pytest.mark.every_database


@pytest.fixture(autouse=True)
def resources(configure):
    configure(RESOURCES={"pay.example": {"limit": 1}})


@pytest.fixture(autouse=True, params=["statement", "portable"])
def form(request, monkeypatch):
    """Both forms in which rows move."""
    if request.param == "portable":
        monkeypatch.setattr(move_statement, "is_possible", lambda using: False)


def made(alias, count=1, **options):
    return [make_external(alias, resource="pay.example", **options) for _ in range(count)]


def look(alias):
    return promote(alias, blocked_resources(alias), 100).moved


def test_a_worker_gets_what_has_a_permit(alias):
    first, second = made(alias, 2)
    assert type(first) is BlockedJob
    assert fetch(alias) == []
    assert look(alias) == 1
    assert [job.id for job in fetch(alias)] == [first.pk]
    assert look(alias) == 0
    complete_external_job(alias, first.job_key)
    assert look(alias) == 1
    assert [job.id for job in fetch(alias)] == [second.pk]


def test_it_shares_its_resource_with_jobs_of_executors(alias):
    (external,), job = made(alias), make_job(alias, resource="pay.example")
    assert look(alias) == 1
    assert table_of(alias, external) is ExternalWorkerJob
    (held,) = fetch(alias)
    complete_external_job(alias, held.key)
    assert look(alias) == 1
    assert table_of(alias, job) is Job


def test_after_its_back_off_still_only_workers_with_a_lease_get_it(alias, frozen):
    (row,) = made(alias, variables={"amount": 5})
    look(alias)
    (held,) = fetch(alias, with_lease=True)
    minute = timedelta(minutes=1)
    fail_external_job(alias, held.key, retries=2, back_off=minute, lease=held.lease_token, variables={"tried": 1})
    assert TimerJob.objects.using(alias).get().handler_configuration["lease_token"] == held.lease_token
    frozen.tick(60)
    assert trigger_due_timers(alias, 10) == 1
    assert look(alias) == 1
    back = ExternalWorkerJob.objects.using(alias).get(pk=row.pk)
    assert (back.lease_token, "lease_token" in back.handler_configuration) == (held.lease_token, False)
    assert fetch(alias) == []
    (again,) = fetch(alias, with_lease=True)
    assert (again.variables, again.lease_token != held.lease_token) == ({"amount": 5, "tried": 1}, True)


def test_also_if_it_was_suspended_meanwhile(alias):
    (row,) = made(alias)
    look(alias)
    (held,) = fetch(alias, with_lease=True)
    suspend(row.pk, using=alias)
    fail_external_job(alias, held.key, retries=2, lease=held.lease_token)
    assert table_of(alias, row) is SuspendedJob
    activate(row.pk, using=alias)
    assert look(alias) == 1
    assert fetch(alias) == []
    assert len(fetch(alias, with_lease=True)) == 1


def test_while_it_backs_off_it_holds_no_permit(alias, frozen):
    first, second = made(alias, 2)
    look(alias)
    (held,) = fetch(alias)
    fail_external_job(alias, held.key, retries=2, back_off=timedelta(minutes=5))
    assert table_of(alias, first) is TimerJob
    assert external_jobs_by_key(alias, [held.key])[held.key].state == "FAILED"
    assert look(alias) == 1
    assert table_of(alias, second) is ExternalWorkerJob
    frozen.tick(300)
    assert trigger_due_timers(alias, 10) == 1
    assert table_of(alias, first) is BlockedJob
    with pytest.raises(JobStateError, match="it is in state 'FAILED'"):
        complete_external_job(alias, held.key)
    set_external_retries(alias, held.key, 5)
    assert BlockedJob.objects.using(alias).get().retries == 5


def test_without_a_back_off_it_keeps_its_permit(alias):
    first, _second = made(alias, 2)
    look(alias)
    (held,) = fetch(alias)
    fail_external_job(alias, held.key, retries=2)
    assert look(alias) == 0
    assert [job.id for job in fetch(alias)] == [first.pk]


def test_dead_and_back(alias):
    (first,) = made(alias)
    look(alias)
    (held,) = fetch(alias)
    fail_external_job(alias, held.key, retries=0)
    assert table_of(alias, first) is DeadLetterJob
    set_external_retries(alias, held.key, 1)
    resolve_external_incident(alias, Incident.objects.using(alias).get().incident_key)
    assert table_of(alias, first) is BlockedJob
    assert look(alias) == 1


def test_due_later(alias, frozen):
    (row,) = made(alias, delay=60)
    assert type(row) is TimerJob
    frozen.tick(60)
    trigger_due_timers(alias, 10)
    assert table_of(alias, row) is BlockedJob
    look(alias)
    assert [job.id for job in fetch(alias)] == [row.pk]


def test_an_operator_postpones_it(alias, frozen):
    rows = made(alias, 2)
    look(alias)
    later = frozen.now + timedelta(hours=1)
    assert len(set_due_date(ExternalWorkerJob.objects.using(alias).all(), later, using=alias).changed) == 1
    assert table_of(alias, rows[0]) is TimerJob
    assert len(set_due_date(TimerJob.objects.using(alias).get(), None, using=alias).changed) == 1
    assert table_of(alias, rows[0]) is BlockedJob


def test_suspended_and_held(alias):
    rows = made(alias, 2)
    look(alias)
    suspend(rows[0].pk, using=alias)
    assert table_of(alias, rows[0]) is SuspendedJob
    assert look(alias) == 1
    hold_resource("pay.example", using=alias)
    assert table_of(alias, rows[1]) is BlockedJob  # no worker has fetched it


def test_what_follows_it_has_a_resource_of_its_own(alias, configure, handle):
    configure(RESOURCES={"pay.example": {"limit": 1}, "mail": {"limit": 1}})
    handle(lambda variables: None, name="tests.plain")
    handle(lambda variables: None, name="tests.mail", resource="mail")
    plain, mail = made(alias, on_complete="tests.plain")[0], made(alias, on_complete="tests.mail")[0]
    for row in (plain, mail):
        look(alias)
        fetch(alias)
        complete_external_job(alias, row.job_key)
    assert (table_of(alias, plain), Job.objects.using(alias).get(pk=plain.pk).resource) == (Job, None)
    assert (table_of(alias, mail), BlockedJob.objects.using(alias).get().resource) == (BlockedJob, "mail")


def test_bad_input(alias, handle):
    with pytest.raises(InvalidJob, match="resource: expected a name that RESOURCES covers"):
        make_external(alias, resource="pay")
    with pytest.raises(InvalidJob, match="resource: expected a string or None for an external job, got <function"):
        make_external(alias, resource=lambda **variables: "pay.example")
    handle(lambda variables: None, name="tests.each", resource=lambda variables: "pay.example")
    with pytest.raises(InvalidJob, match="on_complete: expected a function whose resource is a name"):
        jobexec.external_job("payment", on_complete="tests.each", database=alias)
    assert not BlockedJob.objects.using(alias).exists() and not ExternalWorkerJob.objects.using(alias).exists()


def test_without_an_executor_nobody_gives_permits_and_why_says_so(alias):
    (row,) = made(alias)
    assert "no_node" in [reason.code for reason in why(row.pk, using=alias).reasons]
    make_node(alias, "here")
    assert "no_node" not in [reason.code for reason in why(row.pk, using=alias).reasons]
