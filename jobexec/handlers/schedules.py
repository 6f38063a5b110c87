"""Schedules declared in code, and how the handlers of this process make the jobs of schedules."""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from typing import Any, NamedTuple

from django.db import router

from jobexec.conf import get_settings
from jobexec.exceptions import HandlerNotFound, InvalidJob, InvalidSchedule
from jobexec.json_values import shown
from jobexec.recurrence import parse, zone_named

from . import registry
from .function import JobFunction

logger = logging.getLogger("jobexec.schedules")

#: The values of :class:`jobexec.models.Misfire`; models load later than functions are decorated.
MISFIRES = ("skip", "once", "all")
#: Options that the schedule itself determines.
_NOT_OF_A_SCHEDULE = ("run_after", "delay", "database", "transaction")


class Declaration(NamedTuple):
    """A handler's declared schedule. ``timezone`` None is Django's setting TIME_ZONE."""

    handler_name: str
    expression: str
    timezone: str | None
    misfire: str


def declare(handler_name: str, expression: str, timezone: str | None = None, misfire: str = "once") -> None:
    """Run a handler again and again: executors write the schedule to the database when they start.

    For code that makes handlers: ``@job(schedule=...)`` calls it, and so may the tasks of any backend, after they have
    registered their handler under this name. A second declaration for a handler replaces the first. Raises
    :class:`~jobexec.exceptions.InvalidSchedule` for an invalid expression, time zone or misfire policy, and if the
    handler cannot be called without arguments, unless this process does not know the handler (yet).
    """
    declaration = Declaration(handler_name, *_checked(expression, timezone, misfire))
    with suppress(HandlerNotFound):  # a task, and this process has another backend
        _check_call(_callable(handler_name))
    registry.schedules[handler_name] = declaration


def declaration_of(
    handler: JobFunction[..., Any], expression: Any, timezone: Any = None, misfire: Any = "once"
) -> Declaration:
    """A declaration for a handler that is not registered yet, with the errors of :func:`declare`."""
    _refuse_own(handler.name)
    declaration = Declaration(handler.name, *_checked(expression, timezone, misfire))
    _check_call(handler)
    return declaration


def _checked(expression: Any, timezone: Any, misfire: Any) -> tuple[str, str | None, str]:
    parse(expression, "UTC" if timezone is None else timezone)
    if misfire not in MISFIRES:
        expected = ", ".join(map(repr, MISFIRES))
        raise InvalidSchedule(f"misfire: expected one of {expected}, got {shown(misfire)}.", "misfire")
    return expression.strip(), timezone, misfire


def _check_call(handler: JobFunction[..., Any]) -> None:
    try:
        handler.arguments.encode((), {})
    except InvalidJob as error:
        raise InvalidSchedule(f"schedule: the function is called without arguments. {error}", "args") from None


def schedule(target: Any, expression: str, *, timezone: str | None = None, misfire: str = "once") -> None:
    """Run a job or a task repeatedly: ``jobexec.schedule(send_report, "0 3 * * *")``.

    This is ``@job(schedule=...)`` for functions that are decorated elsewhere, and for tasks of django.tasks. Call it in
    the module of the function, so that it runs at import. Raises :class:`~jobexec.exceptions.InvalidSchedule`, see
    :func:`declare`.
    """
    name = target.name if isinstance(target, JobFunction) else getattr(target, "module_path", None)
    if name is None:
        raise InvalidSchedule(f"schedule: expected a job or a task, got {shown(target)}.", "handler_type")
    declare(name, expression, timezone, misfire)


def declarations(using: str) -> list[tuple[str, str, str, str]]:
    """The declarations for handlers whose jobs belong to the engine ``using``: name, expression, time zone, misfire."""
    known = databases()
    for name in sorted(registry.schedules.keys() - known):
        logger.warning("The schedule declared for %s is not saved: this process does not know that handler", name)
    mine = [registry.schedules[name] for name, database in known.items() if database == using]
    return [(each.handler_name, each.expression, zone_named(each.timezone), each.misfire) for each in mine]


def databases() -> dict[str, str]:
    """The handlers with a declared schedule that this process knows, and the databases of their jobs."""
    from jobexec.models import Job  # models load later than functions are decorated

    found = {}
    for name in sorted(registry.schedules):
        with suppress(HandlerNotFound):
            found[name] = _callable(name).options.get("database") or router.db_for_write(Job)
    return found


class HandlerJobs:
    """The handlers of this process as :class:`jobexec.operations.schedules.jobs.ScheduledJobs`."""

    def names(self) -> Collection[str]:
        """All their names and aliases."""
        return registry.known_names()

    def check(self, handler_type: str, args: Sequence[Any], kwargs: Mapping[str, Any], options: Any) -> None:
        """Raise HandlerNotFound, or InvalidSchedule for values that the handler would refuse."""
        from jobexec.operations.enqueue.create import check_resource  # models load later than functions are decorated

        handler = _with(_callable(handler_type), options)
        category = handler.options.get("category", "default")
        if category not in get_settings().categories:
            known = ", ".join(get_settings().categories)
            text = f"options: category: expected one of {known} (setting CATEGORIES), got {category!r}."
            raise InvalidSchedule(text, "options")
        try:
            handler.arguments.encode(args, kwargs)
        except InvalidJob as error:
            raise InvalidSchedule(f"args: {error}", "args") from None
        try:
            check_resource(handler.resource_for(args, kwargs))
        except Exception as error:  # of the project's function, too
            raise InvalidSchedule(f"options: {error}", "options") from None

    def encrypts(self, handler_type: str, options: Any) -> bool:
        """Whether the jobs of a handler are encrypted; its schedule would have to keep their arguments."""
        return _with(_callable(handler_type), options).encrypted

    def sensitive_names(self, handler_type: str) -> Collection[str]:
        """The names that it declares sensitive."""
        handler = registry.find_handler(handler_type)
        return handler.sensitive_names() if isinstance(handler, JobFunction) else ()

    def enqueue(
        self, using: str, handler_type: str, configuration: Mapping[str, Any], options: Any, due_date: datetime
    ) -> Any:
        """Insert a job that is due since ``due_date``; its wait counts from there."""
        handler = _with(_callable(handler_type), options)
        more: dict[str, Any] = {"run_after": due_date, "database": using}
        if handler.options.get("on_conflict") == "raise":
            more["on_conflict"] = "return"  # there is no caller for an error; the other job does the work
        return handler.using(**more).enqueue(*configuration["args"], **configuration["kwargs"])


def _callable(name: str) -> JobFunction[..., Any]:
    handler = registry.get_handler(name)
    if not isinstance(handler, JobFunction):
        raise InvalidSchedule(f"handler_type: {name!r} is not a function and cannot be scheduled.", "handler_type")
    _refuse_own(handler.name)
    return handler


def _refuse_own(name: str) -> None:
    # A user who may add schedules could otherwise let a batch do to any job what the batch may do to its own.
    if name.startswith(registry.OWN):
        raise InvalidSchedule(
            f"handler_type: {name!r} is an internal job of jobexec and cannot be scheduled.", "handler_type"
        )


def _with(handler: JobFunction[..., Any], options: Any) -> JobFunction[..., Any]:
    if not isinstance(options, Mapping):
        raise InvalidSchedule(f"options: expected a mapping, got {shown(options)}.", "options")
    for name in _NOT_OF_A_SCHEDULE:
        if name in options:
            raise InvalidSchedule(f"options: {name}: a schedule has its own time and database.", "options")
    try:
        return handler.using(**options)
    except InvalidJob as error:
        raise InvalidSchedule(f"options: {error}", "options") from None
