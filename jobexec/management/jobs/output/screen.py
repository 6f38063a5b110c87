"""Where the command writes: for people in words and columns, for programs in JSON."""

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
    """What the command's exit code means."""

    DONE = 0
    ERROR = 1
    USAGE = 2
    LEFT_ALONE = 3


def usage(text: str) -> CommandError:
    """Wrong usage, found after the command line was parsed."""
    return CommandError(text, returncode=Exit.USAGE)


@dataclass(frozen=True)
class Screen:
    """Writes what an action has to say. ``width`` is that of the terminal, None where nobody looks."""

    out: Any
    style: Any
    using: str
    json: bool = False
    width: int | None = None

    @classmethod
    def of(cls, out: Any, style: Any, using: str, *, json: bool) -> Screen:
        """For this stream: as wide as the terminal, if it is one."""
        return cls(out, style, using, json, shutil.get_terminal_size().columns if out.isatty() else None)

    def say(self, text: str = "", paint: Callable[[str], str] = str) -> None:
        """A line for people."""
        self.out.write(paint(text))

    def table(self, columns: Iterable[Column], rows: Iterable[Iterable[Cell | str]], indent: int = 0) -> None:
        """A table for people."""
        for line in self.lines(columns, rows, indent):
            self.say(line)

    def lines(self, columns: Iterable[Column], rows: Iterable[Iterable[Cell | str]], indent: int = 0) -> Iterator[str]:
        """The same, not yet written."""
        width = None if self.width is None else self.width - indent
        for line in table(list(columns), [list(row) for row in rows], width, self.style.MIGRATE_LABEL):
            yield " " * indent + line

    def tell(self, value: Any) -> None:
        """An object for programs, on one line."""
        self.out.write(json.dumps(value, default=plain, ensure_ascii=False))


def plain(value: Any) -> Any:
    """What JSON has no word for: moments in ISO 8601 to the microsecond, lengths of time in seconds."""
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
    """Whether the person at the terminal says yes. Refuses where there is none."""
    if not sys.stdin.isatty():
        raise usage("There is no terminal to ask for confirmation: use --yes.")
    try:
        return input(f"{question} [y/N] ").strip().lower() in ("y", "yes")
    except EOFError:
        return False
