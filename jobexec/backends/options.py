"""The options of a task: those of ``@job``, except the ones that django.tasks has under other names."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from jobexec.exceptions import InvalidJob
from jobexec.handlers.options import JobOptions, check_options, owned, seconds, unknown_option
from jobexec.retry import RetryPlan

#: Options that a task has elsewhere, and where.
ELSEWHERE = {
    "priority": "set it with @task(priority=...) or using(priority=...)",
    "run_after": "pass it with a call: using(run_after=...)",
    "delay": "pass it with a call: using(delay=...)",
    "expires": "only jobs have it: @job(expires=...)",
    "wait_for": "only jobs have it: @job(wait_for=...)",
    "wait_timeout": "only jobs have it: @job(wait_timeout=...)",
    "category": "a task belongs to a queue: @task(queue_name=...), which OPTIONS['CATEGORIES'] may map",
    "database": "it is OPTIONS['DATABASE'] of the task's backend in TASKS",
    "transaction": "to enqueue after a commit, transaction.on_commit(partial(task.enqueue, ...), using=...)",
}

#: Options that qualify the option ``unique``.
OF_UNIQUE = ("unique_while", "unique_for", "on_conflict")

#: Options that are only valid where a task is declared.
OF_HANDLER = ("sensitive", "aliases")


class Options(Mapping[str, Any]):
    """Checked options of a task; immutable, and hashable although its values (lists, headers) may not be.

    It does not share them with the caller. Headers are equal if their JSON is: 1 is not True there.
    """

    __slots__ = ("_compared", "_hash", "_values")

    def __init__(self, values: Mapping[str, Any] | None = None) -> None:
        self._values: dict[str, Any] = owned(values or {})
        self._compared = self._values
        if "headers" in self._values:
            self._compared = self._values | {"headers": json.dumps(self._values["headers"], sort_keys=True)}
        self._hash: int | None = None

    def __getitem__(self, name: str) -> Any:
        return self._values[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __repr__(self) -> str:
        return repr(self._values)

    def __eq__(self, other: object) -> bool:
        return self._compared == other._compared if isinstance(other, Options) else self._values == other

    def __hash__(self) -> int:
        if self._hash is None:
            self._hash = hash(frozenset((name, _hash(value)) for name, value in self._compared.items()))
        return self._hash

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self._values,)


NONE = Options()


def _hash(value: Any) -> int:
    try:
        return hash(value)
    except TypeError:
        return 0  # equal values must have equal hashes; not the other way round


def task_options() -> dict[str, Any]:
    """The names and types of the options that a task may have, without those of its handler."""
    return {name: kind for name, kind in JobOptions.__annotations__.items() if name not in ELSEWHERE}


#: What is given to django.tasks itself.
_OF_DJANGO = ("queue_name", "run_after")


def check_task_options(options: Mapping[str, Any], *, handler: bool = True) -> None:
    """Raise :class:`~jobexec.exceptions.InvalidJob`, naming the option, if one is unknown or has a wrong value.

    ``handler``: also allow the options that are only valid where a task is declared.
    """
    known = (*task_options(), *(OF_HANDLER if handler else ()))
    for name in options:
        if name in ELSEWHERE:
            raise InvalidJob(f"{name}: not an option of a task; {ELSEWHERE[name]}.")
        if name not in known:
            raise unknown_option(name, (*known, *_OF_DJANGO))
    for name in OF_HANDLER:
        _check_names(name, options.get(name, ()))
    check_options(of_job(options))


def _check_names(name: str, value: Any) -> None:
    is_list = isinstance(value, Sequence) and not isinstance(value, str)
    if not is_list or not all(isinstance(each, str) and each for each in value):
        raise InvalidJob(f"{name}: expected a list of names, got {value!r}.")


def of_job(options: Mapping[str, Any]) -> dict[str, Any]:
    """The options of a job, without those of its handler."""
    return {name: value for name, value in options.items() if name not in OF_HANDLER}


def check_call_options(options: Mapping[str, Any]) -> None:
    """Raise InvalidJob for options of a call that are only valid in a declaration."""
    for name in OF_HANDLER:
        if name in options:
            raise InvalidJob(f"{name}: set it where the task is declared, not with a call.")
    if "retries" not in options:
        return
    check_options({"retries": options["retries"]})
    if not str(RetryPlan.parse(options["retries"])):
        raise InvalidJob("retries: a callable plan cannot be stored with a job; give it to @task(retries=...).")


class Delayed(datetime):
    """``run_after`` of a task with a delay: when it would run if it were enqueued now.

    For django.tasks it is a datetime. The ``delay`` counts from each enqueueing; None in what is computed from this.
    """

    delay: timedelta | None = None

    @classmethod
    def of(cls, now: datetime, delay: timedelta) -> Delayed:
        """Raises OverflowError if it is past the year 9999."""
        return cls._made(now + delay, delay)

    @classmethod
    def _made(cls, when: datetime, delay: timedelta | None) -> Delayed:
        made = cls.combine(when.date(), when.timetz())
        made.delay = delay
        return made

    def __reduce_ex__(self, protocol: Any) -> tuple[Any, ...]:
        return self._made, (datetime.combine(self.date(), self.timetz()), self.delay)


def moment(name: str, value: Any, now: Callable[[], datetime]) -> Any:
    """``run_after`` or ``delay`` of a call as a datetime for django.tasks, which checks any other value itself."""
    if name == "delay":
        value = seconds("delay", value)
    return Delayed.of(now(), value) if isinstance(value, timedelta) else value
