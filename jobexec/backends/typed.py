"""The options of a task, for type checkers."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

from jobexec.handlers.options import CommonOptions


class TaskOptions(CommonOptions, total=False):
    """The options of ``@jobexec.options(...)`` above ``@task``."""

    sensitive: Sequence[str]
    aliases: Sequence[str]


class TaskCallOptions(CommonOptions, total=False):
    """The options of ``jobexec.options(task, ...)``, and of a task's ``using``."""

    priority: int
    queue_name: str
    run_after: datetime | timedelta
    delay: timedelta | float | str
    backend: str
