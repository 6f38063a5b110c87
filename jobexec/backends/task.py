"""A task of jobexec: a task of django.tasks with the options of a job."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from django.utils.module_loading import import_string

from jobexec import clock
from jobexec.exceptions import InvalidJob

from .compat import (
    DEFAULT_TASK_BACKEND_ALIAS,
    DEFAULT_TASK_PRIORITY,
    DEFAULT_TASK_QUEUE_NAME,
    InvalidTask,
    Task,
)
from .options import NONE, Options, check_call_options, check_task_options, moment

if TYPE_CHECKING:
    _Task = Task[..., Any]
else:
    _Task = Task  # Django's has no type parameters at run time

FIELDS = ("func", "priority", "backend", "queue_name", "run_after", "takes_context")


@dataclass(frozen=True, slots=True, kw_only=True, init=False)
class JobExecutorTask(_Task):
    """The result of ``@task`` for this backend: ``options`` are those of a job, checked on creation.

    Further keywords are options, too, so that ``@task(retries="R5/PT5M")`` works from Django 6.1 on, and with the
    backport; with Django 6.0 use ``jobexec.options``.
    """

    # In a class with slots, super() without arguments finds the class as it was before it got them.

    options: Mapping[str, Any]

    def __init__(
        self,
        *,
        func: Callable[..., Any],
        priority: int = DEFAULT_TASK_PRIORITY,
        backend: str = DEFAULT_TASK_BACKEND_ALIAS,
        queue_name: str = DEFAULT_TASK_QUEUE_NAME,
        run_after: datetime | timedelta | None = None,
        takes_context: bool = False,
        options: Mapping[str, Any] | None = None,
        **more: Any,
    ) -> None:
        values = (func, priority, backend, queue_name, _moment("run_after", run_after), takes_context)
        for name, value in zip(FIELDS, values, strict=True):
            object.__setattr__(self, name, value)
        object.__setattr__(self, "options", _checked(func, options, more))
        Task.__post_init__(self)

    def using(
        self,
        *,
        priority: int | None = None,
        queue_name: str | None = None,
        run_after: datetime | timedelta | None = None,
        backend: str | None = None,
        **options: Any,
    ) -> Any:
        """The same task with other values for calls made through the result; this one is not changed.

        Beside the four of django.tasks it takes ``delay`` (timedelta or seconds), and the options of a job. Raises
        InvalidTask, which names the error.
        """
        try:
            check_call_options(options)
        except InvalidJob as error:
            raise InvalidTask(f"{_path(self.func)}: {error}") from error
        if "delay" in options:
            run_after = _moment("delay", options.pop("delay"))
        given = {"priority": priority, "queue_name": queue_name, "run_after": run_after, "backend": backend}
        changes: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
        return type(self)(**values_of(self) | changes, options={**self.options, **options})

    def __reduce__(self) -> tuple[Any, ...]:
        return _restored, ({**values_of(self), "func": self.module_path, "options": self.options},)


def _checked(func: Any, options: Any, more: Mapping[str, Any]) -> Options:
    if not more and type(options) is Options:
        return options  # those of another task
    if not isinstance(options or {}, Mapping):
        raise InvalidTask(f"{_path(func)}: options: expected a mapping, got {options!r}.")
    merged = {**(options or {}), **more}
    if not merged:
        return NONE
    try:
        check_task_options(merged)
    except InvalidJob as error:
        raise InvalidTask(f"{_path(func)}: {error}") from error
    return Options(merged)


def _path(func: Any) -> str:
    return f"{getattr(func, '__module__', '')}.{getattr(func, '__qualname__', func)}"


def _moment(name: str, value: Any) -> Any:
    """Django's documentation says that ``run_after`` may be a timedelta; its code does not accept one."""
    try:
        when = moment(name, value, clock.now)
    except InvalidJob as error:
        raise InvalidTask(str(error)) from error
    except OverflowError:
        raise InvalidTask(f"{name}: {value!r} from now is past the year 9999.") from None
    if when is not None and not isinstance(when, datetime):
        raise InvalidTask(f"{name}: expected an aware datetime or a timedelta, got {value!r}.")
    return when


def values_of(task: Any) -> dict[str, Any]:
    """The fields of django.tasks of a task of any class."""
    return {name: getattr(task, name) for name in FIELDS}


def rebuilt(task: Any, **changes: Any) -> Any:
    """A copy with other values, unchecked: values in a row were valid when it was written."""
    copy = object.__new__(type(task))
    for field in fields(task):
        object.__setattr__(copy, field.name, changes.get(field.name, getattr(task, field.name)))
    return copy


def _restored(values: dict[str, Any]) -> Any:
    path = values["func"]
    try:
        func = import_string(path).func
    except (ImportError, AttributeError) as error:
        raise ValueError(f"Expected {path!r} to point to a Task instance.") from error
    return JobExecutorTask(**{**values, "func": func})
