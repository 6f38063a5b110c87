"""Map rows of django-tasks-db to jobs and results, by the same rules as the backend's enqueue."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from django.core.serializers.json import DjangoJSONEncoder
from django.utils.translation import gettext as _

from jobexec.backends.backend import JobExecutorBackend
from jobexec.backends.compat import InvalidTask, InvalidTaskBackend, task_backends
from jobexec.backends.function import TaskFunction
from jobexec.backends.registration import find_task
from jobexec.encryption import NOT_RECORDED, envelope_of, stored_result
from jobexec.exceptions import InvalidJob, InvalidSettings
from jobexec.models import ResultStatus, TaskResult

from .source import StoredTask


class Left(Exception):
    """The row is not moved; the message is the reason."""


class Mapping:
    """Map rows to jobs and results. ``alias``: an alias in TASKS for all rows; None: each row's own."""

    def __init__(self, alias: str | None) -> None:
        self.alias = alias

    def backend(self, row: StoredTask) -> JobExecutorBackend:
        """The backend for the row. Raises Left."""
        alias = self.alias or row.backend_name
        try:
            backend = task_backends[alias]
        except InvalidTaskBackend:
            raise Left(_("TASKS has no alias %(alias)r; choose one with --backend") % {"alias": alias}) from None
        if not isinstance(backend, JobExecutorBackend):
            raise Left(_("TASKS[%(alias)r] is not a JobExecutorBackend; choose one with --backend") % {"alias": alias})
        return backend

    def job(self, row: StoredTask) -> tuple[str, dict[str, Any]]:
        """The database and the columns of the job that a waiting row becomes. Raises Left.

        The job has the id of the row. If the task was to run immediately, the job is due since the task was enqueued,
        so that it keeps its place.
        """
        return self._mapped(row, self._job)

    def result(self, row: StoredTask) -> tuple[str, TaskResult]:
        """The database and the task result of an ended row. Raises Left."""
        return self._mapped(row, self._result)

    def _mapped(self, row: StoredTask, of: Callable[[StoredTask, JobExecutorBackend], Any]) -> tuple[str, Any]:
        backend = self.backend(row)
        try:
            return backend.database, of(row, backend)
        except (InvalidTask, InvalidTaskBackend, InvalidJob, InvalidSettings, LookupError, TypeError) as error:
            raise Left(f"{row.task_path}: {error}") from error

    def _function(self, row: StoredTask, backend: JobExecutorBackend) -> TaskFunction:
        task = find_task(row.task_path)
        if task is None:
            text = _("%(path)s: this process does not know this task; name its module in the setting IMPORTS")
            raise Left(text % {"path": row.task_path})
        call = task.using(priority=row.priority, queue_name=row.queue_name, backend=backend.alias)
        backend.validate_task(call)
        return backend.function_of(call)

    def _columns(self, row: StoredTask, function: TaskFunction) -> dict[str, Any]:
        return function.job_columns(row.args_kwargs["args"], row.args_kwargs["kwargs"], row.pk)

    def _job(self, row: StoredTask, backend: JobExecutorBackend) -> dict[str, Any]:
        function = self._function(row, backend)
        columns = self._columns(row, function)
        times = {"create_time": row.enqueued_at, "due_date": row.not_before or row.enqueued_at}
        return {**columns, **self._made(row, function), **times}

    def _made(self, row: StoredTask, function: TaskFunction) -> dict[str, Any]:
        """The columns that the options of the task make of its arguments, which have been checked."""
        if not function.makes_options:
            return {}
        try:
            resource = function.made_of(row.args_kwargs["args"], row.args_kwargs["kwargs"]).resource
        except InvalidJob:
            raise
        except Exception as error:  # of the project's function
            secret = function.encrypted or function.sensitive_names()
            text = type(error).__name__ if secret else f"{type(error).__name__}: {error}"
            raise Left(f"{row.task_path}: resource: {text}") from error
        return {} if resource is None else {"resource": resource}

    def _result(self, row: StoredTask, backend: JobExecutorBackend) -> TaskResult:
        columns = self._columns(row, self._function(row, backend))
        secret, value, errors = envelope_of(columns["handler_configuration"]) is not None, row.return_value, row.errors
        if value is not None:
            value = json.loads(stored_result(json.dumps(value, cls=DjangoJSONEncoder), row.pk, secret=secret))
        if secret:
            errors = [{**error, "traceback": NOT_RECORDED} for error in errors]
        return TaskResult(
            id=row.pk,
            backend=backend.alias,
            **{name: columns[name] for name in ("handler_type", "handler_configuration")},
            status=ResultStatus(row.status),
            category=columns.get("category", "default"),
            priority=row.priority,
            run_after=row.not_before,
            create_time=row.enqueued_at,
            first_time=row.started_at,
            last_time=row.started_at,
            end_time=row.finished_at,
            return_value=value,
            errors=errors,
            workers=row.worker_ids,
        )
