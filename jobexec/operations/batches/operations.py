"""What a batch can do to jobs: operations by name, and their arguments as JSON."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, TypeAlias

from django.utils.dateparse import parse_datetime

from jobexec.exceptions import InvalidJob

from ..manage.adjust import delete_jobs, requeue, retry_now, set_due_date, set_priority, set_retries
from ..manage.cancel import cancel
from ..manage.dead_letters import move_to_dead_letter
from ..manage.due_dates import recalculate_due_date
from ..manage.suspend import activate, suspend
from ..targets.for_each import OperationResult, Target
from ..values.arguments import check_moment, check_retries
from ..values.ranking import check_priority

#: What a stored argument means; raises InvalidJob for what it cannot be. Takes its name and its value.
Reader: TypeAlias = Callable[[str, Any], Any]


@dataclass(frozen=True, slots=True)
class Operation:
    """A verb of ``jobexec.operations`` on many jobs, and the arguments that it takes by name."""

    verb: Callable[..., Any]
    required: Mapping[str, Reader] = field(default_factory=dict)
    optional: Mapping[str, Reader] = field(default_factory=dict)

    def read(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """The arguments as the verb takes them. Raises InvalidJob, naming what is missing, unknown or wrong."""
        readers = {**self.required, **self.optional}
        missing, unknown = self.required.keys() - arguments.keys(), arguments.keys() - readers.keys()
        if missing or unknown:
            expected = ", ".join([*self.required, *(f"{name} (optional)" for name in self.optional)]) or "none"
            raise InvalidJob(f"arguments: expected {expected}, got {', '.join(sorted(arguments)) or 'none'}.")
        return {name: readers[name](name, value) for name, value in arguments.items()}

    def act(self, target: Target, arguments: Mapping[str, Any], using: str) -> OperationResult:
        """Do it to these jobs."""
        result: OperationResult = self.verb(target, using=using, **self.read(arguments))
        return result


def as_json(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Arguments as they are stored: moments to the microsecond."""
    return {name: value.isoformat() if isinstance(value, datetime) else value for name, value in arguments.items()}


def _retries(name: str, value: Any) -> int:
    check_retries(value)
    return int(value)


def _priority(name: str, value: Any) -> int:
    check_priority(value)
    return int(value)


def _text(name: str, value: Any) -> str:
    if not isinstance(value, str):
        raise InvalidJob(f"{name}: expected a text, got {value!r}.")
    return value


def _flag(name: str, value: Any) -> bool:
    if not isinstance(value, bool):
        raise InvalidJob(f"{name}: expected True or False, got {value!r}.")
    return value


def _moment(name: str, value: Any) -> datetime | None:
    if isinstance(value, str):
        with suppress(ValueError):  # well formed, but no moment
            value = parse_datetime(value) or value
    return check_moment(name, value)


#: What a batch can do, by name.
OPERATIONS: dict[str, Operation] = {
    "requeue": Operation(requeue, optional={"retries": _retries}),
    "set_retries": Operation(set_retries, required={"retries": _retries}),
    "retry_now": Operation(retry_now),
    "set_due_date": Operation(set_due_date, required={"due_date": _moment}),
    "set_priority": Operation(set_priority, required={"priority": _priority}),
    "suspend": Operation(suspend, optional={"at": _moment, "until": _moment}),
    "activate": Operation(activate, optional={"at": _moment}),
    "cancel": Operation(cancel),
    "delete": Operation(delete_jobs),
    "move_to_dead_letter": Operation(move_to_dead_letter, optional={"reason": _text}),
    "recalculate_due_date": Operation(recalculate_due_date, optional={"from_creation": _flag}),
}


def operation_named(name: str) -> Operation:
    """Raises InvalidJob, which lists the names, for an unknown one."""
    operation = OPERATIONS.get(name)
    if operation is None:
        raise InvalidJob(f"operation: expected one of {', '.join(OPERATIONS)}, got {name!r}.")
    return operation
