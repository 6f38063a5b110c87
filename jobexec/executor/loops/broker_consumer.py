"""Receives announcements of jobs from the broker; the acquisition locks the jobs."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

from jobexec import clock
from jobexec.broker import connection as broker
from jobexec.broker.message import NORMAL, UnknownMessage, decode, queue_name
from jobexec.operations.sql.errors import one_line

from ...runtime.threads import Loop, logger
from ..nodes.node import Node
from .broker_inbox import Inbox

#: The most messages delivered in advance of being locked.
PREFETCH = 100
#: Seconds that messages wait for a full pool before other nodes get them.
PATIENCE = 0.2
_IDLE, _BUSY, _PAUSED = 0.5, 0.01, 0.2  # the longest duration of one round, in seconds
_HEARTBEATS_EVERY = 4.0


class BrokerConsumer(Loop):
    """The connection of one engine to the broker; only this thread uses it.

    It consumes while the pool has room, with a prefetch of no more than that room (``resume``). If the pool is full for
    longer than PATIENCE, it requeues everything and stops consuming, so that idle nodes get it. A message is
    acknowledged when its jobs are locked, or need no handling here. ``heard`` is called when there is something in the
    inbox, ``missed`` when messages may have been lost.
    """

    def __init__(self, node: Node, heard: Callable[[], None], missed: Callable[[], None]) -> None:
        super().__init__(f"jobexec-broker-{node.using}")
        self.node, self._heard, self._missed = node, heard, missed
        self.inbox = Inbox()
        #: Whether it receives nothing because the broker does not answer.
        self.away = True
        self._room: int | None = PREFETCH
        self._connection: Any = None
        self._channel: Any = None
        self._consumer: Any = None
        self._pairs: list[tuple[str, str]] = []
        self._next_heartbeat = 0.0

    @property
    def paused(self) -> bool:
        """Whether it waits for the pool to have room."""
        return self._room is None

    def resume(self, room: int) -> None:
        """The pool has ``room`` free places again."""
        self._room = max(1, min(room, PREFETCH))
        self.wake()

    # The thread.

    def run_once(self) -> float:
        try:
            if self._connection is None:
                self._connect()
            self._answer()
            self._regulate()
            return self._listen()
        except BaseException:
            self._disconnect()
            raise

    def stop(self, timeout: float) -> bool:
        """Requeue what was delivered and not locked. The acquisition has ended by then."""
        stopped = super().stop(timeout)
        if stopped and self._connection is not None:
            with suppress(Exception):
                self._let_go()
                self._answer()
                # Explicitly, before its connection: messages just delivered by Redis would otherwise have no consumer.
                self._channel.close()
            self._disconnect()
        return stopped

    def _connect(self) -> None:
        self._connection = broker.connect(self.node.settings, consumes=True)
        self._channel = self._connection.channel()
        self._next_heartbeat = clock.monotonic() + _HEARTBEATS_EVERY
        if self._room is None:
            self._room = PREFETCH
        self.away = False
        self._missed()

    def _disconnect(self) -> None:
        connection, self._connection, self._channel, self._consumer = self._connection, None, None, None
        was_there, self.away = not self.away, True
        self.inbox.forget()
        if was_there and not self._stopping.is_set():
            self._missed()  # so that the table is polled more often from now on
        if connection is not None:
            with suppress(Exception):
                connection.release()

    def _answer(self) -> None:
        for delivery in self.inbox.settled():
            if delivery.given_back:
                delivery.message.requeue()
            else:
                delivery.message.ack()

    def _regulate(self) -> None:
        """Start or stop consuming, from the queues that the node serves now."""
        stuck = self.inbox.stuck_since
        if self._consumer is not None and stuck is not None and clock.monotonic() - stuck >= PATIENCE:
            self._let_go()
            self._answer()
        pairs = self.node.scope.pairs()
        if self._room is None or (self._consumer is not None and pairs == self._pairs):
            return
        self._cancel()
        self._consume(pairs, self._room)

    def _let_go(self) -> None:
        self._cancel()
        self._room = None
        self.inbox.give_back()

    def _cancel(self) -> None:
        consumer, self._consumer = self._consumer, None
        if consumer is not None:
            consumer.cancel()

    def _consume(self, pairs: list[tuple[str, str]], room: int) -> None:
        prefix = self.node.settings.broker_queue_prefix
        queues = [broker.queue(queue_name(prefix, self.node.using, *pair)) for pair in pairs]
        self._consumer = self._connection.Consumer(
            queues, channel=self._channel, on_message=self._take, no_ack=False, prefetch_count=room
        )
        self._consumer.consume()
        self._pairs = pairs

    def _listen(self) -> float:
        """Wait for messages, until there is something to send."""
        self._beat()
        if self._consumer is None:
            self._drain(0.001)
            return _PAUSED
        if self._drain(_BUSY if self.inbox.unsettled else _IDLE):
            while self._drain(0.0005):
                pass
        return 0.0

    def _drain(self, seconds: float) -> bool:
        """Receive messages; returns whether there were any."""
        try:
            self._connection.drain_events(timeout=seconds)
        except TimeoutError:
            return False
        return not self._stopping.is_set() and self.inbox.unsettled < PREFETCH

    def _beat(self) -> None:
        if clock.monotonic() >= self._next_heartbeat:
            self._next_heartbeat = clock.monotonic() + _HEARTBEATS_EVERY
            if self._connection.supports_heartbeats:
                self._connection.heartbeat_check()

    def _take(self, message: Any) -> None:
        level, ids = NORMAL, []
        try:
            ids = decode(message.body, self.node.using)
            level = broker.level(self._connection, message.properties.get("priority"))
        except UnknownMessage as error:
            # A message of another release; whatever it says, there may be jobs.
            logger.warning("%s: %s; polling the table instead", self.name, one_line(error))
            self._missed()
        self.inbox.add(message, ids, level)
        self._heard()
