"""Jobs on their way from the database to the threads: light values instead of model instances."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, ClassVar
from uuid import UUID

from django.db.models import Case, Expression, QuerySet, TextField, Value, When
from django.db.models.functions import Cast, Length
from django.db.models.lookups import LessThanOrEqual

from jobexec.exceptions import JobNotFound
from jobexec.models import Job
from jobexec.models.locks import serial_key

from ..sql.portable import Dialect
from .category_turns import Turns
from .followers import Followers
from .tenant_room import TenantRoom

#: A job with at least this number of lost runs runs alone in its process; if that run is lost too, the job killed it.
ALONE_FROM = 2

#: Arguments whose JSON is longer (in characters) stay in the database until their thread needs them: a page of jobs
#: with a megabyte each must not take a gigabyte of memory.
LONG = 16_384


@dataclass(slots=True)
class AcquiredJob:
    """A job with the columns that its thread needs, locked by ``lock_owner`` at ``revision``.

    ``configuration`` is the JSON text of ``handler_configuration``, None if it is long, see :meth:`arguments`. The
    thread that runs the job decodes it, so that a broken row does not affect other jobs. :meth:`load` fetches the whole
    row on demand.
    """

    COLUMNS: ClassVar[tuple[str, ...]] = (
        "id",
        "revision",
        "handler_type",
        "exclusive",
        "process_instance_id",
        "category",
        "retries",
        "attempts",
        "lost_runs",
        "atomic",
        "timeout",
        "rank",
        "priority",
        "suspend_requested",
        "cancel_requested",
        "tenant_id",
        "expires_at",
        "resource",
        "message",
        "batch_id",
    )

    using: str
    lock_owner: str
    id: UUID
    revision: int
    handler_type: str
    exclusive: bool
    process_instance_id: str
    category: str
    retries: int
    attempts: int
    lost_runs: int
    atomic: bool
    timeout: timedelta | None
    rank: int
    priority: int
    suspend_requested: bool
    cancel_requested: bool
    tenant_id: str
    expires_at: datetime | None
    resource: str | None
    message: str | None
    batch_id: UUID | None
    configuration: str | None
    #: Only in a wide scope, see :class:`ServedJobs`; None if it was not fetched.
    traceparent: str | None = None
    #: The share of the named acquisition that has acquired the job; '' is the engine's only one.
    acquired_by: str = ""
    #: The jobs that its run enqueues and keeps, see :class:`Followers`; never None if it is one of those itself.
    followers: Followers | None = None
    #: Whether its run has ended, and keeps no more jobs.
    ended: bool = False
    #: Whether it was found that its run cannot share a transaction with others.
    alone: bool = False
    #: What its handler has looked up for several jobs at once, or who made the job has known, and when, by the
    #: monotonic clock.
    ahead: tuple[float, Any] | None = None
    #: The error of its run that something else has taken care of: the run has failed, and the job is over.
    handled: BaseException | None = None

    def held(self) -> QuerySet[Job]:
        """The row, as long as this acquisition holds it."""
        rows = Job._base_manager.using(self.using)
        return rows.filter(pk=self.id, lock_owner=self.lock_owner, revision=self.revision)

    def load(self) -> Job:
        """Fetch the whole row. Raises :class:`JobNotFound` if it is no longer locked by this acquisition."""
        row = self.held().first()
        if row is None:
            raise self._not_ours()
        return row

    def arguments(self) -> str:
        """Return the JSON text of ``handler_configuration``, fetched now if it is long. Raises :class:`JobNotFound`."""
        if self.configuration is not None:
            return self.configuration
        text: str | None = self.held().values_list(_TEXT, flat=True).first()
        if text is None:
            raise self._not_ours()
        return text

    def _not_ours(self) -> JobNotFound:
        return JobNotFound(f"Job {self.id} is no longer locked by this executor.")

    @property
    def share(self) -> str:
        """The share of the pool in which the job takes a place."""
        return self.acquired_by or self.using

    @property
    def serial_key(self) -> str:
        """The key shared by jobs that must not run at the same time; '' if the job may run alongside any other."""
        exclusive = self.exclusive and self.process_instance_id
        return serial_key(self.tenant_id, self.process_instance_id) if exclusive else ""


_TEXT = Cast("handler_configuration", TextField())


def short_configuration(length: int) -> Expression:
    """The JSON text of ``handler_configuration``; None if it has more characters."""
    return Case(When(LessThanOrEqual(Length(_TEXT), length), then=_TEXT), default=Value(None))


_SHORT = short_configuration(LONG)

#: The additional columns of a page in a wide scope, after all others.
WIDE = ("traceparent",)


def columns(wide: bool = False) -> tuple[str | Expression, ...]:
    """Return the arguments of ``values_list`` for :func:`from_row`; JSON stays text, and long JSON becomes None."""
    return (*AcquiredJob.COLUMNS, _SHORT, *(WIDE if wide else ()))


def columns_sql(spelled: Dialect, wide: bool = False) -> str:
    """Return :func:`columns` as SQL, for databases whose dialect spells short JSON."""
    configuration = spelled.short_json("handler_configuration", LONG)
    names = map(spelled.quoted, AcquiredJob.COLUMNS)
    return ", ".join((*names, configuration, *(WIDE if wide else ())))


def from_row(row: tuple[Any, ...], using: str, owner: str) -> AcquiredJob:
    """Build the job from a row selected with :func:`columns`, as it was before locking."""
    return AcquiredJob(using, owner, *row)


def in_order(job: AcquiredJob) -> tuple[int, int]:
    """Sort key: the acquisition order within a category."""
    return job.rank, job.id.int


def batches(jobs: Iterable[AcquiredJob]) -> list[list[AcquiredJob]]:
    """Group jobs for threads: exclusive siblings form one batch in rank order, every other job its own batch."""
    result: list[list[AcquiredJob]] = []
    by_key: dict[str, list[AcquiredJob]] = {}
    for job in jobs:
        key = job.serial_key
        if key and key in by_key:
            by_key[key].append(job)
            continue
        batch = [job]
        result.append(batch)
        if key:
            by_key[key] = batch
    return result


@dataclass(frozen=True, slots=True)
class ServedJobs:
    """The jobs that an executor serves.

    ``deployments`` are the deployment ids whose jobs it takes besides those of no deployment. The bounds of
    ``priority`` are inclusive; None is open. ``category_order`` defines how categories share a page: by ``rank`` as if
    they were one; ``strict``, each only when those before it have no job; or ``weighted``, by ``turns``. With ``wide``
    its pages include the trace contexts of the jobs, which most nodes do not use. ``tenants`` limits the number of jobs
    acquired for each tenant; None means no limits.
    """

    categories: tuple[str, ...] = ("default",)
    deployments: tuple[str, ...] = ()
    priority_min: int | None = None
    priority_max: int | None = None
    category_order: str = "rank"
    turns: Turns | None = field(default=None, compare=False)
    wide: bool = False
    tenants: TenantRoom | None = field(default=None, compare=False)

    def pairs(self) -> list[tuple[str, str]]:
        """Return the (category, deployment) pairs served; each is one contiguous run of the acquisition index."""
        return [(category, deployment) for category in self.categories for deployment in ("", *self.deployments)]


@dataclass(slots=True)
class Acquisition:
    """The result of one call of ``acquire_jobs``.

    ``found`` jobs were found; of these ``lock_failures`` went to other nodes, ``suspended`` were covered by a
    suspension and ``blocked`` belong to locked process instances. ``lock_taken``: another node holds the global lock.
    ``in_doubt``: other jobs than ``jobs`` may be locked for the owner, as a row was unreadable after a first commit.
    """

    jobs: list[AcquiredJob] = field(default_factory=list)
    found: int = 0
    lock_failures: int = 0
    lock_taken: bool = False
    suspended: int = 0
    blocked: int = 0
    in_doubt: bool = False
