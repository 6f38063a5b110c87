"""The backend for django.tasks: a task is a job."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from django.core.checks import CheckMessage
from django.db import router
from django.views.decorators.debug import sensitive_variables

from . import events, registration
from .compat import (
    BaseTaskBackend,
    InvalidTaskBackend,
    TaskResultDoesNotExist,
    normalize_json,
)
from .config import BackendOptions
from .function import TaskFunction
from .results import enqueued, of_sight
from .task import JobExecutorTask

_FUNCTIONS = 1000  # a task may be enqueued with any number of different options


class JobExecutorBackend(BaseTaskBackend):
    """Stores tasks in the job tables of jobexec, where executors find them like every other job.

    ``OPTIONS`` in TASKS may have DATABASE, CATEGORIES, TASK_OPTIONS, and any option of a job in upper case as the
    default of all tasks. Created before apps are loaded, and once in each thread: it has no state that threads share.
    """

    task_class = JobExecutorTask
    supports_defer = True
    supports_async_task = True
    supports_get_result = True
    supports_priority = True

    def __init__(self, alias: str, params: dict[str, Any]) -> None:
        super().__init__(alias, params)
        self.config = BackendOptions(self.options)
        self._functions: dict[Any, TaskFunction] = {}

    @property
    def database(self) -> str:
        """The alias of the database that contains the jobs of its tasks."""
        from jobexec.models import Job  # models load later than tasks are decorated

        return self.config.database or router.db_for_write(Job)

    def validate_task(self, task: Any) -> None:
        """Raise InvalidTask if this task cannot be run here. Registers a new task for executors in this process."""
        super().validate_task(task)
        known = registration.registered(task.module_path)
        if known is None or known.function is not task.func:
            registration.register_task(task, self)

    @sensitive_variables("args", "kwargs", "normal_args", "normal_kwargs", "result")
    def enqueue(self, task: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        """Insert a job for a call of this task, in the current transaction; returns its result, which is READY.

        It is rolled back with the caller's data and becomes visible with it. Raises InvalidTask, TypeError for
        arguments that are not JSON, and :class:`~jobexec.exceptions.InvalidJob` for arguments that do not fit the
        function or a category that does not exist; then nothing is inserted. For a unique task that exists already,
        the existing one is returned.
        """
        self.validate_task(task)
        normal_args: Any = normalize_json(list(args))
        normal_kwargs: Any = normalize_json(kwargs)
        row = self.function_of(task).at(task.run_after).enqueue(*normal_args, **normal_kwargs)
        if getattr(row, "is_duplicate", False):
            try:
                return self.get_result(str(row.pk))
            except TaskResultDoesNotExist:  # it ended longer ago than results are kept
                return enqueued(task, self.alias, row, normal_args, normal_kwargs)
        result = enqueued(task, self.alias, row, normal_args, normal_kwargs)
        events.enqueued(result, type(self), self.database)
        return result

    def function_of(self, task: Any) -> TaskFunction:
        """The function that makes the jobs of a task's calls. Raises InvalidTask, or InvalidTaskBackend for OPTIONS."""
        # Without run_after, which often differs in every call.
        key = task.func, task.priority, task.queue_name, task.takes_context, getattr(task, "options", None)
        function = self._functions.get(key)
        if function is None:
            if self.config.problems:
                problem = self.config.problems[0]
                raise InvalidTaskBackend(f"TASKS[{self.alias!r}]['OPTIONS']: {problem.key}: {problem.message}.")
            if len(self._functions) >= _FUNCTIONS:
                self._functions.clear()
            function = self._functions[key] = registration.handler_of(task, self)
        return function

    def get_result(self, result_id: str) -> Any:
        """The result of the task with this id, wherever and whenever it was enqueued through this alias.

        Raises TaskResultDoesNotExist: also for an id that is not one of a task of this alias, for a result that is
        older than RESULT_TTL, and for a task that is not known in this process.
        """
        from jobexec.operations.tasks.results import find_task_result

        sight = find_task_result(str(result_id), self.database)
        if sight is None or sight.backend != self.alias:
            raise TaskResultDoesNotExist(result_id)
        task = registration.find_task(sight.handler_type)
        if task is None:
            raise TaskResultDoesNotExist(f"{result_id}: the task {sight.handler_type!r} is not known in this process.")
        return of_sight(sight, task)

    def check(self, **kwargs: Any) -> list[CheckMessage]:
        """Check this alias in TASKS, and its tasks. Opens no database."""
        from .checks import check_backend

        return check_backend(self)
