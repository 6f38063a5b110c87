"""The stack trace of an exception, as text."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterable
from contextlib import suppress
from types import CodeType, TracebackType
from typing import TypeVar

_Of = TypeVar("_Of")
_Place = tuple[CodeType, int]
_TRIES = 10
_MOST = 1000
_known: dict[tuple[_Place, ...], str] = {}


def stack_of(error: BaseException) -> str:
    """The text of ``traceback.format_exception``, in a fraction of its time for an error that recurs often.

    Most of that time goes into the marks below the lines, for which it parses the source code; and a burst of failures
    comes from the same few places.
    """
    if error.__cause__ is not None or error.__context__ is not None or isinstance(error, BaseExceptionGroup):
        return _joined(traceback.format_exception, error)
    places = _queue(error.__traceback__)
    frames = _known.get(places)
    if frames is None:
        if len(_known) >= _MOST:
            _known.clear()
        frames = _known[places] = _joined(traceback.format_tb, error.__traceback__)
    head = "Traceback (most recent call last):\n" if frames else ""
    return head + frames + "".join(traceback.format_exception_only(error))


def stack_without_texts(error: BaseException) -> str:
    """The places of an exception and of its causes, and their classes, without what their messages say."""
    parts: list[str] = []
    left, seen = [error], set[int]()
    while left:
        each = left.pop()
        if id(each) in seen:
            continue
        seen.add(id(each))
        kind = type(each)
        name = kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"
        frames = _joined(traceback.format_tb, each.__traceback__)
        parts.append(f"Traceback (most recent call last):\n{frames}{name}")
        before = each.__cause__ or (None if each.__suppress_context__ else each.__context__)
        left += [before] if before is not None else []
        left += each.exceptions if isinstance(each, BaseExceptionGroup) else []
    return "\n\n".join(reversed(parts)) + "\n"


def _joined(lines: Callable[[_Of], Iterable[str]], of: _Of) -> str:
    """Join lines with marks, for which Python parses source code.

    Before 3.11.9 and 3.12.3, parsing may fail while another thread parses, too ("AST constructor recursion depth
    mismatch"). Then it is tried again. A lock would be held while the project's code makes a text of its exception.
    """
    for _ in range(_TRIES - 1):
        with suppress(SystemError):
            return "".join(lines(of))
    return "".join(lines(of))


def _queue(step: TracebackType | None) -> tuple[_Place, ...]:
    places = []
    while step is not None:
        places.append((step.tb_frame.f_code, step.tb_lasti))
        step = step.tb_next
    return tuple(places)
