"""The suspensions in force, and which rows they cover."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from django.db.models import Q

from jobexec.models import AbstractJob, Scope, Suspension

from .locking import lock_rows


class Suspensions:
    """A snapshot of the small Suspension table.

    Every verb that makes a job runnable asks it in its own transaction, so a suspension that is committed holds for
    whatever is acquired, comes due, is retried or is requeued afterwards, also for jobs created later.
    """

    def __init__(self, entries: Iterable[tuple[str, str]]) -> None:
        self._entries = frozenset(entries)
        self.scopes = sorted({scope for scope, _ in self._entries})

    @classmethod
    def of(cls, using: str) -> Suspensions:
        """Those of this engine now."""
        return cls(Suspension.objects.using(using).values_list("scope", "value"))

    def __bool__(self) -> bool:
        return bool(self._entries)

    def cover(self, row: AbstractJob) -> bool:
        """Whether the row may not run: by its scope, or because it was itself suspended."""
        if row.suspend_requested:
            return True
        return any((scope, getattr(row, scope)) in self._entries for scope in self.scopes)

    @classmethod
    def held(cls, using: str) -> Suspensions:
        """The same, locked until the transaction ends, so that none can be lifted meanwhile."""
        return cls((row.scope, row.value) for row in lock_suspensions(using))

    def condition(self) -> Q:
        """The rows covered by a scope, as a filter for querysets of job tables; matches nothing without any."""
        condition = Q(pk__in=[])
        for scope in self.scopes:
            values = [value for entry, value in self._entries if entry == scope]
            condition |= Q(**{f"{scope}__in": values})
        return condition


def lock_suspensions(using: str) -> list[Suspension]:
    """All suspensions, locked in one order until the transaction ends.

    Whole rows, so that MariaDB locks them by their primary key: one who locks an entry of the other index first and
    one who deletes the row wait for each other in a circle.
    """
    return list(lock_rows(Suspension.objects.using(using).order_by("pk")))


def covered_rows(using: str, rows: Sequence[AbstractJob]) -> list[AbstractJob]:
    """Those of the rows, which the caller is about to move to the suspended jobs, that a suspension covers.

    Looks without a lock first, because nearly always nothing is covered. What is covered is looked at again under
    lock: else an activation could delete the suspension and finish its sweep between our look and our move, and the
    row would stay suspended for good.
    """
    seen = Suspensions.of(using)
    covered = [row for row in rows if seen.cover(row)]
    if not covered:
        return covered
    held = Suspensions.held(using)
    return [row for row in covered if held.cover(row)]


def scope_of(**scope: Any) -> tuple[str, str]:
    """The one scope named by keyword, as (column, value); a clear error otherwise."""
    known = {name: value for name, value in scope.items() if value is not None}
    if len(known) != 1:
        raise ValueError(f"Expected exactly one of {', '.join(Scope.values)}, got {sorted(known) or 'none'}.")
    column, value = next(iter(known.items()))
    if not isinstance(value, str) or not value:
        raise ValueError(f"{column}: expected a text that is not empty, got {value!r}.")
    return column, value
