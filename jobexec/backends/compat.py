"""``django.tasks`` (Django 6.0 and later), or otherwise its backport ``django_tasks``: the same names from either.

Each has its own classes; if both are installed, Django's are used.
"""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING

from django.core.exceptions import ImproperlyConfigured

#: The package in use; "" if there is none.
PACKAGE = next((name for name in ("django.tasks", "django_tasks") if find_spec(name) is not None), "")

if TYPE_CHECKING or PACKAGE == "django.tasks":
    from django.tasks import TaskContext, TaskResult, TaskResultStatus, task, task_backends
    from django.tasks.backends.base import BaseTaskBackend
    from django.tasks.base import (
        DEFAULT_TASK_BACKEND_ALIAS,
        DEFAULT_TASK_PRIORITY,
        DEFAULT_TASK_QUEUE_NAME,
        Task,
        TaskError,
    )
    from django.tasks.exceptions import (
        InvalidTask,
        InvalidTaskBackend,
        TaskResultDoesNotExist,
        TaskResultMismatch,
    )
    from django.tasks.signals import log_task_enqueued, log_task_started, task_enqueued, task_finished, task_started
    from django.utils.json import normalize_json
elif PACKAGE == "django_tasks":
    from django_tasks import TaskContext, TaskResult, TaskResultStatus, task, task_backends
    from django_tasks.backends.base import BaseTaskBackend
    from django_tasks.base import (
        DEFAULT_TASK_BACKEND_ALIAS,
        DEFAULT_TASK_PRIORITY,
        DEFAULT_TASK_QUEUE_NAME,
        Task,
        TaskError,
    )
    from django_tasks.exceptions import (
        InvalidTaskBackendError as InvalidTaskBackend,
    )
    from django_tasks.exceptions import (
        InvalidTaskError as InvalidTask,
    )
    from django_tasks.exceptions import (
        TaskResultDoesNotExist,
        TaskResultMismatch,
    )
    from django_tasks.signals import log_task_enqueued, log_task_started, task_enqueued, task_finished, task_started
    from django_tasks.utils import normalize_json
else:
    raise ImproperlyConfigured(
        "jobexec.backends needs django.tasks (Django 6.0) or its backport: install jobexec with the extra 'backport'."
    )

__all__ = [
    "DEFAULT_TASK_BACKEND_ALIAS",
    "DEFAULT_TASK_PRIORITY",
    "DEFAULT_TASK_QUEUE_NAME",
    "PACKAGE",
    "BaseTaskBackend",
    "InvalidTask",
    "InvalidTaskBackend",
    "Task",
    "TaskContext",
    "TaskError",
    "TaskResult",
    "TaskResultDoesNotExist",
    "TaskResultMismatch",
    "TaskResultStatus",
    "log_task_enqueued",
    "log_task_started",
    "normalize_json",
    "task",
    "task_backends",
    "task_enqueued",
    "task_finished",
    "task_started",
]
