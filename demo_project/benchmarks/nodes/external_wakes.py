"""How long a job that is created takes to a worker that waits for it in a long poll."""

from __future__ import annotations

import random
import threading
import time
from typing import Any

from jobexec.operations.external.create import create_external_jobs
from jobexec.runtime.threads import spawn

from ..measure import BenchError, Sample
from ..noop import CATEGORY
from .external_doors import TYPE, Door, opened

_TIMES = 20
_WAIT = 30_000  # milliseconds
#: Seconds after which a poll that was sent waits, at the least; and how much more by chance.
_SETTLED, _CHANCE = 0.15, 0.1


def wake_ups(alias: str, door: str, port: int) -> dict[str, float]:
    """Milliseconds from the commit of a job to its arrival, at the one worker that waits: half, 90 %, the longest."""
    # The same pauses in each run.
    pauses = random.Random(1)
    order = {"alias": alias, "door": door, "port": port, "on_complete": False}
    with opened(order, "jobbench-waits") as opened_door:
        found = [_once(alias, opened_door, _SETTLED + pauses.random() * _CHANCE) for _ in range(_TIMES)]
    sample = Sample(_TIMES, 1.0, 0.0, tuple(found))
    return {f"wake_{name}": sample.percentile(share) for name, share in (("p50", 0.5), ("p90", 0.9), ("max", 1.0))}


def _once(alias: str, door: Door, pause: float) -> float:
    arrived: list[tuple[float, list[int]]] = []
    errors: list[Exception] = []

    def poll() -> None:
        try:
            keys = door.activate(1, _WAIT)
            arrived.append((time.monotonic(), keys))
        except Exception as error:
            errors.append(error)

    thread: threading.Thread = spawn("jobbench-poll", poll)
    thread.join(pause)
    columns: dict[str, Any] = {"handler_type": TYPE, "category": CATEGORY, "exclusive": False}
    create_external_jobs(alias, columns, [{"variables": {}}])
    committed = time.monotonic()
    thread.join(_WAIT / 1000 + 10)
    if errors:
        raise errors[0]
    if not arrived or len(arrived[0][1]) != 1:
        raise BenchError("A poll that waited for a job did not get it.")
    at, (key,) = arrived[0]
    door.complete(key)
    return max(0.0, at - committed)
