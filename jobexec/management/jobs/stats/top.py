"""``jobs top``: ``jobs stats``, refreshed; and ``--watch``, which refreshes other actions."""

from __future__ import annotations

import os
import shutil
import time
from argparse import ArgumentParser
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from typing import Any, TypeAlias

from django.db import DatabaseError, connections
from django.utils.translation import gettext as _

from jobexec.operations.overview import overview

from ..action import Action
from ..arguments import values
from ..output.screen import Exit, Screen
from ..output.text import clean
from ..watched import USUAL
from .as_text import fitted
from .command import add_period, show
from .display import Draw, display
from .keyboard import Keyboard, keys

#: Makes the lines to draw for a screen of this height.
Look: TypeAlias = Callable[[Screen, int], list[str]]

_LEAST = timedelta(milliseconds=200)


class Top:
    """Refresh in the terminal until q or Ctrl-C; p pauses. Without a terminal, write one plain snapshot."""

    name = "top"
    help = (
        "Show what runs now, as much as fits, and refresh it: q or Ctrl-C quits, p pauses. Otherwise the same as stats."
    )
    positionals = ""

    def add_options(self, parser: ArgumentParser) -> None:
        add = parser.add_argument
        add("--interval", type=values.length, default=USUAL, metavar="TIME", help="default 2s")
        add("--once", action="store_true", help="one snapshot")
        add("--plain", action="store_true", help="draw without rich, even if it is installed")
        add_period(parser)

    def run(self, options: Mapping[str, Any], screen: Screen) -> int:
        if options["once"] or not _is_drawn(screen):
            show(options["period"], screen)
            return Exit.DONE

        def look(screen: Screen, height: int) -> list[str]:
            return fitted(overview(screen.using, period=options["period"]), screen, height)

        with suppress(KeyboardInterrupt), display(screen, plain=options["plain"]) as draw, keys() as keyboard:
            _refresh(look, options["interval"], screen, draw, keyboard)
        return Exit.DONE


def watch(action: Action, options: Mapping[str, Any], screen: Screen) -> int:
    """Run an action again and again; on a terminal on a page that is redrawn, otherwise one output after the other."""
    interval = options["watch"]

    def look(screen: Screen, height: int) -> list[str]:
        page = _Page()
        action.run(options, replace(screen, out=page))
        return page.lines

    with suppress(KeyboardInterrupt):
        if _is_drawn(screen):
            with display(screen) as draw, keys() as keyboard:
                _refresh(look, interval, screen, draw, keyboard)
        while not _is_drawn(screen):
            action.run(options, screen)
            screen.out.flush()
            time.sleep(max(_LEAST, interval).total_seconds())
    return Exit.DONE


class _Page:
    """Takes lines in place of the terminal."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def write(self, text: str) -> None:
        self.lines += text.split("\n")


def _is_drawn(screen: Screen) -> bool:
    """Whether the output is a terminal on which a page can be drawn."""
    return screen.width is not None and not screen.json and os.environ.get("TERM", "dumb") != "dumb"


def _refresh(look: Look, interval: timedelta, screen: Screen, draw: Draw, keyboard: Keyboard) -> None:
    seconds, paused = max(_LEAST, interval).total_seconds(), False
    shown: list[str] = []
    while True:
        if not paused:
            size = shutil.get_terminal_size()  # the terminal may have been resized
            height = size.lines - 2  # a line for the keys, and the last one, after which a terminal would scroll
            shown = _lines(look, replace(screen, width=size.columns), height)[:height]
            draw([*shown, screen.style.MIGRATE_LABEL(_("q quits, p pauses"))])
        key = keyboard.wait(seconds)
        if key == "q":
            return
        if key == "p":
            paused = not paused
            if paused:
                draw([*shown, screen.style.MIGRATE_LABEL(_("paused: q quits, p resumes"))])


def _lines(look: Look, screen: Screen, height: int) -> list[str]:
    """The lines to draw; a database that does not answer does not end the command."""
    try:
        return look(screen, height)
    except DatabaseError as error:
        connections[screen.using].close()
        return [screen.style.ERROR(_("The database does not answer: %(error)s") % {"error": clean(str(error))})]
