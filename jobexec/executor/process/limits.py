"""Limits after which a process drains and is restarted: against handlers and libraries that leak."""

from __future__ import annotations

import random
import re
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import TypeAlias

import isodate

from jobexec import clock
from jobexec.exceptions import NodeRefused

from ..job_executor import JobExecutor

#: Why this process should end, for display; None while it need not. Called several times a second.
Reason: TypeAlias = Callable[[], str | None]

_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([KMGT]?)(?:I?B)?", re.IGNORECASE)
_POWERS = {"": 0, "K": 1, "M": 2, "G": 3, "T": 4}
_JITTER = 0.1


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of one process, after which it is restarted; None is no limit. Sizes are bytes."""

    jobs: int | None = None
    lifetime: timedelta | None = None
    rss: int | None = None

    def __bool__(self) -> bool:
        return any(limit is not None for limit in (self.jobs, self.lifetime, self.rss))


def reasons(executor: JobExecutor, limits: Limits) -> list[Reason]:
    """All reasons to replace this process by a new one: the limits, and the executor itself.

    Up to a tenth is added to jobs and lifetime at random: processes started together must not end together.
    """
    found: list[Reason] = [lambda: executor.restart_reason]
    if limits.jobs is not None:
        most = limits.jobs + random.randint(0, int(limits.jobs * _JITTER))
        found.append(lambda: _jobs(executor, most))
    if limits.lifetime is not None:
        seconds = limits.lifetime.total_seconds() * (1 + random.random() * _JITTER)
        end = clock.monotonic() + seconds
        found.append(lambda: f"it has run for {seconds:.0f} s (--max-lifetime)" if clock.monotonic() >= end else None)
    if limits.rss is not None:
        size = limits.rss
        found.append(lambda: _memory(executor, size))
    return found


def _jobs(executor: JobExecutor, most: int) -> str | None:
    done = executor.pool.done
    return f"{done} jobs are done (--max-jobs)" if done >= most else None


def _memory(executor: JobExecutor, limit: int) -> str | None:
    # Not before the first job: a process that is too big from the start would be restarted in vain, for ever.
    size = resident_size() if executor.pool.done else 0
    return f"it uses {text_of(size)} of memory (--max-rss)" if size >= limit else None


def check_memory(limit: int | None) -> None:
    """Check that --max-rss can work. Raises NodeRefused if the memory cannot be read, or exceeds the limit already."""
    if limit is None:
        return
    try:
        size = resident_size()
    except OSError as error:
        raise NodeRefused(f"--max-rss: {error}") from error
    if size >= limit:
        raise NodeRefused(
            f"--max-rss {text_of(limit)}: a process of this project uses {text_of(size)} before its first job; "
            "expected more than that."
        )


def resident_size() -> int:
    """The memory of this process in bytes, as it is in RAM now; where there is no /proc, its peak so far.

    Raises OSError where the platform reports neither.
    """
    try:
        import resource
    except ImportError:
        raise OSError("this platform does not report how much memory a process uses") from None
    try:
        return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()
    except (OSError, IndexError, ValueError):
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return peak if sys.platform == "darwin" else peak * 1024


def parse_count(text: str) -> int | None:
    """Parse a number of jobs; 0 is no limit. Raises ValueError."""
    if not re.fullmatch(r"\d{1,18}", text.strip()):
        raise ValueError(f"expected a whole number of jobs, or 0 for no limit, got {text!r}")
    return int(text) or None


def parse_duration(text: str) -> timedelta | None:
    """Parse seconds, or an ISO 8601 duration without months and years; 0 is no limit. Raises ValueError."""
    message = f"expected a number of seconds or an ISO 8601 duration such as PT1H, or 0 for no limit, got {text!r}"
    if not any(map(str.isdecimal, text)):
        raise ValueError(message)  # isodate reads "PT" as a duration of zero
    try:
        parsed = isodate.parse_duration(text) if text.strip().startswith("P") else timedelta(seconds=float(text))
    except (ValueError, OverflowError) as error:
        raise ValueError(message) from error
    if not isinstance(parsed, timedelta) or parsed < timedelta(0):
        raise ValueError(message)
    return parsed or None


def parse_size(text: str) -> int | None:
    """Parse bytes, or a number with K, M, G or T (powers of 1024): 512M, 1.5G; 0 is no limit. Raises ValueError."""
    match = _SIZE.fullmatch(text.strip())
    if match is None:
        raise ValueError(f"expected a size such as 512M or 1.5G, or 0 for no limit, got {text!r}")
    number, unit = match.groups()
    return int(float(number) * 1024 ** _POWERS[unit.upper()]) or None


def text_of(size: float) -> str:
    """Format bytes for display: 1.5G."""
    return next(_units(size))


def _units(size: float) -> Iterator[str]:
    for unit in ("", "K", "M", "G"):
        if size < 1024:
            yield f"{size:.4g}{unit}"
        size /= 1024
    yield f"{size:.4g}T"
