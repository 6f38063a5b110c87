"""Source text to tokens. Each language brings its own table of patterns."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from .errors import InvalidExpression
from .limits import MAX_SOURCE

NAME = "name"
NUMBER = "number"
STRING = "string"
SYMBOL = "symbol"
KEYWORD = "keyword"
END = "end"
#: A name in quotes. It becomes a NAME, even if it is spelled as a keyword.
QUOTED = "quoted"


@dataclass(frozen=True, slots=True)
class Token:
    """``value`` is what a literal means; of a name, symbol or keyword it is its text."""

    kind: str
    value: Any
    position: int

    def __str__(self) -> str:
        return "the end" if self.kind == END else repr(self.value)


class Lexer:
    """``patterns`` are tried in their order, each for one kind of token; what matches ``skipped`` makes none.

    ``readers`` convert the text of a literal. They raise ValueError with the reason if it is malformed.
    """

    def __init__(
        self, patterns: Mapping[str, str], keywords: frozenset[str], readers: Mapping[str, Callable[[str], Any]]
    ) -> None:
        self._pattern = re.compile("|".join(f"(?P<{kind}>{pattern})" for kind, pattern in patterns.items()), re.DOTALL)
        self._keywords = keywords
        self._readers = readers

    def tokens(self, source: str, start: int = 0, closing: str | None = None) -> Iterator[Token]:
        """Yield the tokens from ``start`` to the end, or to the symbol ``closing``; then the token END."""
        at = start
        while at < len(source):
            found = self._pattern.match(source, at)
            if found is None:
                raise InvalidExpression(_unreadable(source[at]), source, at)
            if found.lastgroup != "skipped":
                token = self._token(source, found)
                if token.kind == SYMBOL and token.value == closing:
                    yield Token(END, closing, at)
                    return
                yield token
            at = found.end()
        if closing is not None:
            raise InvalidExpression(f"expected {closing!r}, found the end", source, len(source))
        yield Token(END, None, len(source))

    def _token(self, source: str, found: re.Match[str]) -> Token:
        kind, text = str(found.lastgroup), found[0]
        reader = self._readers.get(kind)
        if reader is not None:
            try:
                return Token(NAME if kind == QUOTED else kind, reader(text), found.start())
            except ValueError as error:
                raise InvalidExpression(str(error), source, found.start()) from None
        if kind == NAME and text in self._keywords:
            kind = KEYWORD
        return Token(kind, text, found.start())


def check_source(source: str) -> None:
    if len(source) > MAX_SOURCE:
        raise InvalidExpression(f"an expression has at most {MAX_SOURCE:,} characters, this one has {len(source):,}")


def _unreadable(character: str) -> str:
    if character in "\"'":
        return f"the string that begins with {character} has no end"
    return f"unexpected character {character!r}"
