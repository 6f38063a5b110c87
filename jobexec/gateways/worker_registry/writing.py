"""Writes the registry in memory to the table of workers, every GATEWAY_SEEN_INTERVAL."""

from __future__ import annotations

import atexit
import logging
import os
import socket
import threading
from datetime import datetime, timedelta

from jobexec import clock
from jobexec.conf import get_settings
from jobexec.operations.reports.worker_table import PRESENT_FOR, WorkerRow, forget_workers, write_workers
from jobexec.operations.sql.errors import one_line
from jobexec.operations.sql.server_time import time_of
from jobexec.runtime.threads import Loop, call_in_thread

from .events import Events
from .workers import Registry, WorkerRecord

logger = logging.getLogger("jobexec.gateway")

#: The maximum number of streams and of tenants written for each worker.
_SHOWN = 100
#: Seconds between two cleanups of old rows, and seconds that an ending process waits for its last write.
_CLEANUP, _LAST = 300.0, 2.0
#: Seconds between two writes of a worker that only waits; a write that fails is repeated before it counts as gone.
_TELL = PRESENT_FOR.total_seconds() / 3


def gateway_name() -> str:
    """The name of this process in the column ``gateway``: host and process id."""
    return f"{socket.gethostname()[:80]}:{os.getpid()}"


class Writing(Loop):
    """The background writer of a process. If the database is down, the write is delayed but nothing is lost."""

    def __init__(self, registry: Registry, using: str | None = None, gateway: str | None = None) -> None:
        super().__init__("jobexec-gateway-seen")
        self._registry, self._using = registry, using
        self.gateway = gateway or gateway_name()
        #: The version that was written last, and when all that were present were.
        self._version, self._told_at = 0, float("-inf")
        self._cleaned_at: float | None = None

    @property
    def using(self) -> str:
        """The database of the engine that the gateways serve."""
        return self._using or get_settings().gateway_database

    def run_once(self) -> float:
        self.write()
        settings = get_settings()
        if self._cleaned_at is None or clock.monotonic() - self._cleaned_at >= _CLEANUP:
            ttl = settings.gateway_worker_ttl
            forget_workers(self.using, ttl)
            self._registry.forget(clock.monotonic() - ttl.total_seconds())
            self._cleaned_at = clock.monotonic()
        return settings.gateway_seen_interval.total_seconds()

    def write(self, *, leaving: bool = False) -> None:
        """Write the workers that have changed, and now and then all that are present, which others must know of.

        With ``leaving``, write all of them as absent.
        """
        monotonic = clock.monotonic()
        everyone = leaving or monotonic - self._told_at >= _TELL
        sights = self._registry.sights(self._version, present=everyone)
        if sights:
            now = time_of(self.using)
            rows = [_row(each, now - timedelta(seconds=monotonic), monotonic, leaving) for each in sights]
            write_workers(self.using, self.gateway, rows)
            self._version = max(self._version, *(each.version for each in sights))
        if everyone:
            self._told_at = monotonic

    def leave(self) -> None:
        """Stop, and write once more that no worker waits or streams at this process any longer."""
        if self.stop(_LAST / 2):
            self.write(leaving=True)


def _row(sight: WorkerRecord, zero: datetime, monotonic: float, leaving: bool) -> WorkerRow:
    streams = [] if leaving else list(sight.streams.values())
    last_seen = monotonic if sight.present else sight.last_seen
    return WorkerRow(
        **sight.key._asdict(),
        tenants=list(sight.tenants[:_SHOWN]),
        streams=len(streams),
        polls=0 if leaving else sight.polls,
        activated=sight.activated,
        open_streams=[each.as_dict() for each in streams[:_SHOWN]],
        first_seen=zero + timedelta(seconds=sight.first_seen),
        last_seen=zero + timedelta(seconds=last_seen),
    )


registry: Registry
_lock = threading.Lock()
_writing: Writing | None = None
#: Whether the first sighting of a worker starts the thread. Tests disable it to avoid writes in the background.
starts_by_itself = True


def start(using: str | None = None) -> None:
    """Start the background writer of this process unless it runs. Called at the first sighting of a worker.

    A gateway that serves another database than GATEWAY_DATABASE calls it with ``using``.
    """
    global _writing
    if _writing is None:
        with _lock:
            if _writing is None:
                started = Writing(registry, using)
                _events.connect()
                started.start()
                _writing = started


def database() -> str:
    """The alias of the database that the workers are written to."""
    running = _writing
    return get_settings().gateway_database if running is None else running.using


def stop() -> None:
    """Stop the writer at the end of a gateway; write that no worker waits or streams here, if the database is up."""
    global _writing
    with _lock:
        ending, _writing = _writing, None
        if ending is not None:
            _events.disconnect()
    if ending is not None:
        try:
            call_in_thread("jobexec-gateway-leave", ending.leave, _LAST)
        except Exception as error:
            logger.debug("Could not record the end of this gateway: %s", one_line(error))


def _on_use() -> None:
    if _writing is None and starts_by_itself:
        start()


def _after_fork() -> None:
    """Start afresh: the child has seen no worker, and its parent's thread does not run in it."""
    global _writing, _lock
    _writing, _lock = None, threading.Lock()
    registry.clear()


registry = Registry(_on_use)
_events = Events(registry)
atexit.register(stop)
if hasattr(os, "register_at_fork"):  # not on Windows, which has no fork
    os.register_at_fork(after_in_child=_after_fork)
