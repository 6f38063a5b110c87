"""Functions of regular expressions, by RE2: its time grows with the length of the text, whatever the pattern is.

Python's own ``re`` can take exponential time for a pattern of a model or a variable. Without google-re2 (extra
``re2``) these functions do not exist, and `split` takes plain delimiters only. The syntax is that of RE2, which is
Java's without backreferences and lookarounds.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ..errors import EvaluationError
from ..functions import Functions

try:
    import re2
except ImportError:
    re2 = None

FUNCTIONS = Functions()
#: Those that need google-re2.
NAMES = frozenset({"extract", "matches", "replace"})
NEEDS = "needs google-re2: install jobexec with the extra re2"
_FLAGS = frozenset("ims")
#: Bytes that one pattern may take when it is compiled. RE2's own limit is eight times as high.
_MAX_MEMORY = 1024 * 1024
#: For each so many characters of a pattern, the characters of the text are paid for once more.
_PATTERN_UNIT = 64


def is_available() -> bool:
    return re2 is not None


def split(evaluation: Any, string: str, pattern: str) -> list[str]:
    found = _compiled(evaluation, "split", string, pattern)
    parts, start = [], 0
    for match in _found(found, string):
        if match.end() == match.start() == 0:
            continue  # as in Java: no empty part before a match of no characters
        parts.append(string[start : match.start()])
        start = match.end()
        evaluation.charge(1)
    return [*parts, string[start:]]


def _matches(evaluation: Any, string: str, pattern: str, flags: str | None = None) -> bool:
    """Whether the pattern fits a part of the string, as in XPath: ``^`` and ``$`` are written where they are meant."""
    return _compiled(evaluation, "matches", string, pattern, flags).search(string) is not None


def _replace(evaluation: Any, string: str, pattern: str, replacement: str, flags: str | None = None) -> str:
    """``$1`` to ``$9`` in the replacement are groups, and ``$0`` is the whole match."""
    found = _compiled(evaluation, "replace", string, pattern, flags)
    pieces = _pieces(replacement, found.groups)
    parts, start = [], 0
    for match in _found(found, string):
        part = string[start : match.start()] + "".join(
            piece if isinstance(piece, str) else match.group(piece) or "" for piece in pieces
        )
        evaluation.charge_text(len(part))
        evaluation.charge(1)
        parts.append(part)
        start = match.end()
    parts.append(string[start:])
    evaluation.charge_text(sum(map(len, parts)))
    return "".join(parts)


def _extract(evaluation: Any, string: str, pattern: str) -> list[str]:
    """All matches."""
    found = []
    for match in _found(_compiled(evaluation, "extract", string, pattern), string):
        evaluation.charge(1)
        found.append(match.group())
    return found


if is_available():
    FUNCTIONS.register("matches", "input: string, pattern: string, flags?: string|null")(_matches)
    FUNCTIONS.register("replace", "input: string, pattern: string, replacement: string, flags?: string|null")(_replace)
    FUNCTIONS.register("extract", "input: string, pattern: string")(_extract)


def _found(pattern: Any, text: str) -> Iterator[Any]:
    """The matches in a text. RE2's wrapper gives one of no characters twice if it is not at the beginning."""
    last = None
    for match in pattern.finditer(text):
        if match.span() != last:
            yield match
        last = match.span()


def _compiled(evaluation: Any, function: str, text: str, pattern: str, flags: str | None = None) -> Any:
    """The pattern, ready to be applied to this text, which is paid for."""
    unknown = sorted(set(flags or "") - _FLAGS)
    if unknown:
        raise EvaluationError(f"{function}() knows the flags i, m and s, got {unknown[0]!r}")
    evaluation.charge_text(len(pattern))
    evaluation.charge(len(text) * (1 + len(pattern) // _PATTERN_UNIT) // _PATTERN_UNIT)
    options = re2.Options()
    options.max_mem = _MAX_MEMORY
    options.log_errors = False
    try:
        return re2.compile(f"(?{flags}){pattern}" if flags else pattern, options=options)
    except re2.error as error:
        reason = error.args[0] if error.args else ""
        if isinstance(reason, bytes):
            reason = reason.decode(errors="replace")
        raise EvaluationError(
            f"{function}() takes a regular expression of RE2, got {pattern[:50]!r}: {reason}"
        ) from None


def _pieces(replacement: str, groups: int) -> list[str | int]:
    r"""Texts and numbers of groups. ``\$`` is a dollar sign and ``\\`` a backslash."""
    pieces: list[str | int] = []
    at = 0
    while at < len(replacement):
        character, after = replacement[at], replacement[at + 1 : at + 2]
        if character == "\\" and after:
            pieces.append(after)
            at += 2
        elif character == "$":
            if not ("0" <= after <= "9" and len(after) == 1) or int(after) > groups:
                raise EvaluationError(
                    f"replace() takes $0 to ${groups} and \\$ in a replacement, got {replacement[at : at + 2]!r}"
                )
            pieces.append(int(after))
            at += 2
        else:
            pieces.append(character)
            at += 1
    return pieces
