"""Handlers that only some of the executors know."""

import os
from pathlib import Path

from jobexec import job


@job
def only_here(path: str, text: str) -> None:
    """Leave a line, with the process that wrote it."""
    with Path(path).open("a") as file:
        file.write(f"{text} {os.getpid()}\n")
