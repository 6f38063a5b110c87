"""A batch whose executor is killed: what was done counts once, what was not is done by the next."""

import signal

import pytest

from jobexec.models import JOB_TABLES, Batch, BatchFailure, BatchPart, DeadLetterJob, Job
from jobexec.operations import batch_progress, start_batch
from tests.support.batches import dead_letters
from tests.support.machines.processes import SHORT_LEASE
from tests.support.waiting import until

pytestmark = [pytest.mark.transactional, pytest.mark.slow]
COUNT = 4000


@pytest.mark.databases("postgresql", "mariadb")
@pytest.mark.nightly
def test_kill_9_in_the_middle_of_a_batch(alias, run):
    keys = {"CATEGORIES": ["default", "mail"], "INVOCATIONS_PER_BATCH_JOB": 10, "BATCH_JOBS_PER_SEED": 20}
    keys |= {"BATCH_POLL_TIME": 0.2}
    rows = dead_letters(alias, COUNT, category="mail")
    batch = start_batch("requeue", DeadLetterJob.objects.using(alias).all(), arguments={"retries": 7}, using=alias)
    seen = []
    for number in range(3):
        executor = run("--node", f"node-{number}", "--category", "default", **keys, **SHORT_LEASE).started()
        before = seen[-1] if seen else 0
        until(lambda before=before: batch_progress(batch).changed > before + 100)
        executor.send(signal.SIGKILL)
        executor.ended()
        seen.append(batch_progress(batch).changed)
    assert seen[-1] < COUNT, "killed before the end, each time"
    last = run("--node", "last", "--category", "default", **keys, **SHORT_LEASE).started()
    until(lambda: Batch.objects.using(alias).get().over)
    last.send(signal.SIGTERM)
    assert last.ended() == 0, last.text
    batch.refresh_from_db()
    assert (batch.state, batch.total, batch.changed, batch.skipped) == ("completed", COUNT, COUNT, 0)
    # Whoever requeues one twice finds it gone from the dead letters, and would have left a word here.
    assert not BatchFailure.objects.using(alias).exists() and not BatchPart.objects.using(alias).exists()
    requeued = Job.objects.using(alias).filter(category="mail")
    assert set(requeued.values_list("pk", "retries", "revision")) == {(row.pk, 7, 2) for row in rows}
    assert sum(table._base_manager.using(alias).count() for table in JOB_TABLES) == COUNT
