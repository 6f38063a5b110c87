"""Keep ended instances, and delete them when they expire."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any

import isodate
from django.db.models import QuerySet

from jobexec.conf import get_settings
from jobexec.sensitive import hide

from ..engine import rows
from ..models import ActivityInstance, ProcessInstance
from . import definitions

#: Hierarchies, and instances, of one look.
_PAGE = 100


def ended(using: str, row: rows.Instance) -> dict[str, Any]:
    """The columns that say how an instance has ended.

    Only the topmost of a hierarchy has a removal time: all of it is deleted together.
    """
    columns = {
        "state": row.state.value,
        "end_time": row.ended_at,
        "end_element": row.end_element or "",
        "delete_reason": row.reason or "",
        "final_variables": None if row.final_variables is None else _kept(using, row.definition, row.final_variables),
    }
    if row.ended_at is not None and row.id == row.root:
        columns["removal_time"] = removal_time(using, row.definition, row.ended_at)
    return columns


def _kept(using: str, definition: str, variables: dict[str, Any]) -> dict[str, Any]:
    """What SENSITIVE in PROCESSES names is not kept any longer than the process needs it, nor what a join has needed:
    a flow that is restarted has not failed again."""
    words, process = get_settings().processes.sensitive, definitions.process(using, definition)
    found = {
        name: value
        for name, value in variables.items()
        if name == definitions.CALLS or not definitions.is_internal(process, name)
    }
    return dict(hide(found, words=words)) if words else found


def removal_time(using: str, definition: str, end: datetime) -> datetime | None:
    """When the history of an instance of this definition may be deleted; None: never."""
    text = definitions.process(using, definition).history_ttl
    if text:
        return end + time_to_live(text, end)
    age = get_settings().processes.history_time_to_live
    return None if age is None else end + age


def time_to_live(text: str, end: datetime) -> timedelta:
    """A number of days, or an ISO 8601 duration (Camunda: ``historyTimeToLive``). Raises ValueError."""
    try:
        if text.strip().isdecimal():
            return _checked(timedelta(days=int(text)), end)
        found = isodate.parse_duration(text.strip())
        return _checked(found if isinstance(found, timedelta) else found.totimedelta(start=end), end)
    except (ValueError, OverflowError):
        raise ValueError(f"expected a number of days, or a duration such as P180D, got {text!r}") from None


def _checked(age: timedelta, end: datetime) -> timedelta:
    if age < timedelta(0):
        raise ValueError
    _ = end + age  # may be beyond the last date that there is
    return age


def expired(using: str, now: datetime) -> Iterator[QuerySet[Any, Any]]:
    """Yield the rows of hierarchies whose removal time has come, for the cleanup; the topmost instances go last.

    A cleanup that is killed on the way leaves those, and the next one finds what is left by them.
    """
    instances = ProcessInstance.objects.using(using)
    over = instances.filter(removal_time__lte=now).order_by("removal_time")
    while roots := list(over.values_list("pk", flat=True)[:_PAGE]):
        members = instances.filter(root_id__in=roots)
        last = None
        while ids := list(
            (members.filter(pk__gt=last) if last else members).order_by("pk").values_list("pk", flat=True)[:_PAGE]
        ):
            activities = ActivityInstance.objects.using(using).filter(instance_id__in=ids)
            yield activities.order_by("instance_id")
            last = ids[-1]
        yield members.exclude(pk__in=roots).order_by("root_id")
        yield instances.filter(pk__in=roots).order_by("pk")
