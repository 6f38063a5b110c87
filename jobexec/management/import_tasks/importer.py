"""Move rows page by page: insert jobs and delete their source rows in the same transaction."""

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
    """The result. ``left`` counts rows that were not moved, by reason; ``there`` counts rows moved earlier."""

    jobs: int = 0
    results: int = 0
    there: int = 0
    running: int = 0
    left: Counter[str] = field(default_factory=Counter)


@dataclass
class _Page(Generic[T]):
    """The rows of one page: what each becomes, by database."""

    moved: dict[str, list[T]] = field(default_factory=dict)
    ids: list[UUID] = field(default_factory=list)
    there: int = 0
    left: Counter[str] = field(default_factory=Counter)


class Importer:
    """Move the rows of one database. ``limit``: at most this many; ``dry_run``: only report what would be moved."""

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
        """Move waiting tasks. Running tasks are counted and stay with their worker."""
        rows = stored(self.source, self.queues, READY)
        self.report.jobs += self._all(rows, self.mapping.job, _create_jobs)
        self.report.running = stored(self.source, self.queues, RUNNING).count()

    def ended(self) -> None:
        """Move the results of ended tasks, except those that are older than RESULT_TTL."""
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
            # The source is the outer transaction: if the target is another database, a row may be in both for a
            # moment, and the next run finds it there, but it is never in neither.
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
        if deleted != len(page.ids):  # possible only where rows cannot be locked
            raise CommandError(
                _("Rows changed while they were being moved; this page was not moved. Run the command again.")
            )


def _there(using: str, ids: Iterable[UUID]) -> set[UUID]:
    """The ids that were moved earlier: as jobs, or as results if the jobs have ended meanwhile."""
    wanted = list(ids)
    results = TaskResult.objects.using(using).filter(pk__in=wanted).values_list("pk", flat=True)
    return {*find_states(wanted, using), *results}


def _create_jobs(using: str, rows: Iterable[dict[str, Any]]) -> None:
    create_jobs(using, rows, encrypts=False)  # the option of each task has decided


def _create_results(using: str, results: Iterable[TaskResult]) -> None:
    TaskResult.objects.using(using).bulk_create(results)
