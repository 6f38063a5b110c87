"""Which arguments are sensitive, and what is shown in place of them.

A name is sensitive if a handler says so (``@job(sensitive=...)``) or if it contains one of SENSITIVE_ARGUMENTS. All
that stands below a sensitive name is. (Own decision; Django's counterpart are ``sensitive_variables`` and the names
that its error reports cleanse.)
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Iterator
from functools import lru_cache
from typing import Any

from jobexec.conf import get_settings

HIDDEN = "●●●"

#: Shorter values would stand all over a text for other reasons.
_LEAST = 4


def is_sensitive(name: str, named: Collection[str] = ()) -> bool:
    """Whether the value of this name is not to be shown; ``named`` are names that are, whatever the settings say."""
    return name in named or _is_by_words(name, get_settings().sensitive_arguments)


def may_be_within(text: str) -> bool:
    """Whether something in SENSITIVE_ARGUMENTS occurs in a text, a name or the JSON of many."""
    # Not a regular expression: one for so many words takes twenty times as long, and this is asked for each failure.
    lower = text.lower()
    return any(form in lower for form in _spellings(get_settings().sensitive_arguments))


@lru_cache(maxsize=4096)
def _is_by_words(name: str, words: tuple[str, ...]) -> bool:
    return any(form in name.lower() for form in _spellings(words))


@lru_cache(maxsize=16)
def _spellings(words: tuple[str, ...]) -> tuple[str, ...]:
    # An underscore is also a hyphen, as in headers, or nothing, as in camelCase.
    return tuple({word.lower().replace("_", sign) for word in words for sign in ("_", "-", "")})


def hide(value: Any, named: Collection[str] = ()) -> Any:
    """The same JSON value, with :data:`HIDDEN` in place of what stands below sensitive names, however deep."""
    if isinstance(value, dict):
        return {key: HIDDEN if is_sensitive(str(key), named) else hide(inner, named) for key, inner in value.items()}
    return [hide(inner, named) for inner in value] if isinstance(value, list | tuple) else value


def values_below(value: Any, named: Collection[str] = ()) -> Iterator[Any]:
    """The sensitive values in a JSON value: what :func:`hide` hides."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from [inner] if is_sensitive(str(key), named) else values_below(inner, named)
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from values_below(inner, named)


def redact_text(text: str, secrets: Iterable[Any]) -> str:
    """The text with :data:`HIDDEN` wherever one of these JSON values, or a part of one, stands in it.

    Texts as they are and as ``repr`` and JSON spell them; numbers where they stand alone. Not what is shorter than four
    characters, and not what somebody has spelled otherwise, cut or encoded.
    """
    pattern = _pattern_of({form for secret in secrets for leaf in _leaves(secret) for form in _forms(leaf)})
    return pattern.sub(HIDDEN, text) if pattern else text


def _leaves(value: Any) -> Iterator[str | int | float]:
    if isinstance(value, dict | list | tuple):
        for inner in value.values() if isinstance(value, dict) else value:
            yield from _leaves(inner)
    elif isinstance(value, str | int | float) and not isinstance(value, bool):
        yield value


def _forms(leaf: str | int | float) -> Iterator[str]:
    """Regular expressions for the ways in which a value is spelled."""
    if isinstance(leaf, str):
        spelled = {leaf, repr(leaf)[1:-1], json.dumps(leaf)[1:-1], json.dumps(leaf, ensure_ascii=False)[1:-1]}
        yield from (re.escape(each) for each in spelled if len(each.strip()) >= _LEAST)
    elif len(repr(leaf)) >= _LEAST:
        yield rf"(?<![\w.]){re.escape(repr(leaf))}(?!\w|\.\d)"


def _pattern_of(forms: Collection[str]) -> re.Pattern[str] | None:
    # The longest first: one may be the beginning of another.
    return re.compile("|".join(sorted(forms, key=len, reverse=True))) if forms else None
