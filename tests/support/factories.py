"""Create rows for tests, with operations where one exists, and short names for common steps."""

from datetime import timedelta
from typing import Any

import jobexec
from jobexec import clock
from jobexec.conf import get_settings
from jobexec.models import JOB_TABLES, AbstractJob, Job
from jobexec.operations import acquire_jobs, create_job
from jobexec.operations.external import ActivatedJob, Fetch, activate_jobs
from jobexec.operations.nodes.leases import NodeProfile, register_node
from jobexec.operations.targets.lookup import find_states
from jobexec.operations.values.acquired_job import AcquiredJob, ServedJobs
from jobexec.operations.values.failure import Failure
from jobexec.operations.values.run import Run

LOCK_TIME = timedelta(minutes=5)
LEASE_TIME = timedelta(seconds=30)
HANDLER = "tests.do_nothing"


def make_job(alias: str, **columns: Any) -> Any:
    """Create a job with `create_job`: a Job, or a TimerJob if `due_date` lies in the future."""
    columns.setdefault("handler_type", HANDLER)
    columns.setdefault("handler_configuration", {"args": [], "kwargs": {}})
    return create_job(alias, **columns)


def make_row(table: type[AbstractJob], alias: str, **columns: Any) -> Any:
    """Insert a row into any job table as it is."""
    columns.setdefault("handler_type", HANDLER)
    return table._base_manager.using(alias).create(**columns)


def acquire(
    alias: str, owner: str = "one", limit: int = 100, *, strategy: str = "auto", **scope: Any
) -> list[AcquiredJob]:
    """Return the jobs that one call of `acquire_jobs` locks."""
    served = ServedJobs(**{"categories": get_settings().categories, **scope})
    return acquire_jobs(alias, owner, limit, served, lock_time=LOCK_TIME, strategy=strategy).jobs


def work(alias: str, owner: str = "one", **columns: Any) -> AcquiredJob:
    """Create a job and acquire it for `owner`."""
    row = make_job(alias, **columns)
    return next(job for job in acquire(alias, owner) if job.id == row.pk)


def make_external(alias: str, type: str = "payment", **options: Any) -> Any:
    """Create an external job with `external_job`."""
    return jobexec.external_job(type, database=alias, **options)


def fetch(alias: str, type: str = "payment", worker: str = "one", **values: Any) -> list[ActivatedJob]:
    """Return the jobs that a worker fetches."""
    asked: dict[str, Any] = {"timeout": timedelta(minutes=1), "max_jobs": 100} | values
    return activate_jobs(alias, Fetch(type=type, worker=worker, **asked))


def in_hands(alias: str, type: str = "payment", worker: str = "one", lease: bool = False, **options: Any) -> Any:
    """Create an external job and fetch it for `worker`."""
    row = make_external(alias, type, **options)
    return next(job for job in fetch(alias, type, worker, with_lease=lease) if job.id == row.pk)


def a_run(alias: str, duration: float = 1.0) -> Run:
    """Return a run that has just ended on a node called "node"."""
    return Run(clock.now(alias) - timedelta(seconds=duration), duration, "node")


def a_failure(message: str = "ValueError: no", **values: Any) -> Failure:
    return Failure(message, **{"stack": "Traceback ...", **values})


def make_node(alias: str, name: str = "node", lease_time: timedelta = LEASE_TIME) -> Any:
    return register_node(alias, NodeProfile(name), lease_time)


def table_of(alias: str, id: Any) -> type[AbstractJob] | None:
    """Return the table of the job; None if it is in none."""
    return find_states([getattr(id, "id", id)], alias).get(getattr(id, "id", id))


def tables_of(alias: str) -> dict[Any, list[type[AbstractJob]]]:
    """Map the id of each job to the tables that contain it."""
    found: dict[Any, list[type[AbstractJob]]] = {}
    for table in JOB_TABLES:
        for pk in table._base_manager.using(alias).values_list("pk", flat=True):
            found.setdefault(pk, []).append(table)
    return found


def reload(alias: str, row: Any) -> Any:
    """Return the current row of a job, from whichever table it is in."""
    table = table_of(alias, row)
    assert table is not None
    return table._base_manager.using(alias).get(pk=row.id)


def locked_ids(alias: str) -> set[Any]:
    return set(Job.objects.using(alias).exclude(lock_owner=None).values_list("pk", flat=True))
