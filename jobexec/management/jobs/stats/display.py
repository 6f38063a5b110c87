"""A page that is redrawn on the alternate screen of the terminal, with rich where it is installed."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any, TypeAlias

from ..output.screen import Screen

Draw: TypeAlias = Callable[[Sequence[str]], None]

# Switch to the alternate screen without a cursor, and back.
_BEGIN, _END = "\x1b[?1049h\x1b[?25l", "\x1b[?25h\x1b[?1049l"
_HOME, _REST_OF_LINE, _REST = "\x1b[H", "\x1b[K", "\x1b[J"


def display(screen: Screen, *, plain: bool = False) -> AbstractContextManager[Draw]:
    """A context with a function that draws as many lines as fit; at its end the terminal is restored.

    rich (the extra ``top``) writes a page in one piece and supports more terminals; ``plain`` does not use it.
    """
    if not plain:
        try:
            from rich.live import Live
        except ImportError:
            pass
        else:
            return _with_rich(screen, Live)
    return _with_escape_codes(screen)


@contextmanager
def _with_rich(screen: Screen, live: Any) -> Iterator[Draw]:
    from rich.console import Console
    from rich.text import Text

    console = Console(file=_Raw(screen))  # type: ignore[arg-type]
    with live(console=console, screen=True, auto_refresh=False) as shown:
        yield lambda lines: shown.update(Text("\n", no_wrap=True).join(map(Text.from_ansi, lines)), refresh=True)


class _Raw:
    """The stream for rich: Django's wrapper would append a line end to each text."""

    def __init__(self, screen: Screen) -> None:
        self._out = screen.out

    def write(self, text: str) -> None:
        self._out.write(text, ending="")

    def __getattr__(self, name: str) -> Any:
        return getattr(self._out, name)


@contextmanager
def _with_escape_codes(screen: Screen) -> Iterator[Draw]:
    def write(text: str) -> None:
        screen.out.write(text, ending="")
        screen.out.flush()

    def draw(lines: Sequence[str]) -> None:
        # One line more would scroll.
        shown = lines[: shutil.get_terminal_size().lines - 1]
        write(_HOME + "".join(f"{line}{_REST_OF_LINE}\r\n" for line in shown) + _REST)

    write(_BEGIN)
    try:
        yield draw
    finally:
        write(_END)
