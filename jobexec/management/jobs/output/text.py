"""Text from the database on a terminal."""

from __future__ import annotations

import textwrap
import unicodedata
from typing import Any

MORE = "…"


def clean(text: str) -> str:
    """On one line, and without what would steer the terminal."""
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() else " " for each in text)


def clean_lines(text: str) -> list[str]:
    """The lines of a text of many, each without what would steer the terminal; tabs are spaces."""
    return [clean(line) for line in text.expandtabs(4).splitlines()]


def bulleted(text: str, bullet: str, width: int | None) -> list[str]:
    """The text in lines of at most ``width`` columns, behind a bullet; None is a hundred."""
    rest = " " * len(bullet)
    options: dict[str, Any] = {"initial_indent": bullet, "subsequent_indent": rest, "break_on_hyphens": False}
    return textwrap.wrap(clean(text), max(40, width or 100), **options) or [bullet]


def width_of(text: str) -> int:
    """How many columns the text takes: some signs take two, some none."""
    if text.isascii():
        return len(text)
    return sum(_width(each) for each in text)


def _width(sign: str) -> int:
    if unicodedata.combining(sign):
        return 0
    return 2 if unicodedata.east_asian_width(sign) in "WF" else 1


def cut(text: str, width: int, *, keep_end: bool = False) -> str:
    """The text in at most ``width`` columns; "…" stands for the rest."""
    if width_of(text) <= width:
        return text
    signs = text[::-1] if keep_end else text
    left, kept = width - len(MORE), ""
    for sign in signs:
        left -= _width(sign)
        if left < 0:
            break
        kept += sign
    return MORE + kept[::-1] if keep_end else kept + MORE
