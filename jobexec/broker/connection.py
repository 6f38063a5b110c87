"""Connections to brokers. The only file that imports kombu, and that knows how RabbitMQ and Redis differ."""

from __future__ import annotations

from typing import Any

from jobexec.conf import Settings
from jobexec.exceptions import JobExecError

from .message import HIGH, LOW, NORMAL

#: Seconds after which a broker that does not answer counts as away.
CONNECT_TIMEOUT = 3.0
_SOCKET_TIMEOUT = 10.0
_HEARTBEAT = 10

#: Seconds after which Redis redelivers an unacknowledged message to another consumer. A node holds one only until the
#: rows are locked, so it has died; RabbitMQ detects that by itself.
VISIBILITY_TIMEOUT = 30

#: How many messages RabbitMQ keeps for absent nodes; it drops the oldest beyond that, and polling finds their jobs.
_MOST_MESSAGES = 100_000
#: Seconds after which RabbitMQ deletes the unused queue of a deployment.
_UNUSED = 86_400

# In kombu's transport for Redis the lowest number has the highest priority.
_ON_REDIS = {HIGH: 0, NORMAL: 3, LOW: 6}


class BrokerMissing(JobExecError):
    """The extra ``broker`` is not installed."""


def kombu() -> Any:
    """Import the library. Raises BrokerMissing."""
    try:
        import kombu
    except ImportError as error:
        raise BrokerMissing("kombu is not installed: install jobexec with the extra 'broker'.") from error
    return kombu


def connect(settings: Settings, *, consumes: bool = False) -> Any:
    """Open a kombu connection to BROKER_URL; ``consumes``: with heartbeats. Raises kombu's errors."""
    url = settings.broker_url or ""
    prefix = settings.broker_queue_prefix
    options: dict[str, Any] = {"max_retries": 0}
    if _is_redis(url):
        options |= {
            "visibility_timeout": VISIBILITY_TIMEOUT,
            # Not Celery's keys: its messages would be redelivered after our timeout.
            "unacked_key": f"{prefix}:unacked",
            "unacked_index_key": f"{prefix}:unacked_index",
            "unacked_mutex_key": f"{prefix}:unacked_mutex",
            "unacked_mutex_expire": 10,
            "priority_steps": sorted(_ON_REDIS.values()),
            "socket_connect_timeout": CONNECT_TIMEOUT,
            "socket_timeout": _SOCKET_TIMEOUT,
            "socket_keepalive": True,
        }
    elif url.startswith(("amqp", "pyamqp")):
        options |= {"read_timeout": _SOCKET_TIMEOUT, "write_timeout": _SOCKET_TIMEOUT}
    connection = kombu().Connection(
        url, connect_timeout=CONNECT_TIMEOUT, heartbeat=_HEARTBEAT if consumes else 0, transport_options=options
    )
    try:
        connection.ensure_connection(max_retries=0, reraise_as_library_errors=False)
    except BaseException:
        connection.release()
        raise
    return connection


def broker_name(settings: Settings) -> str:
    """The broker's address for display: without a password."""
    try:
        return str(kombu().Connection(settings.broker_url).as_uri())
    except Exception:  # it is only a text
        return "a broker"


def queue(name: str) -> Any:
    """A durable queue; publishers and consumers declare it with equal arguments, so either may come first."""
    expires = _UNUSED if "@" in name else None
    return kombu().Queue(name, durable=True, max_priority=HIGH, max_length=_MOST_MESSAGES, expires=expires)


def priority(connection: Any, level: int) -> int:
    """The broker's number for this class of priority."""
    return _ON_REDIS[level] if connection.transport.driver_type == "redis" else level


def level(connection: Any, priority: object) -> int:
    """The class of a message of this priority; the middle one if there is none."""
    if connection.transport.driver_type != "redis":
        return priority if isinstance(priority, int) and LOW <= priority <= HIGH else NORMAL
    return next((level for level, said in _ON_REDIS.items() if said == priority), NORMAL)


def _is_redis(url: str) -> bool:
    return url.startswith(("redis", "rediss", "sentinel"))
