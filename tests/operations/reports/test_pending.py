"""What an executor has still to do, whatever moves while it is looked up."""

from datetime import timedelta

import pytest
from django.db import connections

from jobexec import clock
from jobexec.models import Job, TimerJob
from jobexec.operations import trigger_due_timers
from jobexec.operations.reports.pending import pending
from jobexec.operations.values.acquired_job import ServedJobs
from tests.support.factories import make_row

pytestmark = pytest.mark.every_database
SCOPES = [ServedJobs(categories=("default",))]


def test_a_retry_that_becomes_due_between_two_statements_is_seen(alias, frozen):
    make_row(TimerJob, alias, attempts=1, due_date=clock.now(alias) + timedelta(milliseconds=1))
    began = []

    def move_it_after_the_first(execute, *arguments):
        result = execute(*arguments)
        if not began:
            began.append(1)
            frozen.tick(1)
            assert trigger_due_timers(alias, 10) == 1
        return result

    with connections[alias].execute_wrapper(move_it_after_the_first):
        found = pending(alias, SCOPES)
    assert Job.objects.using(alias).exists()
    assert not found.empty
    Job.objects.using(alias).all().delete()
    assert pending(alias, SCOPES).empty


@pytest.mark.parametrize("tried", [{"attempts": 1}, {"snoozes": 1}], ids=str)
def test_a_job_that_has_run_waits_for_no_first_run(alias, tried):
    later = clock.now(alias) + timedelta(hours=1)
    make_row(TimerJob, alias, due_date=later)
    make_row(TimerJob, alias, due_date=later, **tried)
    found = pending(alias, SCOPES)
    assert (found.empty, found.retries, found.timers) == (False, True, 1)
