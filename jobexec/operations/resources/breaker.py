"""The circuit breaker of a resource, for the whole cluster: open it, let trial calls decide, close it."""

from __future__ import annotations

from collections.abc import Mapping
from uuid import UUID

from django.db.models import F

from jobexec import clock, signals
from jobexec.conf.resources import BreakerProfile
from jobexec.models import AbstractJob, BlockedJob, BreakerState, Job, Resource

from ..history.incidents import close_breaker_incident, open_breaker_incident
from ..notify.wake import wake_for_resources
from ..rows.fencing import lock_unchanged
from ..rows.move import move_all
from ..sql.errors import storable
from ..sql.locks import atomic, lock_rows
from .limits import PERMITS, not_closed_among
from .promote import locked_resources

_PAGE = 500
_REASON = 4000


def open_breaker(using: str, name: str, profile: BreakerProfile, reason: str) -> bool:
    """Open a closed breaker, or one whose trial call has failed; False if another node was faster.

    Jobs that have a permit and have not begun go back to wait. After ``profile.wait`` trial calls are let through.
    """
    with atomic(using):
        locked_resources(using, [name])
        now = clock.now(using)
        rows = Resource.objects.using(using).filter(pk=name).exclude(breaker_state=BreakerState.OPEN)
        opened = rows.update(
            breaker_state=BreakerState.OPEN,
            breaker_time=now,
            trial_time=now + profile.wait,
            trials=0,
            reason=storable(reason)[:_REASON],
        )
        if opened:
            open_breaker_incident(using, name, storable(reason)[:_REASON])
            wake_for_resources(using, [name])
    if opened:
        take_back(using, name)
        signals.breaker_changed.send_robust(sender=Resource, using=using, name=name, state=BreakerState.OPEN.value)
    return bool(opened)


def count_trials(using: str, name: str, profile: BreakerProfile, succeeded: int) -> bool:
    """Count successful trial calls of a half-open breaker; enough of them close it. Returns whether it is closed."""
    with atomic(using):
        row = lock_rows(Resource.objects.using(using).filter(pk=name)).first()
        if row is None or row.breaker_state != BreakerState.HALF_OPEN:
            return row is None or row.breaker_state == BreakerState.CLOSED
        rows = Resource.objects.using(using).filter(pk=name)
        closed = row.trials + succeeded >= profile.trial_calls
        if closed:
            now = clock.now(using)
            rows.update(breaker_state=BreakerState.CLOSED, breaker_time=now, trial_time=None, trials=0, reason="")
            close_breaker_incident(using, name)
        else:
            rows.update(trials=F("trials") + succeeded)
        wake_for_resources(using, [name])
    if closed:
        signals.breaker_changed.send_robust(sender=Resource, using=using, name=name, state=BreakerState.CLOSED.value)
    return closed


def take_back(using: str, name: str) -> int:
    """Make the jobs of a resource that have a permit and no node wait again; return how many.

    Jobs in the queue of a node go back when their turn comes. A rate gets no credit for them: others that had their
    permits later may have begun, and the next ones would come too soon after those.
    """
    return sum(_take_back(using, name, table) for table in PERMITS)


def _take_back(using: str, name: str, table: type[AbstractJob]) -> int:
    count, last = 0, None
    while True:
        with atomic(using):
            rows = table._base_manager.using(using).filter(resource=name, lock_owner=None).order_by("pk")
            page = list((rows.filter(pk__gt=last) if last else rows)[:_PAGE])
            if not page:
                return count
            unheld = lock_unchanged(rows, {row.pk: row.revision for row in page}, skip_locked=True)
            count += len(move_all([row for row in page if row.pk in unheld], BlockedJob))
            last = page[-1].pk


def block_unless_closed(using: str, resources: Mapping[UUID, str | None], table: type[AbstractJob] = Job) -> None:
    """Of the jobs in ``table`` that the caller has unlocked, make those wait again whose breaker is not closed.

    ``resources`` are theirs, by their ids. Also while trial calls are let through, which these jobs are not: they got
    their permits before the breaker opened.
    """
    waiting = not_closed_among(using, {name for name in resources.values() if name is not None})
    if waiting:
        ids = [id for id, name in resources.items() if name in waiting]
        unlocked = table._base_manager.using(using).filter(pk__in=ids, lock_owner=None).order_by("pk")
        move_all(list(lock_rows(unlocked, skip_locked=True)), BlockedJob)
