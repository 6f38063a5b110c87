"""Passes cancellations from the database to running jobs, and their progress to the database."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from uuid import UUID

from jobexec import signals
from jobexec.models import AbstractJob
from jobexec.operations.manage.cancel import cancelled_among
from jobexec.operations.rows.progress import Progress, clear_progress, write_progress
from jobexec.operations.values.acquired_job import AcquiredJob
from jobexec.operations.values.failure_log import failure_log

from ...runtime.connections import rest_connections
from ...runtime.threads import Loop
from ..nodes.node import Node
from ..run.running import RunningJobs

_INTERVAL = 1.0
_IDLE_ROUNDS = 5


class Monitor(Loop):
    """Looks once a second, and queries the database only for jobs that it already saw a second ago.

    So short jobs cost nothing. A row of progress exists while its job runs; rows left behind by a dead process are
    overwritten by the next attempt, or removed by recovery.
    """

    def __init__(self, node: Node, running: RunningJobs, in_hand: Callable[[], list[AcquiredJob]]) -> None:
        super().__init__(f"jobexec-monitor-{node.using}")
        self.node, self._running, self._in_hand = node, running, in_hand
        self._idle = 0
        self._seen: set[UUID] = set()
        self._written: set[UUID] = set()

    def start(self) -> None:
        signals.job_cancel_requested.connect(self._hear)
        super().start()

    def stop(self, timeout: float) -> bool:
        signals.job_cancel_requested.disconnect(self._hear)
        return super().stop(timeout)

    def _hear(self, using: str, job: AbstractJob, **kwargs: Any) -> None:
        """A job was cancelled in this process; perhaps by the job before it in its own batch, which runs now."""
        for each in self._in_hand() if using == self.node.using else ():
            if each.id == job.pk:
                each.cancel_requested = True

    def run_once(self) -> float:
        failure_log.finish()
        asked = self._cancel()
        written = self._progress()
        self._idle = 0 if asked or written else self._idle + 1
        if self._idle == _IDLE_ROUNDS:
            rest_connections()
        return _INTERVAL

    def _cancel(self) -> bool:
        # One job may be there twice: its retry, and the thread of an earlier attempt that is past its timeout.
        jobs = [job for job in self._in_hand() if job.using == self.node.using]
        asked = {job.id for job in jobs if job.id in self._seen and not job.cancel_requested}
        self._seen = {job.id for job in jobs}
        cancelled = set(cancelled_among(self.node.using, asked)) if asked else set()
        for job in jobs:
            if job.id in cancelled:
                job.cancel_requested = True
        return bool(asked)

    def _progress(self) -> bool:
        contexts = [each.context for each in self._running.all() if each.context.using == self.node.using]
        # One for each job, which may run twice after a lease was lost: an upsert refuses to write a row twice.
        news = {
            context.id: Progress(context.id, context.attempt, *progress)
            for context in contexts
            if (progress := context.take_progress()) is not None
        }
        ended = self._written - {context.id for context in contexts}
        if news:
            write_progress(self.node.using, news.values())
            self._written |= news.keys()
        if ended:
            clear_progress(self.node.using, ended)
            self._written -= ended
        return bool(news or ended)
