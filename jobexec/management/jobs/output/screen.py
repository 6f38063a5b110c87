"""The output of the command: text and tables for people, JSON for programs."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import IntEnum
from typing import Any
from uuid import UUID

from django.core.management.base import CommandError

from .table import Cell, Column, table


class Exit(IntEnum):
    """The exit codes of the command."""

    DONE = 0
    ERROR = 1
    USAGE = 2
    LEFT_ALONE = 3


def usage(text: str) -> CommandError:
    """The error for wrong usage that is found after the command line was parsed."""
    return CommandError(text, returncode=Exit.USAGE)


@dataclass(frozen=True)
class Screen:
    """Writes the output of an action. ``width`` is that of the terminal, None if the output is not a terminal."""

    out: Any
    style: Any
    using: str
    json: bool = False
    width: int | None = None

    @classmethod
    def of(cls, out: Any, style: Any, using: str, *, json: bool) -> Screen:
        """Create a screen for this stream, with the width of the terminal if it is one."""
        return cls(out, style, using, json, shutil.get_terminal_size().columns if out.isatty() else None)

    def say(self, text: str = "", paint: Callable[[str], str] = str) -> None:
        """Write a line of text."""
        self.out.write(paint(text))

    def table(self, columns: Iterable[Column], rows: Iterable[Iterable[Cell | str]], indent: int = 0) -> None:
        """Write a table."""
        for line in self.lines(columns, rows, indent):
            self.say(line)

    def lines(self, columns: Iterable[Column], rows: Iterable[Iterable[Cell | str]], indent: int = 0) -> Iterator[str]:
        """The lines of a table, without writing them."""
        width = None if self.width is None else self.width - indent
        for line in table(list(columns), [list(row) for row in rows], width, self.style.MIGRATE_LABEL):
            yield " " * indent + line

    def tell(self, value: Any) -> None:
        """Write a JSON object on one line."""
        self.out.write(json.dumps(value, default=plain, ensure_ascii=False))


def plain(value: Any) -> Any:
    """Serialise types that JSON lacks: datetimes in ISO 8601 to the microsecond, durations in seconds."""
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, timedelta):
        return value.total_seconds()
    if isinstance(value, UUID):
        return str(value)
    if isinstance(value, set | frozenset):
        return sorted(value)
    raise TypeError(f"{type(value).__name__} has no form in JSON")


def ask(question: str) -> bool:
    """Ask at the terminal; True for yes. Raises CommandError if there is no terminal."""
    if not sys.stdin.isatty():
        raise usage("There is no terminal to ask for confirmation: use --yes.")
    try:
        return input(f"{question} [y/N] ").strip().lower() in ("y", "yes")
    except EOFError:
        return False
