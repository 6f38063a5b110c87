"""Logging of commands, unless the project configures its own."""

from __future__ import annotations

import logging
from typing import IO, Any

_LEVELS = {0: logging.ERROR, 1: logging.WARNING, 2: logging.INFO, 3: logging.DEBUG}


def configure_logging(verbosity: int, stream: IO[str] | Any) -> None:
    """Send the logger ``jobexec`` to ``stream`` at the level of ``-v``: 1 failures, 2 each job, 3 everything.

    If the project gives the logger its own handlers, they and its level are kept. If the root logger has handlers,
    only these get the lines, so that no line appears twice.
    """
    logger = logging.getLogger("jobexec")
    if logger.handlers:
        return
    logger.setLevel(_LEVELS.get(verbosity, logging.DEBUG))
    if logger.hasHandlers():
        return
    handler = logging.StreamHandler(stream)
    handler.terminator = ""  # Django's OutputWrapper appends line ends itself
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)-7s %(message)s"))
    logger.addHandler(handler)
