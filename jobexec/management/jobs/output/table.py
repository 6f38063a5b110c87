"""Text tables: numbers aligned right, and no line longer than the terminal."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

from .text import clean, cut, width_of

_GAP = "  "

Paint: TypeAlias = Callable[[str], str]


@dataclass(frozen=True, slots=True)
class Column:
    """A column. ``least``: it may be cut to this many characters, at its beginning if ``keep_end``; 0: never cut.

    ``tail``: the number of its last characters that are kept when it is cut.
    ``first``: it is cut to its least before others are cut at all.
    ``extra``: the column is left out if there is no room, the highest number first; 0: always shown.
    """

    title: str
    right: bool = False
    least: int = 0
    keep_end: bool = False
    tail: int = 0
    extra: int = 0
    first: bool = False


class Cell(NamedTuple):
    """A text and its colour."""

    text: str
    paint: Paint = str


def table(
    columns: Sequence[Column], rows: Sequence[Sequence[Cell | str]], width: int | None, head: Paint = str
) -> Iterator[str]:
    """The lines of a table, not wider than ``width`` if possible; None means unlimited."""
    cells = [[_cell(cell) for cell in row] for row in rows]
    natural = _natural(columns, cells)
    shown = _fitting(columns, natural, width)
    widths = _widths([columns[at] for at in shown], [natural[at] for at in shown], width)
    yield head(_line([(columns[at].title, columns[at]) for at in shown], widths).rstrip())
    for row in cells:
        yield _painted([(row[at], columns[at]) for at in shown], widths)


def left_out(columns: Sequence[Column], rows: Sequence[Sequence[Cell | str]], width: int | None) -> list[str]:
    """The titles of the columns for which a table of this width has no room."""
    shown = _fitting(columns, _natural(columns, [[_cell(cell) for cell in row] for row in rows]), width)
    return [column.title for at, column in enumerate(columns) if at not in shown]


def _natural(columns: Sequence[Column], cells: Sequence[Sequence[Cell]]) -> list[int]:
    return [
        max([width_of(column.title), *(width_of(row[at].text) for row in cells)]) for at, column in enumerate(columns)
    ]


def _cell(cell: Cell | str) -> Cell:
    return Cell(clean(cell)) if isinstance(cell, str) else Cell(clean(cell.text), cell.paint)


def _fitting(columns: Sequence[Column], natural: Sequence[int], width: int | None) -> list[int]:
    """The indexes of the columns that fit."""
    shown = list(range(len(columns)))
    while width is not None:
        needed = sum(min(natural[at], columns[at].least or natural[at]) for at in shown) + len(_GAP) * (len(shown) - 1)
        last = max(shown, key=lambda at: columns[at].extra)
        if needed <= width or not columns[last].extra:
            break
        shown.remove(last)
    return shown


def _widths(columns: Sequence[Column], natural: Sequence[int], width: int | None) -> list[int]:
    """Cut the columns that may be cut until all fit: those that come first, then the widest."""
    widths = list(natural)
    if width is None:
        return widths
    while sum(widths) + len(_GAP) * (len(widths) - 1) > width:
        able = [at for at, column in enumerate(columns) if column.least and widths[at] > column.least]
        if not able:
            break
        widths[max(able, key=lambda at: (columns[at].first, widths[at]))] -= 1
    return widths


def _line(cells: Sequence[tuple[str, Column]], widths: Sequence[int]) -> str:
    return _GAP.join(_padded(text, column, width) for (text, column), width in zip(cells, widths, strict=True))


def _painted(cells: Sequence[tuple[Cell, Column]], widths: Sequence[int]) -> str:
    # Paint after padding, because escape codes have no width.
    parts = [cell.paint(_padded(cell.text, column, width)) for (cell, column), width in zip(cells, widths, strict=True)]
    return _GAP.join(parts).rstrip()


def _padded(text: str, column: Column, width: int) -> str:
    text = cut(text, width, keep_end=column.keep_end, tail=column.tail)
    space = " " * (width - width_of(text))
    return space + text if column.right else text + space
