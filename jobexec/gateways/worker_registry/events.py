"""Counts the events of external jobs in this process, from the signals of the operations."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

from jobexec import signals
from jobexec.exceptions import ErrorThrown
from jobexec.models import AbstractJob, DeadLetterJob, ExternalWorkerJob, Job
from jobexec.operations.notify import external_observers
from jobexec.operations.rows.routing import is_external

from .counts import CANCELED, COMPLETED, CREATED, ERROR_THROWN, FAILED
from .workers import Registry


class Events:
    """Receives signals after :meth:`connect`, only those of the tables that hold external jobs.

    Failures of suspended jobs, which are few, are not received: an executor in the same process would then have to
    settle its own jobs in Python.
    """

    def __init__(self, registry: Registry) -> None:
        self._registry = registry

    def connect(self) -> None:
        """Connect the receivers; repeated calls have no further effect."""
        connected = "jobexec.gateways.worker_registry"
        signals.job_created.connect(self._created, ExternalWorkerJob, dispatch_uid=connected)
        external_observers.listen(self._completed)
        signals.job_cancelled.connect(self._cancelled, ExternalWorkerJob, dispatch_uid=connected)
        for table in (ExternalWorkerJob, Job):
            signals.job_failed.connect(self._failed, table, dispatch_uid=connected)
        signals.job_dead_lettered.connect(self._failed, DeadLetterJob, dispatch_uid=connected)

    def disconnect(self) -> None:
        """Disconnect the receivers."""
        connected = "jobexec.gateways.worker_registry"
        external_observers.unlisten(self._completed)
        for signal in (signals.job_created, signals.job_cancelled):
            signal.disconnect(sender=ExternalWorkerJob, dispatch_uid=connected)
        for table in (ExternalWorkerJob, Job):
            signals.job_failed.disconnect(sender=table, dispatch_uid=connected)
        signals.job_dead_lettered.disconnect(sender=DeadLetterJob, dispatch_uid=connected)

    def _created(self, jobs: Iterable[AbstractJob], **told: Any) -> None:
        self._count(CREATED, jobs)

    def _completed(self, type: str) -> None:
        self._registry.finished(COMPLETED, type)

    def _cancelled(self, jobs: Iterable[AbstractJob], **told: Any) -> None:
        self._count(CANCELED, jobs)

    def _failed(self, job: AbstractJob, error: BaseException | None, **told: Any) -> None:
        if isinstance(error, ErrorThrown):
            self._registry.finished(ERROR_THROWN, error.job_type or job.handler_type)
        elif is_external(job):
            self._registry.finished(FAILED, job.handler_type)

    def _count(self, action: str, jobs: Iterable[AbstractJob]) -> None:
        for type, number in Counter(job.handler_type for job in jobs).items():
            self._registry.finished(action, type, number)
