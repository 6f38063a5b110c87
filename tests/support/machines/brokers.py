"""The available brokers, with queues of the test's own. Tests are skipped where a broker is missing."""

import os
import socket
from typing import Any
from urllib.parse import urlsplit, urlunsplit
from uuid import uuid4

import pytest

from tests.support.suite import databases

ROOT = databases.ROOT

#: Their addresses; JOBEXEC_TEST_RABBITMQ and JOBEXEC_TEST_REDIS override them.
URLS = {
    "rabbitmq": os.environ.get("JOBEXEC_TEST_RABBITMQ", "amqp://guest:guest@127.0.0.1:5672//"),
    "redis": os.environ.get("JOBEXEC_TEST_REDIS", "redis://127.0.0.1:6379/0"),
}
_PORTS = {"rabbitmq": 5672, "redis": 6379}


def address(url: str, name: str) -> tuple[str, int]:
    parts = urlsplit(url)
    return parts.hostname or "127.0.0.1", parts.port or _PORTS[name]


def missing(name: str) -> str | None:
    """Return why this broker cannot be tested here; None if it responds."""
    try:
        import kombu  # noqa: F401
    except ImportError:
        return "kombu is not installed"
    try:
        socket.create_connection(address(URLS[name], name), timeout=5).close()
    except OSError as error:
        return f"no {name} at {URLS[name]}: {error}"
    return None


def parameters(*nightly: str) -> list[Any]:
    """Return both brokers as parameters of a fixture; skipped with the reason if they do not respond.

    Those named here are left to the nightly tier.
    """
    found = []
    for name in URLS:
        marks = [pytest.mark.nightly] if name in nightly else []
        if reason := missing(name):
            marks.append(pytest.mark.skip(reason=reason))
        found.append(pytest.param(name, marks=marks))
    return found


def moved(url: str, port: int) -> str:
    """Return the same URL with another port of this machine."""
    parts = urlsplit(url)
    user = f"{parts.username}:{parts.password}@" if parts.username else ""
    return urlunsplit(parts._replace(netloc=f"{user}127.0.0.1:{port}"))


class Broker:
    """A broker with queues of its own for one test."""

    def __init__(self, name: str, url: str) -> None:
        self.name, self.url, self.prefix = name, url, f"test-{uuid4().hex[:12]}"

    def settings(self, **more: Any) -> dict[str, Any]:
        """Return keys of JOBEXEC."""
        return {"DISPATCH": "broker", "BROKER_URL": self.url, "BROKER_QUEUE_PREFIX": self.prefix, **more}

    def queue(self, alias: str, category: str = "default", deployment: str = "") -> Any:
        from jobexec.broker.connection import queue
        from jobexec.broker.message import queue_name

        return queue(queue_name(self.prefix, alias, category, deployment))

    def messages(self, alias: str, **of: str) -> list[str]:
        """Take all waiting messages and return their bodies."""
        with self._channel() as channel:
            queue = self.queue(alias, **of)(channel)
            queue.declare()
            found = []
            while (message := queue.get(no_ack=True)) is not None:
                found.append(message.body if isinstance(message.body, str) else bytes(message.body).decode())
            return found

    def purge(self, alias: str, **of: str) -> int:
        """Delete all waiting messages; return their number."""
        with self._channel() as channel:
            queue = self.queue(alias, **of)(channel)
            queue.declare()
            return int(queue.purge())

    def say(self, alias: str, body: str, **of: str) -> None:
        """Send a message with any body."""
        with self._channel() as channel:
            queue = self.queue(alias, **of)(channel)
            queue.declare()
            channel.connection.client.Producer(channel).publish(
                body, routing_key=queue.name, content_type="application/json", content_encoding="utf-8"
            )

    def remove(self, alias: str, categories: tuple[str, ...] = ("default", "mail")) -> None:
        """Delete the queues."""
        with self._channel() as channel:
            for category in categories:
                queue = self.queue(alias, category)(channel)
                queue.declare()
                queue.delete()

    def _channel(self) -> Any:
        return _Channel(self)


class _Channel:
    def __init__(self, broker: Broker) -> None:
        self._broker = broker

    def __enter__(self) -> Any:
        from jobexec.broker.connection import connect
        from jobexec.conf import get_settings

        settings = get_settings().replace(broker_url=self._broker.url, broker_queue_prefix=self._broker.prefix)
        self._connection = connect(settings)
        channel = self._connection.channel()
        return channel

    def __exit__(self, *error: object) -> None:
        self._connection.release()
