"""``jobs stats``: the overview of an engine."""

from __future__ import annotations

from argparse import ArgumentParser
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from jobexec.operations.overview import overview

from ..arguments import values
from ..output.screen import Exit, Screen
from .as_object import as_object
from .as_text import lines

HOUR = timedelta(hours=1)


class Stats:
    """Write the overview of an engine once."""

    name = "stats"
    help = "Show problems, numbers of jobs, throughput, nodes, next timers, suspensions, batches, groups of failures."
    positionals = ""

    def add_options(self, parser: ArgumentParser) -> None:
        add_period(parser)

    def run(self, options: Mapping[str, Any], screen: Screen) -> int:
        show(options["period"], screen)
        return Exit.DONE


def add_period(parser: ArgumentParser) -> None:
    """Add the option ``--period``."""
    parser.add_argument(
        "--period",
        type=values.length,
        default=HOUR,
        metavar="TIME",
        help="how far back meters are read; default 1h",
    )


def show(period: timedelta, screen: Screen) -> None:
    """Write the overview, as text or JSON."""
    seen = overview(screen.using, period=period)
    if screen.json:
        screen.tell(as_object(seen))
        return
    for line in lines(seen, screen):
        screen.say(line)
