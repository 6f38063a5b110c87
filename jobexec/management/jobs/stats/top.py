"""``jobs top``: ``jobs stats``, refreshed."""

from __future__ import annotations

import os
import shutil
from argparse import ArgumentParser
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from typing import Any

from django.db import DatabaseError, connections
from django.utils.translation import gettext as _

from jobexec.operations.overview import overview

from ..arguments import values
from ..output.screen import Exit, Screen
from ..output.text import clean
from .as_text import lines
from .command import add_period, show
from .display import Draw, display
from .keyboard import Keyboard, keys

_LEAST = timedelta(milliseconds=200)


class Top:
    """Refresh in the terminal until q or Ctrl-C; p pauses. Without a terminal, write one plain snapshot."""

    name = "top"
    help = "Show the same as stats and refresh it: q or Ctrl-C ends, p pauses. Without a terminal, one plain snapshot."
    positionals = ""

    def add_options(self, parser: ArgumentParser) -> None:
        add = parser.add_argument
        add("--interval", type=values.length, default=timedelta(seconds=2), metavar="TIME", help="default 2s")
        add("--once", action="store_true", help="one snapshot")
        add("--plain", action="store_true", help="draw without rich, even if it is installed")
        add_period(parser)

    def run(self, options: Mapping[str, Any], screen: Screen) -> int:
        if options["once"] or screen.json or screen.width is None or os.environ.get("TERM", "dumb") == "dumb":
            show(options["period"], screen)
            return Exit.DONE
        with suppress(KeyboardInterrupt), display(screen, plain=options["plain"]) as draw, keys() as keyboard:
            _refresh(options, screen, draw, keyboard)
        return Exit.DONE


def _refresh(options: Mapping[str, Any], screen: Screen, draw: Draw, keyboard: Keyboard) -> None:
    interval, paused = max(_LEAST, options["interval"]).total_seconds(), False
    shown: list[str] = []
    while True:
        if not paused:
            size = shutil.get_terminal_size()  # the terminal may have been resized
            shown = _lines(replace(screen, width=size.columns), options["period"])[: size.lines - 3]
            draw([*shown, "", screen.style.MIGRATE_LABEL(_("q ends, p pauses"))])
        key = keyboard.wait(interval)
        if key == "q":
            return
        if key == "p":
            paused = not paused
            if paused:
                draw([*shown, "", screen.style.MIGRATE_LABEL(_("paused: q ends, p continues"))])


def _lines(screen: Screen, period: timedelta) -> list[str]:
    """The lines to draw; a database that does not answer does not end the command."""
    try:
        return list(lines(overview(screen.using, period=period), screen))
    except DatabaseError as error:
        connections[screen.using].close()
        return [screen.style.ERROR(_("The database does not answer: %(error)s") % {"error": clean(str(error))})]
