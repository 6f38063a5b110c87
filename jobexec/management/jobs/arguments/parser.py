"""Parsers whose errors name the word that was probably meant."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NoReturn

from django.core.management.base import CommandParser

from .meant import question, with_suggestion


class Parser(CommandParser):
    """The parser of an action: an error about a word that it does not know names the one that is probably meant."""

    def parse_known_args(self, args: Sequence[str] | None = None, namespace: Any = None) -> Any:  # type: ignore[override]
        """Refuse unknown options here: the parser of the command, which would do it, does not know those of actions."""
        found, unknown = super().parse_known_args(args, namespace)
        if unknown:
            named = [word.partition("=")[0] for word in unknown if word.startswith("--")]
            asked = "".join(question(word, self._option_string_actions) for word in named)
            super().error(f"unrecognized arguments: {' '.join(unknown)}{asked}")
        return found, unknown

    def error(self, message: str) -> NoReturn:
        super().error(with_suggestion(message))
        raise AssertionError  # Django's ends the process or raises


def suggesting(parser: CommandParser) -> CommandParser:
    """Make a parser that Django has created name what was probably meant, too."""
    error = parser.error
    parser.error = lambda message: error(with_suggestion(message))  # type: ignore[method-assign]
    return parser
