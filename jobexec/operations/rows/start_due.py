"""Move jobs on that may go on now, or to the suspended jobs if a suspension covers them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias
from uuid import UUID

from jobexec import clock
from jobexec.models import AbstractJob, BlockedJob, ExternalWorkerJob, Job, SuspendedJob

from ..notify.broker import announce_ids
from ..notify.wake import wake_for_resources, wake_on_commit
from ..notify.wake_workers import wake_workers_on_commit
from . import move_statement
from .move import move_all
from .suspension_cover import Suspensions, covered_rows

#: The columns of a row that decide; the rest need not be loaded.
COLUMNS = ("pk", "suspend_requested", "resource", "job_key", "handler_type")
Found: TypeAlias = tuple[UUID, bool, str | None, int | None, str]


@dataclass(frozen=True, slots=True)
class Kept:
    """Jobs that get a lock as they move, with its columns: the node that moves them runs them.

    Those that a suspension covers are removed from ``ids``, as they move elsewhere.
    """

    ids: set[UUID]
    lock: Mapping[str, Any]


_NONE = Kept(set(), {})


def start_due(
    using: str, source: type[AbstractJob], found: Sequence[Found], *, permitted: bool, kept: Kept = _NONE
) -> int:
    """Move rows that the caller has locked; return how many moved.

    ``found`` has the :data:`COLUMNS` of each. ``permitted``: they have a permit of their resource; otherwise those that
    have a resource move to where jobs wait for one. Jobs that are ``kept`` wake no executor.
    """
    if not found:
        return 0
    ids = [pk for pk, *_ in found]
    maybe_covered = any(requested for _, requested, *_ in found) or bool(Suspensions.of(using, ids))
    if maybe_covered or not move_statement.is_possible(using):
        return _start(using, list(source._base_manager.using(using).filter(pk__in=ids)), permitted, kept)
    for to in (Job, BlockedJob, ExternalWorkerJob):
        those = [each for each in found if _target(each[2], each[3], permitted) is to]
        stay = {pk for pk, *_ in those if pk in kept.ids}
        move_statement.transfer(using, source, to, stay, kept.lock)
        go = [each for each in those if each[0] not in stay]
        move_statement.transfer(using, source, to, [pk for pk, *_ in go])
        _wake(using, to, go)
    return len(found)


def _target(resource: str | None, job_key: int | None, permitted: bool) -> type[AbstractJob]:
    if resource is not None and not permitted:
        return BlockedJob
    return Job if job_key is None else ExternalWorkerJob


def _start(using: str, rows: list[AbstractJob], permitted: bool, kept: Kept) -> int:
    """The form that defines what moving them means."""
    covered = covered_rows(using, rows)
    held = {row.pk for row in covered}
    kept.ids.difference_update(held)
    left = [row for row in rows if row.pk not in held]
    count = len(move_all(covered, SuspendedJob, suspended_at=clock.now(using)))
    for to in (Job, BlockedJob, ExternalWorkerJob):
        those = [row for row in left if _target(row.resource, row.job_key, permitted) is to]
        stay = move_all([row for row in those if row.pk in kept.ids], to, **kept.lock)
        moved: list[AbstractJob] = [*move_all([row for row in those if row.pk not in kept.ids], to)]
        _wake(using, to, [(row.pk, False, row.resource, row.job_key, row.handler_type) for row in moved])
        count += len(stay) + len(moved)
    return count


def _wake(using: str, to: type[AbstractJob], moved: Sequence[Found]) -> None:
    if to is Job and moved:
        wake_on_commit(using)
        announce_ids(using, [pk for pk, *_ in moved])
    elif to is BlockedJob:
        wake_for_resources(using, {resource for _, _, resource, *_ in moved})
    else:
        wake_workers_on_commit(using, {type for *_, type in moved})
