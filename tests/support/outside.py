"""Short names to create, fetch and hold external jobs."""

from datetime import timedelta
from typing import Any

import jobexec
from jobexec import clock
from jobexec.models import ExternalWorker, ExternalWorkerJob
from jobexec.operations.external import ActivatedJob, Fetch, activate_jobs

MINUTE = timedelta(minutes=1)


def make_external(alias: str, type: str = "payment", **options: Any) -> Any:
    return jobexec.external_job(type, database=alias, **options)


def fetch(alias: str, type: str = "payment", worker: str = "w1", **values: Any) -> list[ActivatedJob]:
    """Return the jobs that a worker fetches."""
    return activate_jobs(alias, Fetch(type=type, worker=worker, **{"timeout": MINUTE, "max_jobs": 10, **values}))


def held_by_worker(alias: str, worker: str = "w1", **options: Any) -> ExternalWorkerJob:
    """Create a job that this worker holds for a minute."""
    job = make_external(alias, **options)
    assert job.pk in {each.id for each in fetch(alias, job.handler_type, worker)}
    return ExternalWorkerJob.objects.using(alias).get(pk=job.pk)


def missed_by_worker(alias: str, frozen: Any, **options: Any) -> ExternalWorkerJob:
    """Create a job whose worker has let its deadline pass."""
    job = held_by_worker(alias, **options)
    frozen.tick(MINUTE)
    return job


def seen(alias: str, type: str = "payment", worker: str = "w1", **columns: Any) -> ExternalWorker:
    """Record a worker that is asking for jobs of this type now."""
    values = {"gateway": "g", "protocol": "rest", "last_seen": clock.now(alias), **columns}
    return ExternalWorker.objects.using(alias).create(worker=worker, type=type, **values)
