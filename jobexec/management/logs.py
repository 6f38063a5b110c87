"""Log lines of a command for people, unless the project configures its own."""

from __future__ import annotations

import logging
from typing import IO, Any

_LEVELS = {0: logging.ERROR, 1: logging.WARNING, 2: logging.INFO, 3: logging.DEBUG}


def configure_logging(verbosity: int, stream: IO[str] | Any) -> None:
    """Send the logger ``jobexec`` to ``stream`` at the level of ``-v``: 1 failures, 2 each job, 3 everything.

    A project that gives the logger handlers of its own keeps them, and its level. One whose root logger has handlers
    gets the lines there, and not twice.
    """
    logger = logging.getLogger("jobexec")
    if logger.handlers:
        return
    logger.setLevel(_LEVELS.get(verbosity, logging.DEBUG))
    if logger.hasHandlers():
        return
    handler = logging.StreamHandler(stream)
    handler.terminator = ""  # Django's OutputWrapper ends its lines itself
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)-7s %(message)s"))
    logger.addHandler(handler)
