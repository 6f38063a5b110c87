"""Create jobs with unique keys, together with their keys."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from functools import partial
from itertools import islice
from typing import Any, NamedTuple
from uuid import UUID

from django.db import OperationalError, connections

from jobexec.exceptions import DuplicateJob
from jobexec.identifiers import uuid7, uuid7s

from ..notify.observers import told_afterwards
from ..sql.errors import is_conflict
from ..sql.locks import atomic
from ..values.inserted_rows import AnyJob, Own, instance
from .create import Pattern
from .unique import CHANGED, ROUNDS, Claim, Rule
from .unique_keys import Holder

_KEYS = 500  # per statement


def create_unique_job(
    pattern: Pattern,
    rule: Rule,
    key: str,
    handler_configuration: Any,
    encoded: str | None = None,
    *,
    due_date: datetime | None = None,
    id: UUID | None = None,
) -> AnyJob:
    """Insert a job and take its key atomically, in the caller's transaction or in their own.

    If another job holds the key, return it with ``is_duplicate``: its row or, with ``on_conflict="ignore"`` and if the
    job is over, an unsaved instance that has only its id in common with that job. With ``on_conflict="raise"`` raises
    :class:`~jobexec.exceptions.DuplicateJob` and writes nothing.
    """
    using, own = pattern.using, id or uuid7()
    for _ in range(ROUNDS):
        claim = Claim(using, rule, {key: own})
        claim.look()
        if claim.open:
            made, created = _made(
                claim, partial(pattern.create, handler_configuration, encoded, stays=False, due_date=due_date, id=own)
            )
            if created is not None:
                return created
            if not made:
                continue
        holder = claim.duplicates[key]
        if rule.on_conflict == "raise":  # outside the block, so that the caller's transaction can continue
            raise DuplicateJob(rule.handler_type, key, holder.job_id)
        row = _found(using, holder) if rule.on_conflict != "ignore" else None
        if row is None and (rule.on_conflict == "ignore" or holder.table is None):
            row = _unsaved(pattern, holder.job_id, handler_configuration, encoded, due_date)
        if row is not None:  # otherwise it moved, or ended and the key may be free
            row.is_duplicate = True
            return row
    raise OperationalError(CHANGED, f"The job that holds a key of {rule.handler_type} has changed on every attempt.")


def _made(claim: Claim, create: Callable[[], AnyJob]) -> tuple[bool, AnyJob | None]:
    """Take the key and insert the job, or return None for a duplicate; False after a conflict that can be retried."""
    try:
        with told_afterwards(), atomic(claim.using):
            claim.take()
            return True, None if claim.duplicates else create()
    except OperationalError as error:
        # InnoDB may detect a deadlock between two transactions that insert neighbouring keys. In our own transaction
        # only our work is rolled back; otherwise the caller has to retry.
        if connections[claim.using].in_atomic_block or not is_conflict(error):
            raise
        return False, None


def _found(using: str, holder: Holder) -> AnyJob | None:
    if holder.table is None:
        return None
    return holder.table._base_manager.using(using).filter(pk=holder.job_id).first()  # type: ignore[return-value]


def _unsaved(pattern: Pattern, id: UUID, configuration: Any, encoded: str | None, due_date: datetime | None) -> AnyJob:
    table, columns, _ = pattern.job(configuration, encoded, due_date=due_date, id=id)
    row: AnyJob = instance(pattern.using, table, columns)
    row._state.adding = True
    return row


class Created(NamedTuple):
    """The job id of each call, and the indexes of those calls whose job already existed."""

    ids: Sequence[UUID]
    duplicates: frozenset[int]


def create_unique_jobs(
    pattern: Pattern,
    rule: Rule,
    keys: Sequence[str],
    encoded: Sequence[str],
    *,
    due_date: datetime | None = None,
    calls: Sequence[Own] = (),
    ids: Sequence[UUID] = (),
) -> Created:
    """Insert many jobs and take their keys, each with its ``handler_configuration`` as JSON text.

    ``calls`` are the values that the options compute from the calls' arguments, if they do; ``ids`` are those of the
    jobs, if they have them already.

    Call it in a transaction and roll that back (perhaps to a savepoint) if it raises: keys may have been taken by then.
    Of calls with the same key the first wins, or the last with ``on_conflict="replace"``.
    """
    numbers = range(len(keys) - 1, -1, -1) if rule.on_conflict != "replace" else range(len(keys))
    chosen = {keys[number]: number for number in numbers}
    ids = ids or uuid7s(len(keys))
    taken = _take(pattern.using, rule, {key: ids[number] for key, number in chosen.items()})
    duplicates = frozenset(n for n, key in enumerate(keys) if chosen[key] != n or key in taken)
    holding = [taken[key].job_id if key in taken else ids[chosen[key]] for key in keys]
    if duplicates and rule.on_conflict == "raise":
        first = min(duplicates)
        raise DuplicateJob(rule.handler_type, keys[first], holding[first])
    new = [number for number in range(len(keys)) if number not in duplicates]
    texts, own = [encoded[n] for n in new], [ids[n] for n in new]
    if calls:
        pattern.create_each(texts, own, [calls[n] for n in new], stays=False, due_date=due_date)
    else:
        pattern.create_many(texts, ids=own, stays=False, due_date=due_date)
    return Created(holding, duplicates)


def _take(using: str, rule: Rule, wanted: Mapping[str, UUID]) -> dict[str, Holder]:
    """Take these keys in sorted order, as all callers that take several; return those that other jobs hold."""
    taken: dict[str, Holder] = {}
    for page in _pages(wanted):
        claim = Claim(using, rule, page)
        claim.look()
        if claim.open:
            claim.take()
        taken |= claim.duplicates
    return taken


def _pages(wanted: Mapping[str, UUID]) -> Iterator[dict[str, UUID]]:
    left = iter(sorted(wanted))
    while page := list(islice(left, _KEYS)):
        yield {key: wanted[key] for key in page}
