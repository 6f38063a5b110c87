"""The due date of a waiting retry is worked out anew."""

from datetime import UTC, datetime, timedelta

import pytest

from jobexec.exceptions import InvalidJob
from jobexec.models import DeadLetterJob, Job, JobDefinition, SuspendedJob, TimerJob
from jobexec.operations import fail_job, recalculate_due_date
from tests.support.factories import a_failure, a_run, make_job, make_row, reload, table_of, work

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)


def waiting(alias, table=TimerJob, **columns):
    """A retry that waits for an hour, created a day ago."""
    columns = {"attempts": 1, "retry_plan": "R5/PT5M", "due_date": NOW + HOUR, "priority": 3} | columns
    return make_row(table, alias, create_time=NOW - timedelta(days=1), **columns)


def test_from_now(alias, frozen):
    row = waiting(alias, revision=5)
    frozen.tick(60)
    assert recalculate_due_date(row, using=alias).changed == [row.pk]
    after = reload(alias, row)
    assert (type(after), after.due_date) == (TimerJob, NOW + timedelta(minutes=6))
    assert (after.attempts, after.retries, after.revision) == (1, 3, 5)


def test_of_a_job_that_has_postponed_itself(alias, frozen):
    row = waiting(alias, attempts=0, snoozes=2)
    assert recalculate_due_date(row, using=alias).changed == [row.pk]
    assert reload(alias, row).due_date == NOW + timedelta(minutes=5)


def test_from_the_creation(alias):
    row = waiting(alias, retry_plan="R5/P2D")
    assert recalculate_due_date(row, from_creation=True, using=alias)
    assert reload(alias, row).due_date == NOW + timedelta(days=1)


def test_what_has_passed_is_due_at_once(alias):
    row = waiting(alias)
    assert recalculate_due_date(row, from_creation=True, using=alias)
    after = reload(alias, row)
    assert (type(after), after.due_date) == (Job, NOW - timedelta(days=1) + timedelta(minutes=5))


@pytest.mark.parametrize(
    ("attempts", "conflicts", "minutes"), [(1, 0, 1), (2, 0, 10), (5, 0, 60), (3, 1, 10), (2, 2, 1)]
)
def test_the_interval_is_that_of_the_failure(alias, attempts, conflicts, minutes):
    row = waiting(alias, retry_plan="PT1M,PT10M,PT1H", attempts=attempts, conflicts=conflicts)
    assert recalculate_due_date(row, using=alias)
    assert reload(alias, row).due_date == NOW + timedelta(minutes=minutes)


def test_the_same_as_when_it_failed(alias):
    job = work(alias, retry_plan="PT1M,PT10M,PT1H", retries=4)
    failed = fail_job(alias, job, a_failure(), a_run(alias))
    assert recalculate_due_date(job.id, using=alias)
    assert reload(alias, job).due_date == failed.due_date == NOW + timedelta(minutes=1)


def test_the_plan_of_its_definition_and_then_the_default(alias, configure):
    configure(DEFAULT_RETRY_PLAN="R3/PT7M")
    row = waiting(alias, retry_plan="", job_definition_id="d")
    recalculate_due_date(row, using=alias)
    assert reload(alias, row).due_date == NOW + timedelta(minutes=7)
    definition = JobDefinition.objects.using(alias).create(id="d", handler_type="d", category="c", retry_plan="R3/PT9M")
    recalculate_due_date(row, using=alias)
    assert reload(alias, row).due_date == NOW + timedelta(minutes=9)
    JobDefinition.objects.using(alias).filter(pk=definition.pk).update(retry_plan="")
    recalculate_due_date(row, using=alias)
    assert reload(alias, row).due_date == NOW + timedelta(minutes=7)


def test_a_suspended_retry_keeps_being_suspended(alias):
    row = waiting(alias, SuspendedJob)
    assert recalculate_due_date(row, using=alias)
    assert (table_of(alias, row), reload(alias, row).due_date) == (SuspendedJob, NOW + timedelta(minutes=5))


def test_others_are_refused(alias):
    timer, due, dead = make_job(alias, due_date=NOW + HOUR), make_job(alias), make_row(DeadLetterJob, alias)
    broken = waiting(alias, retry_plan="whenever")
    result = recalculate_due_date([timer, due, dead, broken], using=alias)
    assert not result.changed
    assert result.skipped[timer.pk] == "it waits for its first run at an explicit date: set a due date instead"
    assert result.skipped[due.pk] == "not possible for a job that is executable"
    assert result.skipped[dead.pk] == "not possible for a job that is dead letter"
    assert result.skipped[broken.pk].startswith("its retry plan is broken: Invalid retry plan 'whenever'")
    assert reload(alias, broken).due_date == NOW + HOUR


def test_from_where(alias):
    with pytest.raises(InvalidJob, match="from_creation: expected True or False, got 1"):
        recalculate_due_date(waiting(alias), from_creation=1, using=alias)
