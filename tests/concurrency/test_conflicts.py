"""What the database refuses because of somebody else: a wait that takes too long, a snapshot that is too old."""

import pytest
from django.db import OperationalError, connections, transaction

from jobexec.models import Job
from jobexec.operations import complete_jobs, fail_job, set_priority
from jobexec.operations.sql.errors import is_conflict
from tests.support.factories import a_failure, a_run, acquire, make_job, work
from tests.support.threads import finish, held, start

pytestmark = pytest.mark.transactional
servers = pytest.mark.databases("postgresql", "mariadb")

_PATIENCE = {"postgresql": "SET lock_timeout = '100ms'", "mysql": "SET SESSION innodb_lock_wait_timeout = 1"}


def impatient(alias, function):
    """The function in a thread whose connection does not wait long for a row."""

    def call():
        with connections[alias].cursor() as cursor:
            cursor.execute(_PATIENCE[connections[alias].vendor])
        return function()

    return start(alias, call)


@servers
def test_a_change_that_waits_too_long_is_skipped_with_the_reason(alias):
    row, other = make_job(alias), make_job(alias)
    with held(alias) as inside:
        inside(lambda: acquire(alias, "one", 1))
        result = finish(impatient(alias, lambda: set_priority([row.pk, other.pk], 5, using=alias)))
    assert result.changed == [other.pk]
    assert "the database refused" in result.skipped[row.pk]
    assert Job.objects.using(alias).get(pk=row.pk).priority == 0


@servers
@pytest.mark.parametrize("outcome", ["complete", "fail"])
def test_an_outcome_that_waits_too_long_is_a_conflict_and_counts_when_it_is_tried_again(alias, outcome):
    job = work(alias)
    settle = {
        "complete": lambda: complete_jobs(alias, [(job, a_run(alias))]),
        "fail": lambda: fail_job(alias, job, a_failure(), a_run(alias)),
    }[outcome]
    with held(alias) as inside:
        inside(lambda: set_priority(job.id, 5, using=alias))
        with pytest.raises(OperationalError) as refused:
            finish(impatient(alias, settle))
    assert is_conflict(refused.value)
    assert settle()
    assert not Job.objects.using(alias).exists()


@pytest.mark.databases("postgresql")
def test_a_snapshot_that_is_too_old_is_a_conflict(alias):
    """Nothing demands READ COMMITTED: under REPEATABLE READ the loser is refused, and that is a conflict."""
    job = work(alias)
    before = Job.objects.using(alias).values_list("priority", flat=True)

    def settle_late(look):
        with transaction.atomic(alias):
            with connections[alias].cursor() as cursor:
                cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
            look()
            return complete_jobs(alias, [(job, a_run(alias))])

    def look():
        assert list(before) == [0]
        finish(start(alias, lambda: set_priority(job.id, 5, using=alias)))

    with pytest.raises(OperationalError) as refused:
        finish(start(alias, lambda: settle_late(look)))
    assert is_conflict(refused.value)
    assert complete_jobs(alias, [(job, a_run(alias))]) == {job.id}
