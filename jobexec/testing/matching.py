"""A test's expectation of an enqueued job, and a job's differences from it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID

from django.core.serializers.json import DjangoJSONEncoder
from django.utils.functional import Promise

from jobexec.handlers.function import JobFunction
from jobexec.handlers.registry import find_handler, known_names
from jobexec.models import SHARED_COLUMNS
from jobexec.redaction import by_name, call, shown_arguments
from jobexec.sensitive import HIDDEN, hide, is_sensitive

from .enqueued import EnqueuedJob, sensitive_of
from .targets import Target, handler_name

_ENCODED = (datetime, date, time, timedelta, Decimal, UUID, Promise)
_COLUMNS = frozenset(SHARED_COLUMNS) - {"handler_type", "handler_configuration"}


def as_stored(value: Any) -> Any:
    """The value as read back from a row; a value without a JSON form, such as ``mock.ANY``, stays as it is."""
    if isinstance(value, Mapping):
        return {_key(key): as_stored(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [as_stored(inner) for inner in value]
    return json.loads(json.dumps(value, cls=DjangoJSONEncoder)) if isinstance(value, _ENCODED) else value


def _key(key: Any) -> str:
    return key if isinstance(key, str) else str(next(iter(json.loads(json.dumps({key: None})))))


@dataclass(frozen=True, slots=True)
class Difference:
    """One difference between a job and the expectation."""

    name: str
    expected: Any
    got: Any
    hidden: bool = False

    def __str__(self) -> str:
        expected, got = (HIDDEN, HIDDEN) if self.hidden else (f"{self.expected!r}", f"{self.got!r}")
        return f"{self.name}: expected {expected}, got {got}"


class _Word(str):
    """A string whose repr() has no quotes."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


_MISSING = _Word("nothing")


@dataclass(slots=True)
class Expectation:
    """The expected job. Only given values are compared.

    ``at`` and ``delay`` (from its creation) are when the job is due, give or take ``within``.
    """

    handler: str
    arguments: dict[str, Any] = field(default_factory=dict)
    columns: dict[str, Any] = field(default_factory=dict)
    at: datetime | None = None
    delay: timedelta | None = None
    within: timedelta = timedelta(seconds=1)

    @classmethod
    def of(
        cls,
        target: Target,
        args: Sequence[Any] | None,
        kwargs: Mapping[str, Any] | None,
        at: datetime | None,
        delay: timedelta | float | None,
        columns: dict[str, Any],
    ) -> Expectation:
        """Raises TypeError for an unknown column, and for values that no job of this handler can have.

        A misspelt name is refused, because no job of that name is ever enqueued, and the test would always pass.
        """
        unknown = sorted(columns.keys() - _COLUMNS)
        if unknown:
            raise TypeError(f"{unknown[0]!r} is not a column of a job; arguments are given as args=... or kwargs=...")
        if at is not None and at.utcoffset() is None:
            raise TypeError(f"at: expected an aware datetime, got {at!r}.")
        if isinstance(delay, int | float):
            delay = timedelta(seconds=delay)
        name = handler_name(target)
        name = _checked_handler(name, args or (), kwargs or {})
        arguments = by_name(name, as_stored(list(args or ())), as_stored(dict(kwargs or {})))
        return cls(name, arguments, columns, at, delay)

    def differences(self, job: EnqueuedJob) -> list[Difference]:
        """The differences of a job of this handler; empty if it matches."""
        got, secret = job.arguments(), sensitive_of(self.handler)
        found = [
            Difference(name, hide(value, secret), hide(got.get(name, _MISSING), secret), is_sensitive(name, secret))
            for name, value in self.arguments.items()
            if name not in got or got[name] != value
        ]
        for name, value in self.columns.items():
            actual = getattr(job, name, _MISSING)
            if actual != value:
                found.append(Difference(name, value, actual))
        return found + self._due(job)

    def _due(self, job: EnqueuedJob) -> list[Difference]:
        found = []
        if self.at is not None and (job.due_date is None or abs(job.due_date - self.at) > self.within):
            found.append(Difference("due", _Word(self.at.isoformat()), _Word(_when(job.due_date))))
        if self.delay is not None:
            created = getattr(job, "create_time", None)
            delay = job.due_date - created if job.due_date and created else timedelta(0)
            if abs(delay - self.delay) > self.within:
                found.append(Difference("delay", _Word(self.delay), _Word(delay)))
        return found

    def __str__(self) -> str:
        parts = shown_arguments(hide(self.arguments, sensitive_of(self.handler)))
        parts += [f"{name}={value!r}" for name, value in self.columns.items()]
        parts += [f"due {self.at.isoformat()}"] if self.at else []
        parts += [f"{self.delay} after its creation"] if self.delay is not None else []
        return f"{self.handler}({', '.join(parts)})"


def _checked_handler(name: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> str:
    """The name in rows of the handler with this name or alias.

    A name that no handler has may be the type of an external job, except in a module that has handlers.
    """
    handler = find_handler(name)
    if isinstance(handler, JobFunction):
        try:
            handler.arguments.signature.bind_partial(*args, **kwargs)
        except TypeError as error:
            raise TypeError(f"{name}: {error}") from None
    elif handler is None:
        module = name.rpartition(".")[0]
        beside = [other for other in known_names() if module and other.rpartition(".")[0] == module]
        if beside:
            raise TypeError(f"No handler {name!r} is registered; {module} has {', '.join(sorted(beside))}.")
    return name if handler is None else handler.name


def shown(job: EnqueuedJob) -> str:
    """A job on one line."""
    where = type(job.job).__name__ if job.job is not None else "waits for the commit"
    due = f", due {_when(job.due_date)}" if job.due_date else ""
    return f"{call(job.handler, hide(job.arguments(), sensitive_of(job.handler)))} [{where}{due}]"


def _when(moment: datetime | None) -> str:
    return moment.isoformat() if moment else "at once"
