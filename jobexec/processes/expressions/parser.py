"""The base of the parsers of both languages: a stream of tokens, binding powers, limits, errors with positions."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from .errors import InvalidExpression
from .lexer import END, KEYWORD, NAME, SYMBOL, Token
from .limits import MAX_DEPTH
from .tree import And, Binary, Node, Or, walk

#: Nested calls of :meth:`Parser.expression`. Parentheses and operands take one each, and leave no node behind.
_MAX_NESTING = 2 * MAX_DEPTH

TOO_DEEP = f"the expression is nested more than {MAX_DEPTH} levels deep"


@dataclass(frozen=True, slots=True)
class Operator:
    """An infix operator: ``power`` says how tightly it binds, ``name`` is its name in the tree."""

    power: int
    name: str


class Parser:
    """A Pratt parser. A language sets ``infix`` and overrides :meth:`operand` and :meth:`suffix`."""

    #: By the text of the token.
    infix: Mapping[str, Operator] = {}

    def __init__(self, source: str, tokens: Iterator[Token]) -> None:
        self.source = source
        self._tokens = tokens
        self._nesting = 0
        self.token = next(tokens)

    def expression(self, power: int = 0) -> Node:
        """Parse operators that bind more tightly than ``power``, and their operands."""
        self._nesting += 1
        if self._nesting > _MAX_NESTING:
            raise self.error(TOO_DEEP)
        left = self.suffixes(self.operand())
        while (operator := self._infix()) is not None and operator.power > power:
            left = self.operation(left, operator, self.take().position)
        self._nesting -= 1
        return left

    def operand(self) -> Node:
        """Parse what an expression may begin with: a literal, a name, something in parentheses, a prefix."""
        raise NotImplementedError

    def suffix(self, target: Node) -> Node | None:
        """Parse one property or index behind ``target``; None if there is none."""
        raise NotImplementedError

    def operation(self, left: Node, operator: Operator, position: int) -> Node:
        """Parse the right side of an infix operator. Operators of equal power are grouped from the left."""
        right = self.expression(operator.power)
        if operator.name == "and":
            return And(_flat(And, left, right), position=position)
        if operator.name == "or":
            return Or(_flat(Or, left, right), position=position)
        return Binary(operator.name, left, right, position=position)

    def suffixes(self, target: Node) -> Node:
        while (longer := self.suffix(target)) is not None:
            target = longer
        return target

    def finish(self) -> None:
        """Expect the end of the tokens."""
        if self.token.kind != END:
            raise self.error(f"expected an operator or the end, found {self.token}")

    def at(self, text: str) -> bool:
        """Whether the next token is this symbol or keyword."""
        return self.token.value == text and self.token.kind in (SYMBOL, KEYWORD)

    def take(self) -> Token:
        token = self.token
        if token.kind != END:
            self.token = next(self._tokens)
        return token

    def accept(self, text: str) -> bool:
        """Take the next token if it is this symbol or keyword."""
        found = self.at(text)
        if found:
            self.take()
        return found

    def expect(self, text: str) -> Token:
        if not self.at(text):
            raise self.error(f"expected {text!r}, found {self.token}")
        return self.take()

    def expect_name(self) -> str:
        if self.token.kind != NAME:
            raise self.error(f"expected a name, found {self.token}")
        return str(self.take().value)

    def separated(self, closing: str, item: Callable[[], object]) -> None:
        """Parse items between commas up to ``closing``, which is taken."""
        if self.accept(closing):
            return
        item()
        while self.accept(","):
            item()
        self.expect(closing)

    def error(self, reason: str, position: int | None = None) -> InvalidExpression:
        return InvalidExpression(reason, self.source, self.token.position if position is None else position)

    def _infix(self) -> Operator | None:
        return self.infix.get(self.token.value) if self.token.kind in (SYMBOL, KEYWORD) else None


def check_depth(tree: Node, source: str) -> None:
    for node, level in walk(tree):
        if level > MAX_DEPTH:
            raise InvalidExpression(TOO_DEEP, source, node.position)


def _flat(node_type: type[And] | type[Or], left: Node, right: Node) -> tuple[Node, ...]:
    """One node for ``a and b and c``; parentheses group in the source, but change nothing here."""
    before = left.operands if isinstance(left, node_type) else (left,)
    after = right.operands if isinstance(right, node_type) else (right,)
    return (*before, *after)
