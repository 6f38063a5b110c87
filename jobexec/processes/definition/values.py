"""Values in a definition: JSON, with expressions wherever a value may be computed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, TypeAlias


class Language(StrEnum):
    """The language of an expression."""

    JUEL = "juel"
    FEEL = "feel"


@dataclass(frozen=True, slots=True)
class Expression:
    """The text of an expression, as the model has it, marks included.

    ``${amount > 100}``, ``Order ${number}`` and ``#{x}`` are JUEL; ``=amount > 100`` is FEEL. A text without marks is
    no expression but a plain string: the reader decides that.
    """

    text: str
    language: Language = Language.JUEL

    def __str__(self) -> str:
        return self.text


# Expression | None | bool | int | float | str | list[Value] | dict[str, Value]
Value: TypeAlias = Any


def expressions_in(value: Value) -> Iterator[Expression]:
    """All expressions of a value, in their order."""
    if isinstance(value, Expression):
        yield value
    elif isinstance(value, dict):
        for item in value.values():
            yield from expressions_in(item)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from expressions_in(item)
