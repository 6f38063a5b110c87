"""The options of a task, as type checkers see them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

from jobexec.handlers.options import CommonOptions


class TaskOptions(CommonOptions, total=False):
    """What ``@jobexec.options(...)`` above ``@task`` takes."""

    sensitive: Sequence[str]
    aliases: Sequence[str]


class TaskCallOptions(CommonOptions, total=False):
    """What ``jobexec.options(task, ...)`` takes, and ``using`` of a task."""

    priority: int
    queue_name: str
    run_after: datetime | timedelta
    delay: timedelta | float
    backend: str
