"""Which arguments are sensitive, and what is shown in their place.

A name is sensitive if a handler declares it (``@job(sensitive=...)``), or if it contains one of SENSITIVE_ARGUMENTS or,
of process variables, one of SENSITIVE in PROCESSES. Everything nested below a sensitive name is sensitive, too. (Own
decision; Django's counterparts are ``sensitive_variables`` and the names that its error reports cleanse.)
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from functools import lru_cache
from typing import Any

from jobexec.conf import get_settings
from jobexec.exceptions import InvalidJob
from jobexec.json_values import MAX_DEPTH, check_json

HIDDEN = "●●●"
#: The attribute of an error that has sensitive values which its texts may quote.
_NOTED = "__sensitive_values__"
#: How many different spellings of secrets are looked for in a text; with more it is hidden as a whole.
MOST_SECRETS = 1000

#: Shorter values would occur all over a text for other reasons.
_LEAST = 4
#: Chains of overlapping secrets are not followed any further.
_MOST_CUTS = 20
_LEFT_OUT = "\n... {} characters left out ...\n"
#: Levels that are searched: arguments are wrapped once or twice.
_DEEPEST = MAX_DEPTH + 10
#: A number that is not part of a word, as ``repr`` spells it.
_NUMBER = re.compile(r"(?<![\w.])-?\d+(?:\.\d+)?(?:e[+-]?\d+)?(?!\w|\.\d)")


def is_sensitive(name: str, named: Collection[str] = ()) -> bool:
    """Whether the value of this name is hidden; ``named`` are names that always are, whatever the settings."""
    return name in named or contains_one_of(name, _words())


def _words() -> tuple[str, ...]:
    settings = get_settings()
    return settings.sensitive_arguments + settings.processes.sensitive


def may_be_within(text: str) -> bool:
    """Whether one of the words of the settings occurs in a text, a name or the JSON of many."""
    # Not a regular expression: one for all words takes twenty times as long, and this runs for each failure.
    lower = text.lower()
    return any(form in lower for form in _spellings(_words()))


@lru_cache(maxsize=4096)
def contains_one_of(name: str, words: tuple[str, ...]) -> bool:
    """Whether one of the words is in a name, however it is spelled there."""
    return any(form in name.lower() for form in _spellings(words))


@lru_cache(maxsize=16)
def _spellings(words: tuple[str, ...]) -> tuple[str, ...]:
    # An underscore is also a hyphen, as in headers, or nothing, as in camelCase.
    return tuple({word.lower().replace("_", sign) for word in words for sign in ("_", "-", "")})


def hide(value: Any, named: Collection[str] = (), words: tuple[str, ...] | None = None) -> Any:
    """The same JSON value, with :data:`HIDDEN` in place of values below sensitive names, however deep.

    And in place of values nested deeper than any entry point accepts (:data:`~jobexec.json_values.MAX_DEPTH`).
    ``named`` are names that always are sensitive; ``words`` replace those of the settings.
    """
    return _hide(value, named, _words() if words is None else words, _DEEPEST)


def _hide(value: Any, named: Collection[str], words: tuple[str, ...], levels: int) -> Any:
    if not isinstance(value, dict | list | tuple):
        return value
    if not levels:
        return HIDDEN
    if isinstance(value, dict):
        secret = {key for key in value if str(key) in named or contains_one_of(str(key), words)}
        return {
            key: HIDDEN if key in secret else _hide(inner, named, words, levels - 1) for key, inner in value.items()
        }
    return [_hide(inner, named, words, levels - 1) for inner in value]


def json_problem(name: str, value: Any) -> str:
    """Why a value is no JSON: the message of :func:`~jobexec.json_values.check_json`, without sensitive parts."""
    try:
        check_json(name, hide(value))
    except InvalidJob as error:
        return str(error)
    except RecursionError:
        return f"{name}: it is nested too deeply."
    return f"{name}: expected JSON, also below its sensitive names."


def values_below(value: Any, named: Collection[str] = ()) -> list[Any]:
    """The sensitive values in a JSON value: those that :func:`hide` hides."""
    found: list[Any] = []
    level = [value]
    for _ in range(_DEEPEST):
        below: list[Any] = []
        for each in level:
            if isinstance(each, dict):
                for key, inner in each.items():
                    (found if is_sensitive(str(key), named) else below).append(inner)
            elif isinstance(each, list | tuple):
                below += each
        level = below
    return found + [each for each in level if isinstance(each, dict | list | tuple)]


def note_values(error: BaseException, values: Sequence[Any]) -> None:
    """Remember with an error which values its texts must not show, beside those in the arguments of its job."""
    if values:
        error.__dict__[_NOTED] = [*error.__dict__.get(_NOTED, ()), *values]


def noted_values(error: BaseException | None) -> list[Any]:
    """The values noted with an error, and with those that led to it."""
    found: list[Any] = []
    waiting, seen = [error], set[int]()
    while waiting:
        each = waiting.pop()
        if each is None or id(each) in seen:
            continue
        seen.add(id(each))
        found += each.__dict__.get(_NOTED, ())
        waiting += [each.__cause__, each.__context__]
        if isinstance(each, BaseExceptionGroup):
            waiting += each.exceptions
    return found


def redact_text(text: str, secrets: Iterable[Any], most: int | None = None) -> str:
    """Replace these JSON values, and parts of them, by :data:`HIDDEN` wherever they occur in the text.

    Finds texts unchanged and as spelled by ``repr`` and JSON; numbers only if they are not part of a word. Not values
    shorter than four characters, nor any that are spelled differently, cut or encoded.

    A client that sends both text and secrets could make this work for minutes. So with more than :data:`MOST_SECRETS`
    the whole text is hidden, and one of more than ``most`` characters is first cut in its middle, beside the secrets
    that the cut would meet.
    """
    texts, numbers = set[str](), set[str]()
    for leaf in _leaves(secrets):
        if isinstance(leaf, str):
            if len(leaf) >= _LEAST:
                texts.update(each for each in _spellings_of(leaf) if len(each.strip()) >= _LEAST)
        elif len(repr(leaf)) >= _LEAST:
            numbers.add(repr(leaf))
        if len(texts) + len(numbers) > MOST_SECRETS:
            return HIDDEN
    ordered = sorted(texts, key=len, reverse=True)  # one may be a prefix of another
    pieces = [text]
    if most is not None and len(text) > most:
        secret = [*texts, *numbers]
        pieces = [text[: _cut(text, most // 2, secret, -1)], text[_cut(text, len(text) - most // 2, secret, 1) :]]
    return _LEFT_OUT.format(len(text) - sum(map(len, pieces))).join(_without(each, ordered, numbers) for each in pieces)


def _cut(text: str, place: int, secrets: Sequence[str], direction: int) -> int:
    """The nearest place in the text, in the given direction, that is not inside of any secret."""
    for _ in range(_MOST_CUTS):
        before = place
        for each in secrets:
            start = text.find(each, max(0, place - len(each) + 1), place + len(each) - 1)
            if start >= 0:
                place = start if direction < 0 else start + len(each)
        if place == before:
            return place
    return 0 if direction < 0 else len(text)


def _without(text: str, texts: Iterable[str], numbers: Collection[str]) -> str:
    for each in texts:
        text = text.replace(each, HIDDEN)
    return _NUMBER.sub(lambda found: _without_number(found[0], numbers), text) if numbers else text


def _leaves(values: Iterable[Any]) -> Iterator[str | int | float]:
    left = [*values]
    while left:
        value = left.pop()
        if isinstance(value, dict | list | tuple):
            left += value.values() if isinstance(value, dict) else value
        elif isinstance(value, str | int | float) and not isinstance(value, bool):
            yield value


def _spellings_of(leaf: str) -> set[str]:
    return {leaf, repr(leaf)[1:-1], json.dumps(leaf)[1:-1], json.dumps(leaf, ensure_ascii=False)[1:-1]}


def _without_number(found: str, numbers: Collection[str]) -> str:
    if found in numbers:
        return HIDDEN
    return f"-{HIDDEN}" if found.startswith("-") and found[1:] in numbers else found
