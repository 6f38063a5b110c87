"""Announces committed jobs on the broker, in a separate thread. An enqueueing process never waits for a broker."""

from __future__ import annotations

import atexit
import logging
import os
import threading
import time
from collections import deque
from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import Any

from jobexec.conf import Settings, get_settings

from . import connection as broker
from .message import Announcement, encode, merged, pieces, queue_name

logger = logging.getLogger("jobexec.broker")

#: How many ids may wait for a slow or absent broker; more are dropped and counted.
MOST_WAITING = 100_000
#: Seconds that a process waits at its end for its last announcements.
LAST_WORDS = 2.0
_FIRST_PAUSE, _LONGEST_PAUSE = 0.2, 10.0


class Publisher:
    """A bounded buffer and the thread that empties it; merges waiting announcements into as few messages as possible.

    Announcements that cannot be sent are dropped, which is never an error: the slow poll of the nodes finds the jobs.
    ``published``, ``dropped`` (both in ids) and ``failures`` (of the broker) are counted.
    """

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._changed = threading.Condition()
        self._waiting: deque[Announcement] = deque()
        self._count = 0
        self._sending = False
        self._closed = False
        self._thread: threading.Thread | None = None
        self._connection: Any = None
        self._producer: Any = None
        self._declared: set[str] = set()
        self.published = self.dropped = self.failures = 0

    def announce(self, announcements: Iterable[Announcement]) -> None:
        """Accept announcements; returns at once, and never raises because of the broker."""
        with self._changed:
            for announcement in announcements:
                if self._closed or self._count + len(announcement.ids) > MOST_WAITING:
                    self._drop(len(announcement.ids))
                    continue
                self._waiting.append(announcement)
                self._count += len(announcement.ids)
            if self._thread is None and not self._closed:
                self._thread = threading.Thread(target=self._work, name="jobexec-publisher", daemon=True)
                self._thread.start()
            self._changed.notify_all()

    def flush(self, timeout: float) -> bool:
        """Wait until everything is sent; False after ``timeout`` seconds."""
        with self._changed:
            return self._changed.wait_for(lambda: not (self._waiting or self._sending), timeout)

    def close(self, timeout: float = LAST_WORDS) -> bool:
        """Send the rest for at most ``timeout`` seconds and end; returns whether everything was sent."""
        said = self.flush(timeout)
        with self._changed:
            self._closed = True
            self._changed.notify_all()
            thread = self._thread
        if thread is not None:
            thread.join(1.0)
        return said

    def _drop(self, count: int) -> None:
        if not self.dropped:
            logger.warning("The broker accepts announcements too slowly; jobs are found by polling")
        self.dropped += count

    # The thread.

    def _work(self) -> None:
        pause = _FIRST_PAUSE
        while (taken := self._take()) is not None:
            left = self._try(taken)
            with self._changed:
                self._waiting.extendleft(reversed(left))
                self._count -= sum(len(each.ids) for each in taken) - sum(len(each.ids) for each in left)
                self._sending = False
                self._changed.notify_all()
                if left and not self._closed:
                    self._changed.wait_for(lambda: self._closed, pause)
            pause = min(_LONGEST_PAUSE, 2 * pause) if left else _FIRST_PAUSE
        self._disconnect()

    def _take(self) -> list[Announcement] | None:
        with self._changed:
            self._changed.wait_for(lambda: self._waiting or self._closed)
            if self._closed:
                return None
            taken = list(self._waiting)
            self._waiting.clear()
            self._sending = True
            return taken

    def _try(self, taken: Sequence[Announcement]) -> list[Announcement]:
        """Send; returns what is left. After an error on an idle, perhaps dead connection it tries again at once."""
        left = [piece for announcement in merged(taken) for piece in pieces(announcement)]
        fresh = self._connection is None
        while left:
            try:
                self._send(left)
            except Exception as error:
                self._disconnect()
                if fresh:
                    self._say(error)
                    return left
                fresh = True
        return left

    def _send(self, left: list[Announcement]) -> None:
        """Send one after another; each is removed from the list once it is sent."""
        if self._producer is None:
            self._connect()
        while left:
            announcement = left[0]
            name = queue_name(self._settings.broker_queue_prefix, *announcement[:3])
            if name not in self._declared:
                broker.queue(name)(self._producer.channel).declare()
                self._declared.add(name)
            self._producer.publish(
                encode(announcement),
                routing_key=name,
                content_type="application/json",
                content_encoding="utf-8",
                delivery_mode=2,
                priority=broker.priority(self._connection, announcement.level),
                retry=False,
            )
            self.published += len(announcement.ids)
            del left[0]

    def _connect(self) -> None:
        self._connection = broker.connect(self._settings)
        self._producer = self._connection.Producer(self._connection.channel())
        if self.failures:
            logger.info("Announcing jobs on the broker again")

    def _disconnect(self) -> None:
        connection, self._connection, self._producer = self._connection, None, None
        self._declared.clear()
        if connection is not None:
            with suppress(Exception):
                connection.release()

    def _say(self, error: Exception) -> None:
        self.failures += 1
        level = logging.WARNING if self.failures == 1 or not self.failures % 100 else logging.DEBUG
        with suppress(Exception):  # a project's logging filter that fails must not cost the thread
            logger.log(level, "The broker does not answer (%s); jobs are found by polling meanwhile", error)


_publishers: dict[tuple[int, str, str], Publisher] = {}
_lock = threading.Lock()


def publisher() -> Publisher:
    """The publisher of this process for the broker in the settings; a forked process has its own."""
    settings = get_settings()
    key = os.getpid(), settings.broker_url or "", settings.broker_queue_prefix
    found = _publishers.get(key)
    if found is None:
        with _lock:
            found = _publishers.setdefault(key, Publisher(settings))
    return found


def close_publishers(timeout: float = LAST_WORDS) -> None:
    """Close all publishers of this process, within ``timeout`` seconds together."""
    end = time.monotonic() + timeout
    for key in [key for key in _publishers if key[0] == os.getpid()]:
        _publishers.pop(key).close(max(0.0, end - time.monotonic()))


def _forked() -> None:
    global _lock
    _lock = threading.Lock()  # the thread that may have held the old one does not exist here
    _publishers.clear()


atexit.register(close_publishers)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forked)
