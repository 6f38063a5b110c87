"""One measurement of one contender, in a process of its own: ``python -m demo_project.benchmarks.peers.turn``."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from statistics import quantiles
from typing import Any

from demo_project.benchmarks.peers import work

#: Seconds without any job after which a worker counts as standing still.
_STILL = 30.0
_APART = 0.05


class StandsStill(Exception):
    """A worker does nothing more, or more than it should."""


def enqueue(contender: Any, count: int) -> dict[str, float]:
    """Calls enqueued one by one, each committed."""
    contender.enqueue_one("write")  # connections
    began = time.perf_counter()
    for _ in range(count):
        contender.enqueue_one("write")
    return {"rate": count / (time.perf_counter() - began)}


def drain(contender: Any, count: int, kind: str = "write") -> dict[str, float]:
    """Jobs that wait for a worker, from the end of the first to that of the last."""
    contender.enqueue_many(kind, count)
    journal = _journal()
    with running(contender):
        _wait_for(count, journal)
    done = work.times(journal)
    if len(done) != count:
        raise StandsStill(f"{len(done)} runs of {count} jobs")
    return {"rate": (count - 1) / (done[-1] - done[0]) * 1e9}


def wait(contender: Any, count: int) -> dict[str, float]:
    """The same with jobs that wait."""
    return drain(contender, count, "wait")


def latency(contender: Any, count: int) -> dict[str, float]:
    """From the call that enqueues until the handler, one job at a time; the worker has nothing else to do."""
    journal, sent = _journal(), []
    with running(contender):
        for number in range(count + 1):
            time.sleep(random.uniform(_APART, 2 * _APART))
            sent.append(time.monotonic_ns())
            contender.enqueue_one("write")
            _wait_for(number + 1, journal, pause=0.0005)
    taken = [(end - begin) / 1e6 for begin, end in zip(sent, work.times(journal), strict=True)][1:]
    parts = quantiles(taken, n=100, method="inclusive")
    return {"p50": parts[49], "p99": parts[98]}


CASES: dict[str, Callable[[Any, int], dict[str, float]]] = {
    "enqueue": enqueue,
    "drain": drain,
    "wait": wait,
    "latency": latency,
}


@contextmanager
def running(contender: Any) -> Iterator[None]:
    """A worker, until the end of the block."""
    log = _journal().with_suffix(".log")
    with log.open("wb") as output:
        process = subprocess.Popen(contender.worker(), stdout=output, stderr=subprocess.STDOUT)
    try:
        yield
    except StandsStill as error:
        raise StandsStill(f"{error}; its worker said: {log.read_text(errors='replace')[-500:]}") from None
    finally:
        process.terminate()
        try:
            process.wait(_STILL)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _wait_for(count: int, journal: Path, pause: float = 0.02) -> None:
    """Wait until so many jobs were run. Raises StandsStill."""
    seen, since = 0, time.monotonic()
    while seen < count:
        time.sleep(pause)
        if (now := work.lines(journal)) != seen:
            seen, since = now, time.monotonic()
        elif time.monotonic() - since > _STILL:
            raise StandsStill(f"{seen} of {count} jobs were run, and none for {_STILL:.0f} s")


def _journal() -> Path:
    return Path(os.environ["PEERS_JOURNAL"])


def main(module: str, case: str, count: int) -> None:
    """Print what was measured as JSON, with the versions and settings."""
    if os.environ.get("DJANGO_SETTINGS_MODULE"):
        import django

        django.setup()
    contender = import_module(f"demo_project.benchmarks.peers.{module}")
    contender.prepare()
    try:
        figures = CASES[case](contender, count)
    finally:
        contender.prepare()
    print(json.dumps(figures | {"settings": contender.SETTINGS, "packages": contender.PACKAGES}))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
