"""The option ``--watch``."""

from __future__ import annotations

from argparse import ArgumentParser, ArgumentTypeError
from datetime import timedelta
from typing import Any

USUAL = timedelta(seconds=2)


def add_watch(parser: ArgumentParser, default: Any = None) -> None:
    """Add the option ``--watch`` to an action that only looks."""
    help = "repeat it every SECONDS, by default 2: q or Ctrl-C quits, p pauses"
    parser.add_argument("--watch", nargs="?", type=_seconds, const=USUAL, metavar="SECONDS", default=default, help=help)


def _seconds(text: str) -> timedelta:
    try:
        found = timedelta(seconds=float(text))
    except (ValueError, OverflowError):
        found = timedelta(0)
    if found <= timedelta(0):
        raise ArgumentTypeError(f"expected a number of seconds above 0, got {text!r}")
    return found
