"""Problems of a definition."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, order=True)
class Problem:
    """One problem of one element of a model."""

    element: str
    message: str
    line: int | None = None

    def __str__(self) -> str:
        place = f"line {self.line}: " if self.line is not None else ""
        return f"{place}{self.element}: {self.message}"


def a(word: str) -> str:
    """The word with its article."""
    return f"{'an' if word[0] in 'aeio' else 'a'} {word}"


class InvalidProcess(ValueError):
    """A definition that cannot be deployed. ``problems`` has each of its problems."""

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(map(str, self.problems)))
