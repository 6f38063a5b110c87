"""A job whose arguments are long asks for them when it begins, and loses nothing if it cannot have them."""

import random
import string

import pytest
from django.db import OperationalError, connections

from jobexec.executor.run.execution import execute_batch
from jobexec.models import Job
from tests.support.executor import Host
from tests.support.factories import acquire, make_job

pytestmark = pytest.mark.transactional

LONG = "".join(random.Random(1).choices(string.ascii_letters, k=60_000))


@pytest.fixture
def seen(handle):
    """What the handler was called with."""
    seen = []
    handle(seen.append, name="tests.see")
    return seen


@pytest.fixture
def job(alias, seen):
    """The job, acquired."""
    make_job(alias, handler_type="tests.see", handler_configuration={"args": [LONG], "kwargs": {}})
    (job,) = acquire(alias)
    assert job.configuration is None
    return job


def test_its_thread_asks_for_them(alias, seen, job):
    execute_batch([job], Host())
    assert seen == [LONG]
    assert not Job.objects.using(alias).exists()


def test_while_the_database_is_away_it_is_given_back_at_no_cost(alias, seen, job):
    def away(execute, sql, params, many, context):
        if away.left and "handler_configuration" in sql:
            away.left -= 1
            raise OperationalError("away")
        return execute(sql, params, many, context)

    away.left = 1
    host = Host()
    with connections[alias].execute_wrapper(away):
        execute_batch([job], host)
    assert away.left == 0
    assert seen == []
    row = Job.objects.using(alias).get()
    assert (row.lock_owner, row.retries, row.attempts, row.lost_runs) == (None, job.retries, 0, 0)
    execute_batch(acquire(alias), Host())
    assert seen == [LONG]


def test_who_has_lost_its_lock_does_not_run_and_changes_nothing(alias, seen, job):
    Job.objects.using(alias).update(lock_owner="two", revision=9)
    host = Host()
    execute_batch([job], host)
    assert seen == []
    assert [outcome.counted for outcome in host.outcomes] == [False]
    row = Job.objects.using(alias).get()
    assert (row.lock_owner, row.revision, row.retries) == ("two", 9, job.retries)
