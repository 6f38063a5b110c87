"""Creating jobs: which table, which columns, what is refused, what is rolled back with the caller."""

from datetime import UTC, datetime, timedelta

import pytest
from django.db import IntegrityError, connections, transaction

from jobexec import signals
from jobexec.exceptions import InvalidJob, InvalidSettings
from jobexec.models import Job, JobLog, TimerJob
from jobexec.operations import create_job, create_jobs
from jobexec.operations.values.ranking import MAX_PRIORITY, rank
from tests.support.factories import HANDLER, make_job

pytestmark = [pytest.mark.every_database, pytest.mark.smoke]

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)


def test_a_job_is_executable_at_once(alias):
    row = make_job(alias, process_instance_id="order-1", handler_configuration={"args": [1, "ä"], "kwargs": {}})
    stored = Job.objects.using(alias).get()
    assert stored.pk == row.pk
    assert (stored.revision, stored.type, stored.retries, stored.attempts) == (1, "message", 3, 0)
    assert (stored.lock_owner, stored.create_time, stored.due_date) == (None, NOW, None)
    assert stored.rank == rank(alias, NOW, 0)
    assert stored.handler_configuration == {"args": [1, "ä"], "kwargs": {}}
    assert stored.job_definition_id == HANDLER


@pytest.mark.parametrize("seconds", [-3600, 0])
def test_a_due_date_that_has_come_makes_an_executable_job(alias, seconds):
    due = NOW + timedelta(seconds=seconds)
    assert make_job(alias, due_date=due).rank == rank(alias, due, 0)
    assert Job.objects.using(alias).get().due_date == due


def test_a_due_date_ahead_makes_a_timer(alias):
    row = make_job(alias, due_date=NOW + timedelta(milliseconds=1))
    assert (type(row), row.type, row.create_time) == (TimerJob, "timer", NOW)
    assert not Job.objects.using(alias).exists()
    assert TimerJob.objects.using(alias).get().pk == row.pk


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"due_date": datetime(2026, 1, 1)}, "due_date: expected a datetime with a time zone, got the naive"),
        ({"due_date": "tomorrow"}, "due_date: expected an aware datetime, got 'tomorrow'"),
        ({"category": "mail"}, "category: expected one of default .* got 'mail'"),
        ({"lock_owner": "me"}, "Unknown job columns: lock_owner"),
        ({"colour": 1, "size": 2}, "Unknown job columns: colour, size"),
        ({"priority": MAX_PRIORITY + 1}, "priority: expected a number from -1000000 to 1000000, got 1000001"),
        ({"priority": MAX_PRIORITY + 1, "due_date": NOW + timedelta(days=1)}, "priority: expected"),
        ({"priority": "high"}, "priority: expected a number"),
    ],
)
def test_what_is_refused_inserts_nothing(alias, columns, message):
    with pytest.raises(InvalidJob, match=message):
        make_job(alias, **columns)
    with pytest.raises(InvalidJob, match=message):
        create_jobs(alias, [{"handler_type": HANDLER}, {"handler_type": HANDLER, **columns}])
    assert not Job.objects.using(alias).exists()
    assert not TimerJob.objects.using(alias).exists()


def test_an_id_that_is_taken_is_refused_and_the_row_stays(alias):
    row = make_job(alias, priority=3)
    with pytest.raises(IntegrityError), transaction.atomic(alias):
        make_job(alias, id=row.pk, priority=9)
    assert Job.objects.using(alias).get().priority == 3


def test_a_database_that_is_no_engine_is_refused(alias, settings):
    others = [name for name in connections if name != alias]
    if not others:
        pytest.skip("needs two databases")
    settings.JOBEXEC = {"ENGINES": {others[0]: {}}}
    with pytest.raises(InvalidSettings, match="is not a job engine"):
        create_job(alias, handler_type=HANDLER)


def test_many_jobs_come_back_in_order_and_in_both_tables(alias):
    later = NOW + timedelta(days=1)
    columns = [{"priority": number, "due_date": later if number % 2 else None} for number in range(7)]
    rows = create_jobs(alias, [{"handler_type": HANDLER, **one} for one in columns])
    assert [row.priority for row in rows] == list(range(7))
    assert sorted(Job.objects.using(alias).values_list("priority", flat=True)) == [0, 2, 4, 6]
    assert sorted(TimerJob.objects.using(alias).values_list("priority", flat=True)) == [1, 3, 5]
    assert [row.pk for row in rows] == sorted(row.pk for row in rows)
    assert create_jobs(alias, []) == []


@pytest.mark.transactional
def test_a_job_is_rolled_back_with_its_caller(alias):
    with pytest.raises(ZeroDivisionError), transaction.atomic(alias):
        make_job(alias)
        create_jobs(alias, [{"handler_type": HANDLER}])
        raise ZeroDivisionError
    assert not Job.objects.using(alias).exists()


def test_the_deployment_of_this_process_is_the_default(alias, configure):
    configure(DEPLOYMENT="shop:7")
    assert make_job(alias).deployment_id == "shop:7"
    assert make_job(alias, deployment_id="").deployment_id == ""


@pytest.mark.parametrize(("level", "logged"), [("none", 0), ("failures", 0), ("activity", 0), ("full", 3)])
def test_creation_is_logged_at_level_full(alias, configure, level, logged):
    configure(HISTORY_LEVEL=level)
    row = make_job(alias)
    create_jobs(alias, [{"handler_type": HANDLER}, {"handler_type": HANDLER, "due_date": NOW + timedelta(days=1)}])
    assert JobLog.objects.using(alias).filter(state="created").count() == logged
    if logged:
        entry = JobLog.objects.using(alias).get(job_id=row.pk)
        assert (entry.handler_type, entry.retries, entry.attempt, entry.timestamp) == (HANDLER, 3, 0, NOW)


@pytest.mark.transactional
def test_creation_is_announced_after_the_commit_and_only_then(alias):
    heard = []

    def receiver(sender, using, jobs, **kwargs):
        heard.append((sender, using, [job.pk for job in jobs]))
        raise ValueError("a receiver's error is logged and changes nothing")

    signals.job_created.connect(receiver)
    try:
        with transaction.atomic(alias):
            row = make_job(alias)
            assert heard == []
        assert heard == [(Job, alias, [row.pk])]
        with pytest.raises(ZeroDivisionError), transaction.atomic(alias):
            make_job(alias)
            raise ZeroDivisionError
        assert len(heard) == 1
        rows = create_jobs(alias, [{"handler_type": HANDLER}] * 2)
        assert heard[1:] == [(Job, alias, [row.pk for row in rows])]
    finally:
        signals.job_created.disconnect(receiver)
