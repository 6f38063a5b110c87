"""Wait for the end of an instance without polling for it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Collection, Coroutine, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any
from uuid import UUID

from jobexec.conf import get_settings
from jobexec.exceptions import NotAllowed, TooManyRequests
from jobexec.gateways import long_polling
from jobexec.gateways.long_polling.places import left
from jobexec.identifiers import uuid7
from jobexec.operations.sql.session import is_of_connection
from jobexec.runtime.connections import leave_connections
from jobexec.sensitive import hide

from ..models import InstanceState, ProcessInstance
from ..models.instance import RUNNING
from ..store.flush import awaited_as
from .found import NotFound, StillRunning, WasCancelled

#: A client that wants to wait longer asks for the instance.
LONGEST = timedelta(minutes=10)
#: Seconds between two attempts while the database does not answer.
_PAUSE = 1.0

Allowed = Callable[[], Awaitable[bool]]
Pause = Callable[[Coroutine[Any, Any, object]], Awaitable[object]]


def seconds_for(milliseconds: int) -> float:
    """How long a client waits: 0 or less means the server's default."""
    asked = timedelta(milliseconds=max(0, min(milliseconds, 10**9)))
    return min(asked if asked > timedelta(0) else get_settings().gateway_long_poll_time, LONGEST).total_seconds()


@contextmanager
def place_for(hub: long_polling.Hub, client: str) -> Iterator[tuple[UUID, Any]]:
    """The id of an instance that is to be started, and a place where a coroutine waits for its end.

    Before anything is started: raises Overloaded if too many requests wait, of all clients or of this one.
    """
    id = uuid7()
    with hub.held(client), hub.waiting((awaited_as(id),)) as place:
        yield id, place


@contextmanager
def place_in_thread(hub: long_polling.Hub, client: str) -> Iterator[tuple[UUID, Any]]:
    """The same for a thread."""
    id = uuid7()
    with hub.waiting_in_thread((awaited_as(id),), client=client) as place:
        yield id, place


async def wait(
    hub: long_polling.Hub,
    place: Any,
    started: ProcessInstance,
    until: float,
    allowed: Allowed,
    pause: Pause | None = None,
    over: Callable[[], bool] = lambda: False,
) -> ProcessInstance:
    """The row of an instance when it has ended, at the latest when ``time.monotonic()`` is ``until``.

    ``allowed`` is asked after each wait; ``pause`` awaits the wait, and may end it; ``over``: nothing is to be awaited
    any more. Raises StillRunning, and NotAllowed for a client that has lost its access: after Unauthenticated, clients
    would repeat the start. While the database does not answer, it goes on waiting.
    """
    ended = started if started.state not in RUNNING else None
    looked = True
    while ended is None:
        if time.monotonic() >= until or place.over or over():
            raise _still_running(started)
        waiting = place.wait(until) if looked else asyncio.sleep(min(_PAUSE, left(until)))
        await (waiting if pause is None else pause(waiting))
        try:
            if not await allowed():
                raise _access_lost(started)
            ended = await hub.run(_end_of, hub.using, started.pk)
            looked = True
        except Exception as error:
            if not _may_pass(error):
                raise
            looked = False
    return ended


def wait_in_thread(
    hub: long_polling.Hub, place: Any, started: ProcessInstance, until: float, allowed: Callable[[], bool]
) -> ProcessInstance:
    """The same for a thread, which it blocks; meanwhile it holds no database connection."""
    ended = started if started.state not in RUNNING else None
    looked = True
    while ended is None:
        if time.monotonic() >= until or place.over:
            raise _still_running(started)
        leave_connections()
        if looked:
            place.wait(until)
        else:
            time.sleep(min(_PAUSE, left(until)))
        try:
            if not allowed():
                raise _access_lost(started)
            ended = _end_of(hub.using, started.pk)
            looked = True
        except Exception as error:
            if not _may_pass(error):
                raise
            looked = False
    return ended


def _may_pass(error: Exception) -> bool:
    """Whether it says nothing about the instance: that is committed, and any such answer would let it start again."""
    return is_of_connection(error) or isinstance(error, (long_polling.Overloaded, TooManyRequests))


def _end_of(using: str, id: UUID) -> ProcessInstance | None:
    row = ProcessInstance.objects.using(using).filter(pk=id).first()
    if row is None:
        raise NotFound("The process instance has ended, and is not kept.")
    return None if row.state in RUNNING else row


def _access_lost(row: ProcessInstance) -> NotAllowed:
    return NotAllowed(f"The client has lost its access; the process instance with key '{row.key}' goes on.")


def _still_running(row: ProcessInstance) -> StillRunning:
    return StillRunning(f"The process instance with key '{row.key}' has not ended in time; it goes on.")


def result_of(row: ProcessInstance, names: Collection[str] = ()) -> dict[str, Any]:
    """The variables of an instance that has ended, without what is sensitive; all of them without ``names``.

    Raises WasCancelled.
    """
    if row.state not in (InstanceState.COMPLETED, InstanceState.TERMINATED):
        reason = f": {row.delete_reason}" if row.delete_reason else "."
        raise WasCancelled(f"The process instance with key '{row.key}' was cancelled{reason}")
    variables: dict[str, Any] = row.final_variables or {}
    return {name: value for name, value in hide(variables).items() if not names or name in names}
