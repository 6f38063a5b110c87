"""``@history_handler``: declares the function that writes the records of ``record_history``."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING

from jobexec.conf import get_settings
from jobexec.exceptions import InvalidJob
from jobexec.retry import RetryPlan

from . import registry
from .signatures import check_name, check_runs

if TYPE_CHECKING:
    from jobexec.operations.maintenance.history_jobs import HistoryRecord

    Write = Callable[[list[HistoryRecord]], object]

_LONGEST_WAIT = 3600.0


class HistoryHandler:
    """A function that writes the records of one name."""

    def __init__(self, name: str, function: Write) -> None:
        self.name, self.function = name, function

    def __repr__(self) -> str:
        return f"<history handler {self.name}>"

    @property
    def retry_plan(self) -> RetryPlan:
        """HISTORY_JOB_RETRIES attempts; after each the wait doubles, from HISTORY_JOB_WAIT up to an hour."""
        settings = get_settings()
        first = settings.history_job_wait.total_seconds()
        return RetryPlan.exponential(settings.history_job_retries, first, maximum=max(first, _LONGEST_WAIT))


def history_handler(name: str) -> Callable[[Write], Write]:
    """Register the function that writes the records of ``record_history(name, ...)``. Use it in a module ``jobs``.

    The function gets a list of :class:`~jobexec.operations.maintenance.history_jobs.HistoryRecord`, from one call or
    from several. It runs in the transaction that deletes the records: its writes to their database (``record.using``)
    happen exactly once, and all other effects at least once. It must not commit. An error rolls back and costs a retry;
    ``DoNotRetry`` makes a dead letter at once. The decorator does not change the function.

    Raises :class:`~jobexec.exceptions.DuplicateHandler` if the name is taken.
    """
    check_name("@history_handler", name)

    def register(function: Write) -> Write:
        check_runs(f"@history_handler: {name}", function)
        if inspect.iscoroutinefunction(function):
            raise InvalidJob(f"@history_handler: {name!r} must not be an async function: it runs in a transaction.")
        registry.register_history(HistoryHandler(name, function))
        return function

    return register
