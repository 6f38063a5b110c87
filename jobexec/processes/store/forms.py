"""The row of a user task, from its form."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from jobexec.json_values import shown

from ..definition import TimerKind
from ..engine import rows
from ..engine.exceptions import StepError
from ..engine.rows import Timer
from ..models import UserTask
from .timers import first

#: Of the texts among them.
_LONGEST = 255
_USUAL_PRIORITY, _HIGHEST_PRIORITY = 50, 2**31 - 1


def task_row(row: rows.UserTask, now: datetime, **columns: Any) -> UserTask:
    """The row of a task that begins now, with these columns beside its own. Raises StepError."""
    return UserTask(
        id=row.id,
        instance_id=row.instance,
        owner_id=row.owner,
        element_id=row.element,
        activity_id=row.activity,
        create_time=now,
        **form_columns(row.element, row.name, row.form, now),
        **columns,
    )


def form_columns(element: str, name: Any, form: Mapping[str, Any], now: datetime) -> dict[str, Any]:
    """Raises StepError for what is no date, no number, or too long: a value that an expression has given."""
    texts = {"name": name, "assignee": form.get("assignee"), "form_key": form.get("form_key")}
    return {
        **{field: _text(element, field, value) for field, value in texts.items()},
        **{field: _moment(element, field, form.get(field), now) for field in ("due_date", "follow_up_date")},
        "priority": _priority(element, form.get("priority")),
        "fields": form.get("fields") or [],
    }


def names(element: str, field: str, value: Any) -> list[str]:
    """Those in a list, or in a text with commas, each once. Raises StepError for other values and too long names."""
    if value is None:
        return []
    given = value.split(",") if isinstance(value, str) else value if isinstance(value, list | tuple) else [value]
    found = [str(each).strip() for each in given if isinstance(each, str | int) and not isinstance(each, bool)]
    if len(found) < len(given) or any(len(name) > _LONGEST for name in found):
        expected = f"names of at most {_LONGEST} characters, as a list or as a string with commas"
        raise StepError(element, f"Its {field} are {expected}, not {shown(value)}.")
    return list(dict.fromkeys(filter(None, found)))


def _text(element: str, field: str, value: Any) -> str:
    text = "" if value is None else str(value)
    if len(text) > _LONGEST or isinstance(value, bool | list | tuple | dict):
        raise StepError(element, f"Its {field} is a string of at most {_LONGEST} characters, not {shown(value)}.")
    return text


def _moment(element: str, field: str, value: Any, now: datetime) -> datetime | None:
    """A date or, as in Camunda, a duration that begins with the task."""
    if value is None or value == "":
        return None
    is_duration = isinstance(value, timedelta) or (isinstance(value, str) and value.startswith(("P", "-P")))
    try:
        return first(element, Timer(TimerKind.DURATION if is_duration else TimerKind.DATE, value, False), now)[0]
    except StepError:
        expected = "a date or a time such as 2026-01-31T12:00:00Z, or a duration such as P3D"
        raise StepError(element, f"Its {field} is {expected}, not {shown(value)}.") from None


def _priority(element: str, value: Any) -> int:
    if value is None or value == "":
        return _USUAL_PRIORITY
    try:
        number = int(value)
        if abs(number) <= _HIGHEST_PRIORITY and (isinstance(value, str) or number == value):
            return number
    except (TypeError, ValueError, OverflowError):
        pass
    raise StepError(element, f"Its priority is a whole number, not {shown(value)}.")
