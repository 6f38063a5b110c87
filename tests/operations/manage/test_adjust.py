"""What a person changes on jobs: each verb on each table, and why it is refused."""

from datetime import UTC, datetime, timedelta

import pytest
from django.db import transaction

from jobexec.exceptions import InvalidJob
from jobexec.identifiers import uuid7
from jobexec.models import JOB_TABLES, DeadLetterJob, Job, JobLog, SuspendedJob, TimerJob
from jobexec.operations import (
    complete_jobs,
    delete_jobs,
    fail_job,
    requeue,
    retry_now,
    set_due_date,
    set_priority,
    set_retries,
    suspend,
)
from jobexec.operations.values.ranking import rank
from tests.support.factories import a_failure, a_run, acquire, make_job, make_row, reload, table_of, tables_of, work
from tests.support.forms import VERBS, verbs
from tests.support.outside import fetch, make_external

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
LATER = NOW + timedelta(hours=1)


@pytest.fixture(autouse=True, params=VERBS)
def form(request, alias, monkeypatch):
    """Each test with each form of the verbs."""
    verbs(request.param, alias, monkeypatch)


@pytest.mark.parametrize("table", [Job, TimerJob, SuspendedJob])
def test_set_retries(alias, table):
    row = make_row(table, alias, retries=1, attempts=2, revision=5)
    assert set_retries(row, 9, using=alias).changed == [row.pk]
    after = reload(alias, row)
    assert (type(after), after.retries, after.attempts, after.revision) == (table, 9, 2, 5)


def test_set_retries_of_a_running_job_counts_from_its_next_failure(alias):
    job = work(alias, retries=1)
    set_retries(job.id, 5, using=alias)
    assert fail_job(alias, job, a_failure(), a_run(alias)).retries == 4


def test_set_retries_requeues_dead_letters(alias):
    row = make_row(DeadLetterJob, alias, retries=0)
    assert set_retries(row, 2, using=alias)
    assert (table_of(alias, row), reload(alias, row).retries) == (Job, 2)


@pytest.mark.parametrize("verb", [set_retries, requeue])
@pytest.mark.parametrize("retries", [0, -1, 1.5, "3", True, None])
def test_retries_must_be_at_least_one(alias, verb, retries):
    row = make_row(DeadLetterJob, alias)
    with pytest.raises(InvalidJob, match=f"at least 1, got {retries!r}"):
        verb(row, retries, using=alias)
    assert table_of(alias, row) is DeadLetterJob


def test_requeue_starts_anew(alias):
    old = {"attempts": 3, "lost_runs": 2, "conflicts": 4, "due_date": NOW - timedelta(days=3)}
    texts = {"exception_message": "m", "exception_stack": "s", "suspend_requested": True, "cancel_requested": True}
    row = make_row(DeadLetterJob, alias, retries=0, process_instance_id="p", unknown_since=NOW, **old, **texts)
    assert requeue(row, 4, using=alias)
    after = Job.objects.using(alias).get(pk=row.pk)
    assert (after.retries, after.attempts, after.lost_runs, after.conflicts, after.due_date) == (4, 0, 0, 0, None)
    assert (after.exception_message, after.exception_stack, after.process_instance_id) == ("", "", "p")
    assert (after.suspend_requested, after.cancel_requested, after.unknown_since) == (False, False, None)
    assert after.rank == rank(alias, NOW, 0), "it queues behind those who have waited"


def test_requeue_into_a_suspension(alias):
    suspend(tenant_id="t", using=alias)
    row = make_row(DeadLetterJob, alias, tenant_id="t", retries=0)
    assert requeue(row, using=alias)
    assert (table_of(alias, row), reload(alias, row).retries) == (SuspendedJob, 3)


@pytest.mark.parametrize("table", [Job, TimerJob, SuspendedJob])
def test_only_dead_letters_are_requeued(alias, table):
    row = make_row(table, alias)
    result = requeue(row, using=alias)
    assert (result.changed, result.skipped) == ([], {row.pk: f"not possible for a job that is {table.state}"})
    assert not result


@pytest.mark.parametrize(
    ("table", "due", "expected"),
    [
        (Job, LATER, TimerJob),
        (Job, NOW, Job),
        (Job, None, Job),
        (TimerJob, LATER, TimerJob),
        (TimerJob, NOW, Job),
        (TimerJob, None, Job),
        (SuspendedJob, LATER, SuspendedJob),
        (SuspendedJob, None, SuspendedJob),
    ],
)
def test_set_due_date(alias, table, due, expected):
    row = make_row(table, alias, due_date=NOW + timedelta(minutes=5), retries=2, attempts=1)
    assert set_due_date(row, due, using=alias).changed == [row.pk]
    after = reload(alias, row)
    assert (type(after), after.due_date, after.retries, after.attempts) == (expected, due, 2, 1)


def test_retry_now(alias):
    row = make_row(TimerJob, alias, due_date=LATER, retries=2)
    assert retry_now(row, using=alias)
    assert [job.id for job in acquire(alias)] == [row.pk]


def test_naive_due_dates_are_refused(alias):
    with pytest.raises(InvalidJob, match="time zone, got the naive"):
        set_due_date(make_row(Job, alias), datetime(2026, 1, 1), using=alias)


@pytest.mark.parametrize("table", JOB_TABLES)
def test_set_priority(alias, table):
    row = make_row(table, alias, priority=1, rank=rank(alias, NOW, 1), revision=5)
    assert set_priority(row, -3, using=alias)
    after = reload(alias, row)
    assert (type(after), after.priority, after.rank, after.revision) == (table, -3, rank(alias, NOW, -3), 5)


def test_a_requeued_job_does_not_jump_the_queue_when_its_priority_is_set(alias):
    row = make_row(DeadLetterJob, alias, create_time=NOW - timedelta(days=9), retries=0)
    waiting = make_job(alias, due_date=NOW - timedelta(minutes=1))
    requeue(row, using=alias)
    set_priority(row.pk, 0, using=alias)
    assert [job.id for job in acquire(alias)] == [waiting.pk, row.pk]


def test_absurd_priorities_are_refused(alias):
    for priority in (10**7, -(10**7), "1", True):
        with pytest.raises(InvalidJob, match="priority: expected"):
            set_priority(make_row(Job, alias), priority, using=alias)


@pytest.mark.parametrize("table", JOB_TABLES)
def test_delete(alias, table):
    row, other = make_row(table, alias, attempts=2), make_row(table, alias)
    assert delete_jobs(row, using=alias).changed == [row.pk]
    assert tables_of(alias) == {other.pk: [table]}
    entry = JobLog.objects.using(alias).get()
    assert (entry.job_id, entry.state, entry.attempt) == (row.pk, "deleted", 2)


@pytest.mark.parametrize(("level", "logged"), [("none", 0), ("failures", 0), ("activity", 1), ("full", 1)])
def test_deletion_is_logged_by_level(alias, configure, level, logged):
    configure(HISTORY_LEVEL=level)
    delete_jobs(make_row(TimerJob, alias), using=alias)
    assert JobLog.objects.using(alias).count() == logged


@pytest.mark.parametrize(
    "verb",
    [
        lambda ids, alias: delete_jobs(ids, using=alias),
        lambda ids, alias: set_due_date(ids, LATER, using=alias),
        lambda ids, alias: retry_now(ids, using=alias),
    ],
)
def test_refused_while_running_without_disturbing_the_others(alias, verb):
    running, free, gone = work(alias, "one"), make_job(alias), uuid7()
    dead = make_row(DeadLetterJob, alias)
    with transaction.atomic(alias):
        result = verb([running.id, free.pk, gone, str(free.pk)], alias)
        assert Job.objects.using(alias).filter(pk=running.id, lock_owner="one").exists(), "the transaction goes on"
    assert result.changed == [free.pk]
    assert result.skipped == {running.id: "it is running or queued on one", gone: "the job no longer exists"}
    assert complete_jobs(alias, [(running, a_run(alias))]) == {running.id}
    assert table_of(alias, dead) is DeadLetterJob


@pytest.mark.parametrize("form", ["row", "id", "text", "list", "generator", "queryset"])
def test_the_forms_of_a_target(alias, form):
    rows = [make_row(DeadLetterJob, alias, priority=number) for number in range(3)]
    target = {
        "row": rows[0],
        "id": rows[0].pk,
        "text": str(rows[0].pk),
        "list": [rows[0], rows[1].pk, str(rows[2].pk)],
        "generator": (row for row in rows),
        "queryset": DeadLetterJob.objects.using(alias).filter(priority__gt=0),
    }[form]
    expected = {"list": rows, "generator": rows, "queryset": rows[1:]}.get(form, rows[:1])
    assert sorted(requeue(target, using=alias).changed) == [row.pk for row in expected]
    assert Job.objects.using(alias).count() == len(expected)


def test_a_text_that_is_no_id_changes_nothing(alias):
    row = make_row(DeadLetterJob, alias)
    with pytest.raises(ValueError):
        requeue([row, "no id"], using=alias)
    assert table_of(alias, row) is DeadLetterJob


def test_many_pages(alias, monkeypatch):
    monkeypatch.setattr("jobexec.operations.targets.for_each._PAGE", 4)
    DeadLetterJob.objects.using(alias).bulk_create([DeadLetterJob(handler_type="h") for _ in range(10)])
    assert len(requeue(DeadLetterJob.objects.using(alias).all(), using=alias).changed) == 10
    assert Job.objects.using(alias).count() == 10


@pytest.mark.parametrize("make", [make_job, make_external])
def test_run_now_lets_what_may_run_keep_its_place(alias, frozen, make):
    """Anew it would stand behind all those that came later."""
    rows = [make(alias) for _ in range(5) if frozen.tick(1)]
    frozen.tick(60)
    for row in rows[:2]:
        assert retry_now(row, using=alias)
    found = fetch(alias) if make is make_external else acquire(alias)
    assert [job.id for job in found] == [row.pk for row in rows]
