"""Statistics of one definition: the positions of its instances, and how often its elements ran."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import wraps
from statistics import median
from typing import Any, TypeVar

from django.db.models import Count, Model, Q

from jobexec import clock
from jobexec.models import DeadLetterJob
from jobexec.operations.reports.counts import COUNT_LIMIT, CappedCount
from jobexec.operations.sql.capped import count_each
from jobexec.operations.sql.place import place

from ..engine.rows import NOT_WAITING, ActivityState
from ..models import ActivityInstance, Execution, ProcessInstance
from ..models.instance import RUNNING
from ..store import definitions

#: How long figures are kept by each process.
KEPT = timedelta(seconds=5)
PERIOD = timedelta(days=30)
#: The latest arrivals of an element that its median is of, and the elements that get one.
_SAMPLE, _MOST_MEDIANS = 100, 50
_MOST_KEPT = 300

T = TypeVar("T")


@dataclass(frozen=True)
class Runs:
    """How often an element was completed, and how long it took: the median in seconds, None if it is not known."""

    count: CappedCount
    median: float | None


NEVER = Runs(CappedCount(0), None)


_answers: dict[tuple[str, tuple[str, str, str], str], tuple[float, Any]] = {}


def forget() -> None:
    """Forget the figures that are kept."""
    _answers.clear()


def _kept(function: Callable[[str, str], T]) -> Callable[[str, str], T]:
    """Keep each answer for a moment: many people look at one page, and pages refresh."""

    @wraps(function)
    def wrapped(using: str, definition: str) -> T:
        now, key = clock.monotonic(), (function.__name__, place(using), definition)
        found = _answers.get(key)
        if found is not None and 0 <= now - found[0] < KEPT.total_seconds():
            kept: T = found[1]
            return kept
        if len(_answers) >= _MOST_KEPT:
            _answers.clear()
        answer = function(using, definition)
        _answers[key] = (now, answer)
        return answer

    return wrapped


@_kept
def tokens(using: str, definition: str) -> dict[str, int]:
    """The executions at each element. Of what contains other elements, only those others count."""
    rows = Execution.objects.using(using).filter(definition_id=definition).exclude(state__in=NOT_WAITING)
    return dict(rows.order_by().values_list("element_id").annotate(Count("pk")))


@_kept
def incidents(using: str, definition: str) -> dict[str, CappedCount]:
    """The dead letters of each element."""
    found = _of_elements(using, DeadLetterJob, "failed_activity_id", definition, Q(process_definition_id=definition))
    return {id: count for id, count in found.items() if count}


def of_definitions(using: str, ids: Collection[str]) -> dict[str, tuple[CappedCount, CappedCount]]:
    """The running instances, and the dead letters, of each of these definitions."""
    most = dict.fromkeys(ids, COUNT_LIMIT + 1)
    running = count_each(using, ProcessInstance, "definition_id", most, among=Q(state__in=RUNNING))
    dead = count_each(using, DeadLetterJob, "process_definition_id", most)
    return {id: (CappedCount.upto(running[id]), CappedCount.upto(dead[id])) for id in ids}


@_kept
def runs(using: str, definition: str) -> dict[str, Runs]:
    """The completed runs in the PERIOD, by element.

    Each number and each median reads a bounded part of an index. The median is of the latest arrivals only, and of the
    elements that ran most.
    """
    since = clock.now(using) - PERIOD
    completed = Q(definition_id=definition, end_time__gte=since, state=ActivityState.COMPLETED.value)
    found = _of_elements(using, ActivityInstance, "element_id", definition, completed, latest="end_time")
    counts = {id: count for id, count in found.items() if count}
    most = sorted(counts, key=lambda id: -counts[id])[:_MOST_MEDIANS]
    medians = {id: _median(using, definition, id, since) for id in most}
    return {id: Runs(count, medians.get(id)) for id, count in counts.items()}


def _of_elements(
    using: str, table: type[Model], column: str, definition: str, among: Q, **options: str
) -> dict[str, CappedCount]:
    """How many rows there are of each element of a definition."""
    most = {node.id: COUNT_LIMIT + 1 for node in definitions.process(using, definition).nodes}
    counts = count_each(using, table, column, most, among=among, **options)
    return {id: CappedCount.upto(count) for id, count in counts.items()}


def _median(using: str, definition: str, element: str, since: datetime) -> float | None:
    rows = ActivityInstance.objects.using(using).filter(
        definition_id=definition, element_id=element, end_time__gte=since, state=ActivityState.COMPLETED.value
    )
    times = list(rows.order_by("-end_time").values_list("start_time", "end_time")[:_SAMPLE])
    return median((end - start).total_seconds() for start, end in times) if times else None
