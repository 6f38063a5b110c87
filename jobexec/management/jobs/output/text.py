"""Text from the database on a terminal."""

from __future__ import annotations

import textwrap
import unicodedata
from typing import Any

MORE = "…"


def clean(text: str) -> str:
    """The text on one line, without control characters."""
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() else " " for each in text)


def clean_lines(text: str) -> list[str]:
    """The lines of a text without control characters; tabs become spaces."""
    return [clean(line) for line in text.expandtabs(4).splitlines()]


def bulleted(text: str, bullet: str, width: int | None) -> list[str]:
    """Wrap the text to ``width`` columns after a bullet; None means 100 columns."""
    rest = " " * len(bullet)
    options: dict[str, Any] = {"initial_indent": bullet, "subsequent_indent": rest, "break_on_hyphens": False}
    return textwrap.wrap(clean(text), max(40, width or 100), **options) or [bullet]


def width_of(text: str) -> int:
    """The number of columns that the text takes: some characters take two, some none."""
    if text.isascii():
        return len(text)
    return sum(_width(each) for each in text)


def _width(sign: str) -> int:
    if unicodedata.combining(sign):
        return 0
    return 2 if unicodedata.east_asian_width(sign) in "WF" else 1


def cut(text: str, width: int, *, keep_end: bool = False, tail: int = 0) -> str:
    """The text cut to ``width`` columns; "…" replaces the rest. Its last ``tail`` characters, which are ASCII, stay."""
    if width_of(text) <= width:
        return text
    if tail:
        return cut(text[:-tail], width - tail) + text[-tail:]
    signs = text[::-1] if keep_end else text
    left, kept = width - len(MORE), ""
    for sign in signs:
        left -= _width(sign)
        if left < 0:
            break
        kept += sign
    return MORE + kept[::-1] if keep_end else kept + MORE
