"""Move jobs on that may go on now, or to the suspended jobs if a suspension covers them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import TypeAlias
from uuid import UUID

from jobexec import clock
from jobexec.models import AbstractJob, BlockedJob, Job, SuspendedJob

from ..notify.broker import announce_ids
from ..notify.wake import wake_for_resources, wake_on_commit
from . import move_statement
from .move import move_all
from .suspension_cover import Suspensions, covered_rows

#: The columns of a row that decide; the rest need not be loaded.
COLUMNS = ("pk", "suspend_requested", "resource")
Found: TypeAlias = tuple[UUID, bool, str | None]


def start_due(using: str, source: type[AbstractJob], found: Sequence[Found], *, permitted: bool) -> int:
    """Move rows that the caller has locked; return how many moved.

    ``found`` has the :data:`COLUMNS` of each. ``permitted``: they have a permit of their resource; otherwise those that
    have a resource go to wait for one.
    """
    if not found:
        return 0
    ids = [pk for pk, _, _ in found]
    maybe_covered = any(requested for _, requested, _ in found) or bool(Suspensions.of(using, ids))
    if maybe_covered or not move_statement.is_possible(using):
        return _start(using, list(source._base_manager.using(using).filter(pk__in=ids)), permitted)
    ready = [pk for pk, _, resource in found if permitted or resource is None]
    blocked = {pk: resource for pk, _, resource in found if not permitted and resource is not None}
    move_statement.transfer(using, source, Job, ready)
    move_statement.transfer(using, source, BlockedJob, blocked)
    _wake(using, ready, blocked.values())
    return len(found)


def _start(using: str, rows: list[AbstractJob], permitted: bool) -> int:
    """The form that defines what moving them means."""
    covered = covered_rows(using, rows)
    held = {row.pk for row in covered}
    left = [row for row in rows if row.pk not in held]
    ready = move_all([row for row in left if permitted or row.resource is None], Job)
    blocked = move_all([row for row in left if not permitted and row.resource is not None], BlockedJob)
    _wake(using, [row.pk for row in ready], [row.resource for row in blocked])
    return len(ready) + len(blocked) + len(move_all(covered, SuspendedJob, suspended_at=clock.now(using)))


def _wake(using: str, ready: Collection[UUID], resources: Iterable[str | None]) -> None:
    if ready:
        wake_on_commit(using)
        announce_ids(using, ready)
    wake_for_resources(using, resources)
