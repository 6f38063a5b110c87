"""Batches: a job of a batch that is killed on any line has done all of its work, or nothing of it."""

from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest
from django.db import transaction

from jobexec.identifiers import uuid7
from jobexec.models import (
    JOB_TABLES,
    Batch,
    BatchFailure,
    BatchPart,
    DeadLetterJob,
    Job,
)
from jobexec.operations import (
    start_batch,
    trigger_due_timers,
)
from jobexec.operations.batches.jobs import EXECUTION, MONITOR, SEED
from tests.support.batches import dead, dead_letters, own_jobs
from tests.support.factories import make_row
from tests.support.machines.killed import Killed, killed_at

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)


def written(alias):
    tables = [*JOB_TABLES, Batch, BatchPart, BatchFailure]
    return [list(table._base_manager.using(alias).order_by("pk").values()) for table in tables]


@pytest.mark.slow
@pytest.mark.parametrize("way", ["conditions", "ids"])
def test_a_job_of_a_batch_that_is_killed_before_any_statement_leaves_all_as_it_was(alias, frozen, small, way):
    from jobexec.operations.batches import work

    rows = dead_letters(alias, 5)
    make_row(DeadLetterJob, alias, pk=uuid7(), died_at=NOW + timedelta(days=1))
    target = dead(alias).all() if way == "conditions" else [*rows, uuid7()]
    batch = start_batch("requeue", target, using=alias)
    kills = 0
    while own_jobs(alias, batch).exists():
        job = own_jobs(alias, batch).first()
        before, number, done = written(alias), 0, False
        while not done:
            number += 1
            try:
                with transaction.atomic(alias), killed_at(alias, number):
                    {
                        SEED: lambda job=job: work.seed(alias, batch.pk),
                        EXECUTION: lambda job=job: work.execute(
                            alias,
                            batch.pk,
                            job.pk,
                            [UUID(id) for id in job.handler_configuration["args"][1]],
                            job.handler_configuration["args"][2],
                        ),
                        MONITOR: lambda job=job: work.monitor(alias, batch.pk, 0),
                    }[job.handler_type]()
                    Job.objects.using(alias).filter(pk=job.pk).delete()
                    done = True
            except Killed:
                kills += 1
                assert written(alias) == before, f"after {number} statements of {job.handler_type}"
        if not own_jobs(alias, batch).exists():
            frozen.tick(400)
            trigger_due_timers(alias, 10)
    assert kills > 30
    batch.refresh_from_db()
    assert (batch.state, batch.changed, batch.skipped) == ("completed", 5, 0 if way == "conditions" else 1)
    assert set(Job.objects.using(alias).values_list("pk", "revision")) == {(row.pk, 2) for row in rows}
