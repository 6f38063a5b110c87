"""``OPTIONS`` of an alias in TASKS: parsed once, with all problems collected."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from typing import Any, NamedTuple

from jobexec.exceptions import InvalidJob
from jobexec.handlers.options import check_options

from .options import OF_HANDLER, OF_UNIQUE, Options, check_task_options, task_options

OWN = ("DATABASE", "CATEGORIES", "TASK_OPTIONS")


class Problem(NamedTuple):
    """A problem of one key."""

    key: str
    message: str


class BackendOptions:
    """The OPTIONS of one alias. Invalid ones are left out, and listed in ``problems``.

    ``database`` is None if the routers decide; ``categories`` maps names of queues, of which missing ones are their own
    categories; ``defaults`` are options for all tasks, ``of_task`` those of single ones by their paths.
    """

    def __init__(self, raw: Any) -> None:
        self.problems: list[Problem] = []
        self.database: str | None = None
        self.categories: dict[str, str] = {}
        self.defaults: dict[str, Any] = {}
        self.of_task: dict[str, dict[str, Any]] = {}
        if not isinstance(raw, Mapping):
            self.problems.append(Problem("OPTIONS", f"expected a dict, got {raw!r}"))
            return
        for key, value in raw.items():
            try:
                self._take(key, value)
            except InvalidJob as error:
                self.problems.append(Problem(str(key), str(error).rstrip(".")))

    def category(self, queue: str) -> str:
        """The category of a queue's jobs."""
        return self.categories.get(queue, queue)

    def merged(self, task: Any) -> Options:
        """The options of a task: its own override TASK_OPTIONS, which override the defaults."""
        own = getattr(task, "options", {})  # only our class of tasks has them
        said = {**self.of_task.get(task.module_path, {}), **own}
        is_unique = {**self.defaults, **said}.get("unique")
        # Defaults for unique tasks are no error for those that are not unique.
        defaults = {name: value for name, value in self.defaults.items() if is_unique or name not in OF_UNIQUE}
        return Options({**defaults, **said})

    def _take(self, key: Any, value: Any) -> None:
        if key == "DATABASE":
            check_options({"database": value})
            self.database = value
        elif key == "CATEGORIES":
            self.categories = _categories(value)
        elif key == "TASK_OPTIONS":
            self._take_tasks(value)
        else:
            name = _option(key)
            check_task_options({name: value}, handler=False)
            self.defaults[name] = value

    def _take_tasks(self, value: Any) -> None:
        if not isinstance(value, Mapping):
            raise InvalidJob(f"expected a dict of paths of tasks and their options, got {value!r}.")
        for path, options in value.items():
            try:
                if not isinstance(options, Mapping):
                    raise InvalidJob(f"expected a dict of options, got {options!r}.")
                check_task_options(options)
                self.of_task[path] = dict(options)
            except InvalidJob as error:
                self.problems.append(Problem(f"TASK_OPTIONS[{path!r}]", str(error).rstrip(".")))


def _option(key: Any) -> str:
    known = list(known_keys())
    if key not in known:
        close = get_close_matches(str(key).upper(), known, n=1)
        hint = f" Did you mean {close[0]!r}?" if close else ""
        raise InvalidJob(f"unknown; expected one of {', '.join(known)}.{hint}")
    return str(key).lower()


def known_keys() -> Iterator[str]:
    """All keys that OPTIONS may have."""
    yield from OWN
    yield from (name.upper() for name in task_options() if name not in OF_HANDLER)


def _categories(value: Any) -> dict[str, str]:
    if not isinstance(value, Mapping):
        raise InvalidJob(f"expected a dict of names of queues and their categories, got {value!r}.")
    for queue, category in value.items():
        check_options({"category": queue})
        check_options({"category": category})
    return dict(value)
