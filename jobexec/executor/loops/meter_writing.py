"""Writes the counts of an engine, regularly and when it stops."""

from __future__ import annotations

from datetime import datetime

from jobexec import clock
from jobexec.operations.reports.failure_groups import flush_failures
from jobexec.operations.reports.meters import flush_meters, flushed
from jobexec.operations.reports.subjects import backlog
from jobexec.operations.sql.errors import one_line
from jobexec.operations.sql.locks import atomic

from ...runtime.threads import Loop, call_in_thread, logger
from ..nodes.meters import MeterBatch
from ..nodes.node import Node

#: Seconds after which a node that has only looked at an empty queue writes that.
_SELDOM = 900.0
_LAST = 10.0
#: Seconds.
_SAMPLED_EVERY, _SAMPLED_IDLE = 45.0, 300.0


def write_counted(using: str, reporter: str, counted: MeterBatch, timestamp: datetime) -> None:
    """Add the counts of ``reporter`` until ``timestamp`` to the meter log and the groups of failures."""
    if counted.counts:
        with atomic(using):
            flush_meters(using, reporter, counted.counts, timestamp)
            flush_failures(using, counted.failures)


class MeterWriting(Loop):
    """Adds the counts of one engine to the meter log and to the groups of failures, every METER_INTERVAL.

    A separate loop: waiting for the lock on a group must hold up neither outcomes nor the lease. A failed flush is
    tried again, unless it turns out to have been committed; what is counted meanwhile comes after it. So only a killed
    process loses counts, those of one interval.
    """

    def __init__(self, node: Node) -> None:
        super().__init__(f"jobexec-meters-{node.using}")
        self.node = node
        self._interval = node.settings.meter_interval.total_seconds()
        #: The counts to be written, and the time used in the last try.
        self._pending: tuple[MeterBatch, datetime | None] | None = None
        self._written_at = clock.monotonic()
        self._sampled_at = clock.monotonic()
        #: Whether jobs waited at the last sample.
        self._waiting = False

    def run_once(self) -> float:
        self._sample()
        seldom = clock.monotonic() - self._written_at >= _SELDOM
        if self._pending or seldom or self.node.meters.worth_writing:
            self.write()
        return self._interval

    def _sample(self) -> None:
        """Count how many jobs wait: often while some run or wait, otherwise now and then, as nodes may be paused."""
        now, lively = clock.monotonic(), self._waiting or self.node.meters.worth_writing
        if now - self._sampled_at >= (_SAMPLED_EVERY if lively else _SAMPLED_IDLE):
            sample = backlog(self.node.using, self.node.settings.categories)
            self._sampled_at, self._waiting = now, bool(sample)
            self.node.meters.sampled(sample)

    def write(self) -> None:
        """Write everything counted until now."""
        if self._pending:
            self._write_pending()
        self._pending = self.node.meters.take(), None
        self._write_pending()

    def _write_pending(self) -> None:
        assert self._pending is not None
        using, reporter = self.node.using, self.node.settings.node_name
        counted, tried = self._pending
        if tried is None or not flushed(using, reporter, tried):
            # Now, and not when it was counted: rows older than two hours never grow.
            now = clock.now(using)
            self._pending = counted, now
            with self.node.writing:
                write_counted(using, reporter, counted, now)
        self._pending = None
        self._written_at = clock.monotonic()

    def stop(self, timeout: float) -> bool:
        """Write the rest; without a database it is lost."""
        stopped = super().stop(timeout)
        if stopped:
            try:
                call_in_thread(f"{self.name}-last", self.write, min(timeout, _LAST))
            except Exception as error:
                logger.warning("The counts on %s since the last flush are lost: %s", self.node.using, one_line(error))
        return stopped
