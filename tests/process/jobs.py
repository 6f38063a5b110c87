"""Handlers of the executors that are started as processes; files tell the test what happened, and when to go on."""

import os
import signal
import time
from pathlib import Path

from jobexec import job


def _append(path: str, text: str) -> None:
    with Path(path).open("a") as file:
        file.write(f"{text}\n")


@job
def note(path: str, text: str) -> None:
    """Leave a line, with the process that wrote it."""
    _append(path, f"{text} {os.getpid()}")


@job
def wait(path: str, text: str, go: str) -> None:
    """Leave a line, wait until the file `go` exists, leave another line."""
    _append(path, f"begun {text}")
    end = time.monotonic() + 60
    while not Path(go).exists() and time.monotonic() < end:
        time.sleep(0.01)
    _append(path, f"ended {text}")


@job
def die(path: str, how: str) -> None:
    """Take the process with it."""
    _append(path, f"died {how}")
    if how == "exit":
        os._exit(9)
    os.kill(os.getpid(), signal.SIGKILL)
    time.sleep(60)


@job(retries="R9/PT0.1S")
def fail_times(path: str, times: int) -> None:
    """Fail so many times."""
    _append(path, "try")
    if len(Path(path).read_text().splitlines()) <= times:
        raise ValueError("not yet")
