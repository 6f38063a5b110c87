"""Wait for an action of another thread or process: a condition and a deadline, never a fixed pause."""

import inspect
import threading
import time
from collections.abc import Callable
from typing import Any

TIMEOUT = 120.0
_TURN = 0.01


def until(condition: Callable[[], Any], timeout: float = TIMEOUT, turn: float = _TURN) -> Any:
    """Return the first true value of the condition; fails if it stays false for `timeout` seconds."""
    end = time.monotonic() + timeout
    never = threading.Event()
    while not (value := condition()):
        assert time.monotonic() < end, f"not within {timeout} s: {_text(condition)}"
        never.wait(turn)
    return value


def _text(condition: Callable[[], Any]) -> str:
    try:
        return " ".join(inspect.getsource(condition).split())
    except (OSError, TypeError):
        return repr(condition)


def passed(event: threading.Event, timeout: float = TIMEOUT) -> None:
    """Wait for an event that must come."""
    assert event.wait(timeout), "the event did not come"


def threads(prefix: str = "jobexec-") -> list[str]:
    """Return the names of the executors' living threads."""
    return sorted(thread.name for thread in threading.enumerate() if thread.name.startswith(prefix))
