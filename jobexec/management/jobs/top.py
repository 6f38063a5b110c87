"""``jobs top``: the same as ``jobs stats``, again and again."""

from __future__ import annotations

import os
import shutil
from argparse import ArgumentParser
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from typing import Any

from django.db import DatabaseError, connections
from django.utils.translation import gettext as _

from jobexec.operations.overview import overview

from . import values
from .keyboard import keys
from .screen import Exit, Screen
from .stats import add_period, show
from .stats_text import lines
from .text import clean

# The other screen of the terminal, without a cursor; and back.
_BEGIN, _END = "\x1b[?1049h\x1b[?25l", "\x1b[?25h\x1b[?1049l"
_HOME, _REST_OF_LINE, _REST = "\x1b[H", "\x1b[K", "\x1b[J"
_LEAST = timedelta(milliseconds=200)


class Top:
    """Refreshes in the terminal until q or Ctrl-C; p pauses. Elsewhere one plain snapshot."""

    name = "top"
    help = "Show the same as stats and refresh it: q or Ctrl-C ends, p pauses. One plain snapshot where no terminal is."
    positionals = ""

    def add_options(self, parser: ArgumentParser) -> None:
        add = parser.add_argument
        add("--interval", type=values.length, default=timedelta(seconds=2), metavar="TIME", help="default 2s")
        add("--once", action="store_true", help="one snapshot")
        add_period(parser)

    def run(self, options: Mapping[str, Any], screen: Screen) -> int:
        if options["once"] or screen.json or screen.width is None or os.environ.get("TERM", "dumb") == "dumb":
            show(options["period"], screen)
            return Exit.DONE
        try:
            with _other_screen(screen):
                _refresh(options, screen)
        except KeyboardInterrupt:
            pass
        return Exit.DONE


def _refresh(options: Mapping[str, Any], screen: Screen) -> None:
    interval, paused = max(_LEAST, options["interval"]).total_seconds(), False
    with keys() as keyboard:
        while True:
            if not paused:
                _draw(screen, options["period"])
            key = keyboard.wait(interval)
            if key == "q":
                return
            if key == "p":
                paused = not paused


def _draw(screen: Screen, period: timedelta) -> None:
    size = shutil.get_terminal_size()
    screen = replace(screen, width=size.columns)
    shown = [*_lines(screen, period), "", screen.style.MIGRATE_LABEL(_("q ends, p pauses"))]
    # One more than fits would scroll.
    text = "".join(f"{line}{_REST_OF_LINE}\r\n" for line in shown[: size.lines - 1])
    _write(screen, f"{_HOME}{text}{_REST}")


def _lines(screen: Screen, period: timedelta) -> list[str]:
    """What is to be seen; a database that is away just now is no reason to end."""
    try:
        return list(lines(overview(screen.using, period=period), screen))
    except DatabaseError as error:
        connections[screen.using].close()
        return [screen.style.ERROR(_("The database does not answer: %(error)s") % {"error": clean(str(error))})]


@contextmanager
def _other_screen(screen: Screen) -> Iterator[None]:
    _write(screen, _BEGIN)
    try:
        yield
    finally:
        _write(screen, _END)


def _write(screen: Screen, text: str) -> None:
    screen.out.write(text, ending="")
    screen.out.flush()
