"""Retention: delete history past its time to live, in small transactions (Camunda: history cleanup)."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime, timedelta
from itertools import chain
from typing import Any, TypeAlias

from django.db.models import Exists, OuterRef, QuerySet

from jobexec import clock
from jobexec.conf import get_settings
from jobexec.identifiers import uuid7
from jobexec.models import (
    AuditLog,
    Batch,
    BatchFailure,
    BatchPart,
    BatchTally,
    BlockedJob,
    DeadLetterJob,
    FailureGroup,
    Incident,
    JobLog,
    Message,
    ScheduleFiring,
    TaskResult,
)

from ..manage.bulk import delete_page
from ..nodes import cluster_lock
from ..nodes.deployments import retiring
from ..reports.meter_roll_up import rolling_up
from ..resources.clean_up import forgetting_resources
from ..sql.delete import delete_rows
from ..sql.locks import atomic, lock_rows
from .key_cleanup import freeing_keys

logger = logging.getLogger("jobexec.cleanup")

#: The time after which another node takes over the lock of a dead one; no step takes nearly as long.
FORCE_AFTER = timedelta(minutes=2)

Rows: TypeAlias = QuerySet[Any, Any]
#: Yields the rows of a database that are to be deleted at a moment: of one table each, ordered by one indexed column.
Expired: TypeAlias = Callable[[str, datetime], Iterator[Rows]]

_of_others: list[Expired] = []


def add_to_cleanup(expired: Expired) -> None:
    """Let the cleanup delete the rows of another app, too, in its pages and under its lock; a second call is ignored.

    The rows of a queryset are deleted before the next one is asked for.
    """
    if expired not in _of_others:
        _of_others.append(expired)


def clean_up_history(using: str = "default") -> int:
    """Delete all history past HISTORY_TIME_TO_LIVE or HISTORY_MAX_ROWS, and messages that are kept no longer; return
    the number of rows.

    Runs immediately, ignoring HISTORY_CLEANUP_WINDOW, in transactions of HISTORY_CLEANUP_BATCH_SIZE rows; for cron and
    for projects without an executor. Does nothing while another process cleans up. Do not call it in a transaction.
    """
    cleanup = Cleanup.begin(using, f"clean up history:{uuid7()}")
    if cleanup is None:
        return 0
    deleted = 0
    try:
        while (count := cleanup.step()) is not None:
            deleted += count
    finally:
        cleanup.end()
    return deleted


class Cleanup:
    """A cleanup in steps, for callers that pause in between. One process at a time runs it, under a fenced lock.

    After an error ``owner`` may begin again at once; if it has died, recovery releases the lock, or another process
    takes it over after :data:`FORCE_AFTER`. Rows deleted until then stay deleted.
    """

    def __init__(self, using: str, owner: str, token: int) -> None:
        self.using, self.owner = using, owner
        self._token = token
        self._tables = _expired(using)
        self._rows: Rows | None = None
        self._reached: Any = None
        #: Cleanups that manage their own transactions; several processes may run them at once.
        self._others = chain(
            _purging(using), freeing_keys(using), forgetting_resources(using), rolling_up(using), retiring(using)
        )

    @classmethod
    def begin(cls, using: str, owner: str) -> Cleanup | None:
        """Take the lock; None if another process holds it."""
        token = cluster_lock.take(using, owner, FORCE_AFTER, cluster_lock.CLEAN_UP)
        return None if token is None else cls(using, owner, token)

    def step(self) -> int | None:
        """Delete or merge rows of one table in a transaction; return by how many rows it shrank.

        Returns None if nothing is left or the lock is lost.
        """
        while True:
            if self._rows is None:
                self._rows = next(self._tables, None)
            if self._rows is None:
                break
            deleted = self._delete(self._rows)
            if deleted is None:
                self._warn()
                return None
            if deleted:
                return deleted
            self._rows = self._reached = None
        if not self._prolong():
            self._warn()
            return None
        return next(self._others, None)

    def _prolong(self) -> bool:
        return cluster_lock.prolong(self.using, self.owner, self._token, FORCE_AFTER, cluster_lock.CLEAN_UP)

    def _warn(self) -> None:
        logger.warning("Another process has taken over the history cleanup on %s", self.using)

    def end(self) -> None:
        """Release the lock if it is still ours."""
        cluster_lock.release(self.using, self.owner, self._token, cluster_lock.CLEAN_UP)

    def _delete(self, rows: Rows) -> int | None:
        """Delete the first of these rows; None if the lock is no longer ours.

        Deletes by the ids that were read before: the DELETE locks these rows but no gaps between them, so inserts do
        not wait.
        """
        using = self.using
        with atomic(using):
            if not self._prolong():
                return None
            (column,) = rows.query.order_by
            if self._reached is not None:  # do not scan deleted rows that are still in the index again
                rows = rows.filter(**{f"{column}__gte": self._reached})
            page = list(rows.values_list("pk", column)[: get_settings().history_cleanup_batch_size])
            if not page:
                return 0
            self._reached = page[-1][1]
            return delete_rows(rows.model._base_manager.using(using).filter(pk__in=[pk for pk, _ in page]))


def _purging(using: str) -> Iterator[int]:
    """Delete dead letters past DEAD_LETTER_TIME_TO_LIVE as an operator would, a page per transaction."""
    settings = get_settings()
    if settings.dead_letter_time_to_live is None:
        return
    moment = clock.now(using) - settings.dead_letter_time_to_live
    rows = DeadLetterJob.objects.using(using).filter(died_at__lt=moment).order_by("died_at")
    while page := list(rows.values_list("pk", flat=True)[: settings.history_cleanup_batch_size]):
        with atomic(using):
            # Looked at again under the lock: an operator may have requeued one, and it may have died anew.
            old = lock_rows(rows.filter(pk__in=page).order_by("pk").only("pk"))
            deleted = len(list(delete_page(using, DeadLetterJob, [row.pk for row in old])))
        if not deleted:
            return
        yield deleted


def _expired(using: str) -> Iterator[Rows]:
    """Yield the rows to delete: of one table each, ordered by one indexed column, the oldest first."""
    settings = get_settings()
    now = clock.now(using)
    if settings.result_ttl is not None:
        yield _results(using).filter(expires_at=None, end_time__lt=now - settings.result_ttl).order_by("end_time")
    yield _results(using).filter(expires_at__lt=now).order_by("expires_at")
    if settings.history_max_rows is not None:
        yield from _beyond(using, settings.history_max_rows)
    if settings.history_time_to_live is not None:
        yield from _before(using, clock.now(using) - settings.history_time_to_live)
    if settings.audit_log_time_to_live is not None:
        moment = clock.now(using) - settings.audit_log_time_to_live
        yield AuditLog.objects.using(using).filter(timestamp__lt=moment).order_by("timestamp")
    # A job that no round has looked at since may have begun to wait while the message was kept.
    unseen = BlockedJob.objects.using(using).filter(next_look__lt=now).order_by("next_look")
    until = unseen.values_list("next_look", flat=True).first() or now
    kept = Message.objects.using(using).filter(expiration_time__lt=until, delivery_time=None)
    yield kept.order_by("expiration_time")
    # Children that ended after their batch was deleted.
    owner = Batch.objects.using(using).filter(pk=OuterRef("batch_id"))
    yield BatchTally.objects.using(using).filter(~Exists(owner)).order_by("pk")
    for expired in _of_others:
        yield from expired(using, now)


def _results(using: str) -> Rows:
    """Return the results of tasks, except for those of dead letters, which may be requeued."""
    dead = DeadLetterJob.objects.using(using).filter(pk=OuterRef("pk"))
    return TaskResult.objects.using(using).filter(~Exists(dead))


def _beyond(using: str, count: int) -> Iterator[Rows]:
    """Yield the log except its newest ``count`` rows. Reads ``count`` primary keys, and only if necessary."""
    log = JobLog.objects.using(using).order_by("pk")
    oldest, newest = (rows.values_list("pk", flat=True).first() for rows in (log, log.reverse()))
    # Ids have gaps, so this range is the maximum number of rows, and there are often fewer.
    if oldest is None or newest is None or newest - oldest < count:
        return
    boundary = log.reverse().values_list("pk", flat=True)[count : count + 1].first()
    if boundary is not None:
        yield log.filter(pk__lte=boundary)


def _before(using: str, moment: datetime) -> Iterator[Rows]:
    yield JobLog.objects.using(using).filter(timestamp__lt=moment).order_by("timestamp")
    yield Incident.objects.using(using).filter(end_time__lt=moment).order_by("end_time")
    yield FailureGroup.objects.using(using).filter(last_time__lt=moment).order_by("last_time")
    firings = ScheduleFiring.objects.using(using)
    later = firings.filter(schedule=OuterRef("schedule"), fire_time__gt=OuterRef("fire_time"))
    yield firings.filter(Exists(later), create_time__lt=moment).order_by("create_time")  # except each one's newest
    # Batches created and ended before that: there are few. Their parts go first, and no statement deletes many rows.
    ended = Batch.objects.using(using).filter(create_time__lt=moment, end_time__lt=moment).order_by("create_time")
    while batches := list(ended.values_list("pk", flat=True)[:100]):
        yield from _batches(using, batches)


def _batches(using: str, ids: Sequence[Any]) -> Iterator[Rows]:
    for table in (BatchFailure, BatchPart, BatchTally):
        for pk in ids:
            yield table._base_manager.using(using).filter(batch_id=pk).order_by("pk")
    yield Batch.objects.using(using).filter(pk__in=ids).order_by("pk")
