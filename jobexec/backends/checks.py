"""System checks of tasks and their backends: ``docs/reference/checks.md`` explains each id. They open no database."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from django.apps import apps
from django.conf import settings as django_settings
from django.core.checks import CheckMessage, Error, Warning, register

from jobexec import conf
from jobexec.exceptions import InvalidSettings

from .compat import PACKAGE, Task
from .lookup import our_backends
from .registration import registered_tasks

if TYPE_CHECKING:
    from .backend import JobExecutorBackend


def register_checks() -> None:
    """Register the checks that are not about a single backend. May be called more than once."""
    register(check_project, "jobexec")


def check_project(**kwargs: Any) -> list[CheckMessage]:
    """W011 (tasks without TASKS), W012 (the backport is not an installed app)."""
    found: list[CheckMessage] = []
    ours, path = any(True for _ in our_backends()), _some_task()
    if path and not _is_set("TASKS"):
        found.append(
            Warning(
                f"There are tasks ({path} is one), but no setting TASKS: enqueue() runs them immediately.",
                hint='TASKS = {"default": {"BACKEND": "jobexec.backends.JobExecutorBackend"}}',
                id="jobexec.W011",
            )
        )
    if ours and PACKAGE == "django_tasks" and not apps.is_installed("django_tasks"):
        found.append(
            Warning(
                "TASKS names a backend of jobexec, but 'django_tasks' is not in INSTALLED_APPS: its checks do not run.",
                hint="Add 'django_tasks' to INSTALLED_APPS.",
                id="jobexec.W012",
            )
        )
    return found


def _is_set(name: str) -> bool:
    """Whether the project's settings define it, and not only Django's defaults."""
    settings: Any = django_settings
    return bool(settings.is_overridden(name))


def _some_task() -> str:
    for app in apps.get_app_configs():
        module = sys.modules.get(f"{app.name}.tasks")
        for value in vars(module).values() if module else ():
            if isinstance(value, Task):
                return value.module_path
    return ""


def check_backend(backend: JobExecutorBackend) -> list[CheckMessage]:
    """The problems of one alias in TASKS."""
    if not apps.is_installed("jobexec"):
        text = f"TASKS[{backend.alias!r}] is a backend of jobexec, but 'jobexec' is not in INSTALLED_APPS."
        return [Error(text, hint="Add 'jobexec' to INSTALLED_APPS.", id="jobexec.E012")]
    found: list[CheckMessage] = [*_beside(backend)]
    found += [
        Error(f"TASKS[{backend.alias!r}]['OPTIONS']: {key}: {message}.", hint=_HINT, id="jobexec.E009")
        for key, message in backend.config.problems
    ]
    if conf.problems(conf.raw_settings()):
        return found  # the checks of JOBEXEC report it; nothing can be compared with it
    return [*found, *(message for check in _CHECKS for message in check(backend))]


_KEYS = ("BACKEND", "QUEUES", "OPTIONS")


def _beside(backend: JobExecutorBackend) -> Iterator[CheckMessage]:
    said: Any = getattr(django_settings, "TASKS", {})
    for key in said.get(backend.alias, {}):
        if key not in _KEYS:
            text = f"TASKS[{backend.alias!r}]: the key {key!r} has no effect; expected one of {', '.join(_KEYS)}."
            yield Warning(text, hint="Put options of the backend in OPTIONS.", id="jobexec.W014")


_HINT = "See the tasks backend reference of jobexec for the keys and their values."


def _database(backend: JobExecutorBackend) -> Iterator[CheckMessage]:
    try:
        conf.get_settings().engine(backend.database)
    except InvalidSettings as error:
        where = "['OPTIONS']: DATABASE" if backend.config.database else ", by the routers"
        yield Error(
            f"TASKS[{backend.alias!r}]{where}: {error}",
            hint="Name a database in it for which JOBEXEC['ENGINES'] has an engine.",
            id="jobexec.E010",
        )


def _categories(backend: JobExecutorBackend) -> Iterator[CheckMessage]:
    known = conf.get_settings().categories
    for queue, category in backend.config.categories.items():
        if category not in known:
            yield Error(
                f"TASKS[{backend.alias!r}]['OPTIONS']['CATEGORIES']: the queue {queue!r} is in the category "
                f"{category!r}, which does not exist.",
                hint=_add_category(known),
                id="jobexec.E011",
            )


def _queues(backend: JobExecutorBackend) -> Iterator[CheckMessage]:
    known, mapped = conf.get_settings().categories, backend.config.categories
    for queue in sorted(backend.queues):
        if queue not in mapped and queue not in known:
            yield Warning(
                f"TASKS[{backend.alias!r}]['QUEUES']: there is no category for the queue {queue!r}, so enqueueing "
                "into it is refused.",
                hint=f"{_add_category(known)} Or map the queue in OPTIONS['CATEGORIES'].",
                id="jobexec.W008",
            )


def _add_category(known: tuple[str, ...]) -> str:
    return f"Add it to JOBEXEC['CATEGORIES'], which names {', '.join(map(repr, known))}."


def _modules(backend: JobExecutorBackend) -> Iterator[CheckMessage]:
    places = tuple(f"{app.name}.{module}" for app in apps.get_app_configs() for module in ("tasks", "jobs", "models"))
    places = (*places, *conf.get_settings().imports)
    for handler in registered_tasks():
        module = handler.function.__module__
        if handler.alias == backend.alias and not any(f"{module}.".startswith(f"{place}.") for place in places):
            yield Warning(
                f"The task {handler.name} is in a module that executors do not import automatically.",
                hint=f"Move it to the module 'tasks' of an app, or name {module!r} in JOBEXEC['IMPORTS'].",
                id="jobexec.W009",
            )


def _task_options(backend: JobExecutorBackend) -> Iterator[CheckMessage]:
    known = {name for handler in registered_tasks() for name in (handler.name, *handler.aliases)}
    for path in backend.config.of_task:
        if path not in known:
            yield Warning(
                f"TASKS[{backend.alias!r}]['OPTIONS']['TASK_OPTIONS'] names {path!r}, but there is no such task.",
                hint="It is the module and the name of the function, as in 'shop.tasks.send_receipt'.",
                id="jobexec.W010",
            )


_CHECKS: tuple[Callable[[JobExecutorBackend], Iterator[CheckMessage]], ...] = (
    _database,
    _categories,
    _queues,
    _modules,
    _task_options,
)
