"""Statistics of one definition: the positions of its instances, and how often its elements ran."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import wraps
from statistics import median
from typing import Any, TypeVar

from django.db.models import Count

from jobexec import clock
from jobexec.models import DeadLetterJob
from jobexec.operations.sql.place import place

from ..engine.rows import NOT_WAITING, ActivityState
from ..models import ActivityInstance, Execution

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

    count: int
    median: float | None


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
def incidents(using: str, definition: str) -> dict[str, int]:
    """The dead letters of each element."""
    rows = DeadLetterJob.objects.using(using).filter(process_definition_id=definition).order_by()
    return dict(rows.values_list("failed_activity_id").annotate(Count("pk")))


@_kept
def runs(using: str, definition: str) -> dict[str, Runs]:
    """The completed runs in the PERIOD, by element.

    The median is of the latest arrivals only, and of the elements that ran most: each reads a bounded part of an
    index, where the median of all would sort the history.
    """
    since = clock.now(using) - PERIOD
    rows = ActivityInstance.objects.using(using).filter(
        definition_id=definition, end_time__gte=since, state=ActivityState.COMPLETED.value
    )
    counts = dict(rows.order_by().values_list("element_id").annotate(Count("pk")))
    most = sorted(counts, key=lambda id: -counts[id])[:_MOST_MEDIANS]
    medians = {id: _median(using, definition, id, since) for id in most}
    return {id: Runs(count, medians.get(id)) for id, count in counts.items()}


def _median(using: str, definition: str, element: str, since: datetime) -> float | None:
    rows = ActivityInstance.objects.using(using).filter(
        definition_id=definition, element_id=element, end_time__gte=since, state=ActivityState.COMPLETED.value
    )
    times = list(rows.order_by("-end_time").values_list("start_time", "end_time")[:_SAMPLE])
    return median((end - start).total_seconds() for start, end in times) if times else None
