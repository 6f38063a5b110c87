"""Announce on the broker, after commit, which jobs have become executable. Not used if DISPATCH is "database".

Code that makes rows of the executable table acquirable reports them here, in the same transaction. At the commit they
are passed to the publisher, which has a thread of its own: no caller waits for the broker, and none sees an error. The
slow poll of the nodes finds jobs whose announcement is lost.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TypeAlias
from uuid import UUID

from django.db import connections
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.models import F, QuerySet

from jobexec.broker.message import Announcement, level_of
from jobexec.broker.publisher import publisher
from jobexec.conf import get_settings
from jobexec.models import Job

from ..sql.on_commit import Once, after_commit
from ..sql.serial_key import of_instances
from ..values.inserted_rows import CreatedJobs, NewJob

logger = logging.getLogger("jobexec.dispatch")

_PAGE = 500
#: Rows read per query to find the first jobs of unlocked process instances.
_SIBLINGS = 1000

#: Category, deployment and class of priority.
Kind: TypeAlias = tuple[str, str, int]


def by_broker() -> bool:
    """Whether jobs are announced on a broker (setting DISPATCH)."""
    return get_settings().dispatch == "broker"


def announce_created(using: str, jobs: Sequence[NewJob], begin: int = 0) -> None:
    """Announce jobs, from ``begin`` on, that were just inserted as executable."""
    if not (jobs and by_broker()):
        return
    with _of_transaction(using) as waiting:
        if isinstance(jobs, CreatedJobs):
            waiting.add(_kind(jobs[0]), jobs.ids[begin:])  # all of the same kind
            return
        for job in jobs[begin:]:
            waiting.add(_kind(job), [job.pk])


def announce_ids(using: str, ids: Iterable[UUID]) -> None:
    """Announce jobs that have become acquirable; their other columns are read after the commit."""
    if by_broker():
        found = list(ids)
        if found:
            with _of_transaction(using) as waiting:
                waiting.ids += found


def announce_instances(using: str, instances: Collection[str]) -> None:
    """Announce process instances that were unlocked: one of their exclusive jobs may run next."""
    if instances and by_broker():
        with _of_transaction(using) as waiting:
            waiting.instances.update(instances)


class _Dispatch:
    """The announcements of one transaction."""

    def __init__(self, using: str) -> None:
        self._using = using
        self._known: dict[Kind, list[UUID]] = {}
        self.ids: list[UUID] = []
        self.instances: set[str] = set()

    def add(self, kind: Kind, ids: Iterable[UUID]) -> None:
        self._known.setdefault(kind, []).extend(ids)

    def __call__(self) -> None:
        using = self._using
        try:
            # After the commit and not before: a job that is inserted in the meantime finds the instance locked.
            for kind, id in (*_of_ids(using, self.ids), *_first_of(using, self.instances)):
                self.add(kind, [id])
        except Exception:  # everything is committed; the caller must not see an error
            logger.warning("Jobs on %s could not be announced; nodes will find them by polling", using, exc_info=True)
        publisher().announce(Announcement(using, *kind, ids) for kind, ids in self._known.items())


_once = Once(_Dispatch)


@contextmanager
def _of_transaction(using: str) -> Iterator[_Dispatch]:
    """The current transaction's announcements, to add to. Outside a transaction they are sent when the block ends."""
    connection: BaseDatabaseWrapper = connections[using]
    waiting = _once.waiting(connection)
    if waiting is not None:
        yield waiting
        return
    waiting = _Dispatch(using)
    yield waiting
    after_commit(connection, waiting)


def _kind(job: NewJob) -> Kind:
    return job.category, job.deployment_id, level_of(job.priority)


def _of_ids(using: str, ids: Sequence[UUID]) -> Iterator[tuple[Kind, UUID]]:
    for start in range(0, len(ids), _PAGE):
        page = ids[start : start + _PAGE]
        rows = Job.objects.using(using).filter(pk__in=page, lock_owner=None)
        for pk, category, deployment, priority in rows.values_list("pk", "category", "deployment_id", "priority"):
            yield (category, deployment, level_of(priority)), pk


def _first_of(using: str, instances: Collection[str]) -> Iterator[tuple[Kind, UUID]]:
    """Yield the first job of each process instance per category and deployment: acquisition adds its siblings.

    Includes locked jobs: an acquisition may lock a job for the moment in which it finds that it cannot have it.
    """
    left = set(instances)
    while left:
        seen: set[tuple[str, str, str]] = set()
        rows = list(_siblings(using, left)[:_SIBLINGS])
        for instance, pk, category, deployment, priority in rows:
            if (instance, category, deployment) not in seen:
                seen.add((instance, category, deployment))
                yield (category, deployment, level_of(priority)), pk
        left -= {instance for instance, _, _ in seen}
        if len(rows) < _SIBLINGS:
            return


def _siblings(using: str, instances: Collection[str]) -> QuerySet[Job, tuple[str, UUID, str, str, int]]:
    rows = of_instances(Job.objects.using(using), instances).order_by("rank", "id")
    return rows.values_list(F("key"), "pk", "category", "deployment_id", "priority")
