"""Moving rows, page by page: what is inserted here is deleted there in the same transaction."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar
from uuid import UUID

from django.core.management.base import CommandError
from django.db import transaction
from django.db.models import QuerySet
from django.utils.translation import gettext as _

from jobexec import clock
from jobexec.conf import get_settings
from jobexec.models import ResultStatus, TaskResult
from jobexec.operations import create_jobs, find_states

from .mapping import Left, Mapping
from .source import StoredTask, locked, stored

T = TypeVar("T")
READY, RUNNING = "READY", "RUNNING"


@dataclass
class Report:
    """What came of the rows. ``left`` counts them by the reason; ``there`` are those that had come before."""

    jobs: int = 0
    results: int = 0
    there: int = 0
    running: int = 0
    left: Counter[str] = field(default_factory=Counter)


@dataclass
class _Page(Generic[T]):
    """Rows that go together: what each becomes, by database."""

    moved: dict[str, list[T]] = field(default_factory=dict)
    ids: list[UUID] = field(default_factory=list)
    there: int = 0
    left: Counter[str] = field(default_factory=Counter)


class Importer:
    """Moves the rows of one database. ``limit``: so many at most; ``dry_run``: says what would be moved."""

    def __init__(
        self,
        source: str,
        mapping: Mapping,
        *,
        queues: list[str] | None = None,
        limit: int | None = None,
        batch_size: int = 100,
        dry_run: bool = False,
    ) -> None:
        self.source, self.mapping, self.queues = source, mapping, queues
        self.limit, self.batch_size, self.dry_run = limit, batch_size, dry_run
        self.report = Report()

    def waiting(self) -> None:
        """Move what waits; what runs is counted and left to the worker that runs it."""
        rows = stored(self.source, self.queues, READY)
        self.report.jobs += self._all(rows, self.mapping.job, create_jobs)
        self.report.running = stored(self.source, self.queues, RUNNING).count()

    def ended(self) -> None:
        """Move the results of what has ended, but not those that are older than RESULT_TTL."""
        rows = stored(self.source, self.queues, ResultStatus.SUCCESSFUL, ResultStatus.FAILED)
        if (kept := get_settings().result_ttl) is not None:
            rows = rows.filter(finished_at__gt=clock.now() - kept)
        self.report.results += self._all(rows, self.mapping.result, _create_results)

    def _all(
        self,
        rows: QuerySet[StoredTask],
        become: Callable[[StoredTask], tuple[str, T]],
        create: Callable[[str, Iterable[T]], Any],
    ) -> int:
        count, last = 0, None
        while size := self._size(count):
            after = rows if last is None else rows.filter(pk__gt=last)
            # The source is the outer transaction: should the database be another one, a row may for a moment be in
            # both, and is found there next time, but is never in none.
            with ExitStack() as transactions:
                if not self.dry_run:
                    transactions.enter_context(transaction.atomic(self.source))
                    after = locked(after)
                found = list(after[:size])
                page = self._page(found, become)
                if not self.dry_run:
                    self._move(rows, page, create, transactions)
            count += len(page.ids) - page.there
            self.report.there += page.there
            self.report.left += page.left
            if len(found) < size:
                break
            last = found[-1].pk
        return count

    def _size(self, count: int) -> int:
        return self.batch_size if self.limit is None else min(self.batch_size, self.limit - count)

    def _page(self, rows: list[StoredTask], become: Callable[[StoredTask], tuple[str, T]]) -> _Page[T]:
        page: _Page[T] = _Page()
        made: dict[str, dict[UUID, T]] = {}
        for row in rows:
            try:
                using, one = become(row)
            except Left as reason:
                page.left[str(reason)] += 1
            else:
                made.setdefault(using, {})[row.pk] = one
                page.ids.append(row.pk)
        for using, ones in made.items():
            there = _there(using, ones)
            page.there += len(there)
            page.moved[using] = [one for pk, one in ones.items() if pk not in there]
        return page

    def _move(
        self,
        rows: QuerySet[StoredTask],
        page: _Page[T],
        create: Callable[[str, Iterable[T]], Any],
        transactions: ExitStack,
    ) -> None:
        for using, ones in page.moved.items():
            if using != self.source:
                transactions.enter_context(transaction.atomic(using))
            create(using, ones)
        deleted = rows.filter(pk__in=page.ids).order_by()._raw_delete(self.source) if page.ids else 0
        if deleted != len(page.ids):  # only where rows cannot be locked
            raise CommandError(
                _("Rows changed while they were being moved; this page was not moved. Run the command again.")
            )


def _there(using: str, ids: Iterable[UUID]) -> set[UUID]:
    """Those that have come before: as a job, or over meanwhile."""
    wanted = list(ids)
    results = TaskResult.objects.using(using).filter(pk__in=wanted).values_list("pk", flat=True)
    return {*find_states(wanted, using), *results}


def _create_results(using: str, results: Iterable[TaskResult]) -> None:
    TaskResult.objects.using(using).bulk_create(results)
