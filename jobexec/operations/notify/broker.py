"""Announce on the broker, after commit, which jobs have become executable. Nothing of it if DISPATCH is "database".

Whoever makes rows of the executable table acquirable tells here which, in the transaction that does it. At the commit
that is handed to the publisher, which has a thread of its own: no caller waits for the broker, and none sees an error.
What is lost on the way is found by the slow poll of the nodes.
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
from jobexec.models import Job, TimerJob

from ..sql.on_commit import Once
from ..sql.serial_key import of_instances
from ..values.inserted_rows import CreatedJobs

logger = logging.getLogger("jobexec.dispatch")

_PAGE = 500
#: Rows that are read to find the first ones of process instances that were freed.
_SIBLINGS = 1000

#: Category, deployment and class of priority.
Kind: TypeAlias = tuple[str, str, int]


def by_broker() -> bool:
    """Whether jobs are announced on a broker (setting DISPATCH)."""
    return get_settings().dispatch == "broker"


def announce_created(using: str, jobs: Sequence[Job | TimerJob]) -> None:
    """These were just inserted as executable jobs."""
    if not (jobs and by_broker()):
        return
    with _of_transaction(using) as waiting:
        if isinstance(jobs, CreatedJobs):
            waiting.add(_kind(jobs[0]), jobs.ids)  # they are alike
            return
        for job in jobs:
            waiting.add(_kind(job), [job.pk])


def announce_ids(using: str, ids: Iterable[UUID]) -> None:
    """These have become acquirable; what else is to be said of them is asked after the commit."""
    if by_broker():
        found = list(ids)
        if found:
            with _of_transaction(using) as waiting:
                waiting.ids += found


def announce_instances(using: str, instances: Collection[str]) -> None:
    """The locks of these process instances were given up: one of their exclusive jobs may come next."""
    if instances and by_broker():
        with _of_transaction(using) as waiting:
            waiting.instances.update(instances)


class _Dispatch:
    """What one transaction has to say."""

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
            # After the commit, and not before: a job that is inserted meanwhile finds the instance locked.
            for kind, id in (*_of_ids(using, self.ids), *_first_of(using, self.instances)):
                self.add(kind, [id])
        except Exception:  # all is committed; whoever did it must not see an error
            logger.warning("Jobs on %s could not be announced; nodes will find them by polling", using, exc_info=True)
        publisher().announce(Announcement(using, *kind, ids) for kind, ids in self._known.items())


_once = Once(_Dispatch)


@contextmanager
def _of_transaction(using: str) -> Iterator[_Dispatch]:
    """What the current transaction has to say, to be added to. Outside of one that is said when the block ends."""
    connection: BaseDatabaseWrapper = connections[using]
    waiting = _once.waiting(connection)
    if waiting is not None:
        yield waiting
        return
    waiting = _Dispatch(using)
    yield waiting
    connection.on_commit(waiting, robust=True)


def _kind(job: Job | TimerJob) -> Kind:
    return job.category, job.deployment_id, level_of(job.priority)


def _of_ids(using: str, ids: Sequence[UUID]) -> Iterator[tuple[Kind, UUID]]:
    for start in range(0, len(ids), _PAGE):
        page = ids[start : start + _PAGE]
        rows = Job.objects.using(using).filter(pk__in=page, lock_owner=None)
        for pk, category, deployment, priority in rows.values_list("pk", "category", "deployment_id", "priority"):
            yield (category, deployment, level_of(priority)), pk


def _first_of(using: str, instances: Collection[str]) -> Iterator[tuple[Kind, UUID]]:
    """The first job of each process instance in each category and deployment: acquisition brings its siblings along.

    Locked ones, too: an acquirer may hold one for the moment in which it sees that it cannot have it.
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
