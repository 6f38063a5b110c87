"""Unique keys: of a tenant's jobs of one handler with the same key, at most one exists, waits or runs.

The key is taken in the transaction that inserts the job. Nothing is written when a job ends: the state of the job that
holds a key determines whether the key is still taken. For the locks and their reasons see docs/explanation/locking.md.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from uuid import UUID

from django.db import OperationalError

from jobexec import clock
from jobexec.exceptions import DuplicateJob, InvalidJob
from jobexec.models import DeadLetterJob

from ..rows.remove import remove_deleted
from ..sql.locks import lock_rows
from . import unique_keys
from .unique_keys import Holder, Owner

#: The maximum number of attempts. One suffices unless keys are removed or transferred at the same moment.
ROUNDS = 10
#: MySQL's error number for a record that has changed since it was read; errors.is_conflict knows it.
CHANGED = 1020


@dataclass(frozen=True, slots=True)
class Rule:
    """The uniqueness options of a job: ``unique_while``, ``unique_for``, ``on_conflict``, ``tenant_id``."""

    handler_type: str
    unique_while: str = "active"
    unique_for: timedelta | None = None
    on_conflict: str = "return"
    tenant_id: str = ""

    @property
    def owner(self) -> Owner:
        """The owner of the keys."""
        return Owner(self.handler_type, self.tenant_id)

    def blocks(self, holder: Holder, now: datetime) -> bool:
        """Whether the key is taken, given the state of its holder."""
        if holder.expiration_time is not None and holder.expiration_time > now:
            return True
        if holder.table is None:
            return False
        if holder.table.dead:
            return self.unique_while == "existing"
        return not holder.locked or self.unique_while != "waiting"

    def replaces(self, holder: Holder) -> bool:
        """Whether the new job replaces a holder that blocks: one that waits and is no dead letter."""
        waits = holder.table is not None and not holder.table.dead and not holder.locked
        return waits and self.on_conflict == "replace"

    def expiration_time(self, now: datetime) -> datetime | None:
        """Return until when the key is taken, whatever happens to its job. Raises InvalidJob past the year 9999."""
        try:
            return None if self.unique_for is None else now + self.unique_for
        except OverflowError:
            raise InvalidJob(f"unique_for: {self.unique_for} from now is past the year 9999.") from None


class Claim:
    """An attempt to take keys for new jobs; a few hundred at most.

    Call :meth:`look` first, which locks nothing, then :meth:`take` in the transaction that inserts the jobs.
    """

    def __init__(self, using: str, rule: Rule, wanted: Mapping[str, UUID]) -> None:
        self.using, self.rule = using, rule
        #: The undecided keys. Keys that are finally neither here nor among the duplicates are ours.
        self.open = dict(wanted)
        #: The keys that are taken, with their holders.
        self.duplicates: dict[str, Holder] = {}
        self._seen: dict[str, Holder] = {}
        self._expiration = rule.expiration_time(clock.now(using))

    def look(self) -> None:
        """Find keys that are taken."""
        seen, now = unique_keys.holders(self.using, self.rule.owner, list(self.open)), clock.now(self.using)
        for key, holder in seen.items():
            if holder.job_id == self.open[key]:
                del self.open[key]
            elif self.rule.blocks(holder, now) and not self.rule.replaces(holder):
                self._is_duplicate(key, holder)
        self._seen = {key: holder for key, holder in seen.items() if key in self.open}

    def take(self) -> None:
        """Take the open keys that are still free. Raises a database conflict if they change on every attempt."""
        for _ in range(ROUNDS):
            self._insert()
            self._take_over()
            if not self.open:
                return
            self.look()
        raise OperationalError(CHANGED, f"Keys of {self.rule.handler_type} have changed since they were read.")

    def _insert(self) -> None:
        free = {key: id for key, id in self.open.items() if key not in self._seen}
        if free and unique_keys.insert(self.using, self.rule.owner, free, self._expiration):
            for key in free:
                del self.open[key]

    def _take_over(self) -> None:
        """Take keys whose holders are over or can be replaced, if this is still so once their rows are locked."""
        seen = self._seen
        if not seen:
            return
        locked = unique_keys.lock(self.using, [holder.row for holder in seen.values()])
        # The other keys were transferred or removed meanwhile: the next check finds their state.
        held = {key: holder for key, holder in locked.items() if holder.job_id == seen[key].job_id}
        held = self._without_replaced(held)
        now = clock.now(self.using)
        for key, holder in held.items():
            if self.rule.blocks(holder, now):
                self._is_duplicate(key, holder)
        held = self._without_revived({key: holder for key, holder in held.items() if key in self.open})
        rows = {holder.row: self.open.pop(key) for key, holder in held.items()}
        if rows:
            unique_keys.hand_over(self.using, rows, self._expiration)

    def _without_replaced(self, held: dict[str, Holder]) -> dict[str, Holder]:
        """Remove the jobs to be replaced and mark them as over; mark those that could not be removed as locked."""
        now = clock.now(self.using)
        waiting = [key for key, one in held.items() if self.rule.blocks(one, now) and self.rule.replaces(one)]
        reasons = {held[key].job_id: f"Replaced by {self.open[key]}" for key in waiting}
        removed = _remove(self.using, [held[key] for key in waiting], reasons)
        for key in waiting:
            gone = held[key].job_id in removed
            held[key] = (
                replace(held[key], table=None, expiration_time=None) if gone else replace(held[key], locked=True)
            )
        return held

    def _without_revived(self, held: dict[str, Holder]) -> dict[str, Holder]:
        """Record on the dead letters among them the key that they lose; exclude those that are no longer dead."""
        dying = {one.job_id: key for key, one in held.items() if one.table is DeadLetterJob}
        dead = unique_keys.take_from_dead(self.using, dying) if dying else set()
        return {key: one for key, one in held.items() if one.job_id not in dying or one.job_id in dead}

    def _is_duplicate(self, key: str, holder: Holder) -> None:
        del self.open[key]
        self.duplicates[key] = holder


def take_back(row: DeadLetterJob) -> None:
    """Take back the unique key of a dead letter that is to run again, if another job has taken it since.

    Call it in the transaction that makes the job executable. Raises :class:`~jobexec.exceptions.DuplicateJob` while
    another job holds the key.
    """
    if not row.lost_key:
        return
    rule = Rule(row.handler_type, tenant_id=row.tenant_id)
    claim = Claim(row._state.db or "default", rule, {row.lost_key: row.pk})
    claim.look()
    if claim.open:
        claim.take()
    for key, holder in claim.duplicates.items():
        raise DuplicateJob(row.handler_type, key, holder.job_id)


def _remove(using: str, waiting: Iterable[Holder], reasons: Mapping[UUID, str]) -> set[UUID]:
    """Delete those of these jobs that are not locked; return their ids.

    Jobs that are just being acquired or moved are skipped: enqueueing never waits for a job.
    """
    tables: dict[type, list[UUID]] = {}
    for holder in waiting:
        if holder.table is not None:
            tables.setdefault(holder.table, []).append(holder.job_id)
    removed: set[UUID] = set()
    for table, ids in tables.items():
        free = table._base_manager.using(using).filter(pk__in=ids, lock_owner=None).order_by("pk")  # type: ignore[attr-defined]
        rows = list(lock_rows(free, skip_locked=True))
        if rows:
            remove_deleted(using, rows, reasons)
            removed.update(row.pk for row in rows)
    return removed
