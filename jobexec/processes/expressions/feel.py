"""FEEL, the expression language of DMN and of Zeebe's BPMN files: ``=amount > 100``.

As in Zeebe, names have no spaces, unless they stand in backticks; functions and their parameters have them. A path
before parentheses, ``shop.price(order)``, is a registered function. Functions as values are refused.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from decimal import Decimal, DecimalException
from typing import Any

from .feel_functions import FEEL_FUNCTIONS
from .lexer import END, KEYWORD, NAME, NUMBER, QUOTED, STRING, SYMBOL, Lexer, check_source
from .numbers import plain, to_decimal
from .parser import Operator, Parser, check_depth
from .temporal import parse_temporal
from .tree import (
    Between,
    Call,
    Conditional,
    ContextOf,
    Filter,
    For,
    In,
    InstanceOf,
    ListOf,
    Literal,
    Name,
    Node,
    Property,
    Quantified,
    RangeOf,
    Test,
    Unary,
    walk,
)
from .values import (
    BOOLEAN,
    CONTEXT,
    DATE,
    DATE_TIME,
    DAYS_DURATION,
    LIST,
    MONTHS_DURATION,
    TIME,
)
from .values import (
    NUMBER as NUMBER_KIND,
)
from .values import (
    STRING as STRING_KIND,
)

FUNCTION = "function"
TEMPORAL = "temporal"
INSTANCE = "instance"

#: The names of types, and the kinds of values that belong to them; None: all but null.
TYPES = {
    "Any": None,
    "Null": "null",
    "boolean": BOOLEAN,
    "context": CONTEXT,
    "date": DATE,
    "date and time": DATE_TIME,
    "day-time duration": DAYS_DURATION,
    "days and time duration": DAYS_DURATION,
    "list": LIST,
    "number": NUMBER_KIND,
    "string": STRING_KIND,
    "time": TIME,
    "year-month duration": MONTHS_DURATION,
    "years and months duration": MONTHS_DURATION,
}

KEYWORDS = frozenset(
    {"and", "between", "else", "every", "false", "for", "function", "if", "in"}
    | {"instance", "null", "or", "return", "satisfies", "some", "then", "true"}
)
_CONSTANTS = {"true": True, "false": False, "null": None}
_COMPARISONS = ("<", "<=", ">", ">=", "=", "!=")
#: Properties of two words, by their first.
_TWO_WORDS = {"time": "offset", "start": "included", "end": "included"}
_OR, _AND, _COMPARED, _SUM, _PRODUCT, _POWER, _NEGATION = range(1, 8)
_INFIX = {
    "or": Operator(_OR, "or"),
    "and": Operator(_AND, "and"),
    **{text: Operator(_COMPARED, text) for text in (*_COMPARISONS, "between", "in")},
    "+": Operator(_SUM, "+"),
    "-": Operator(_SUM, "-"),
    "*": Operator(_PRODUCT, "*"),
    "/": Operator(_PRODUCT, "/"),
    "**": Operator(_POWER, "**"),
}
_ESCAPE = re.compile(r"\\(?:(?P<short>[\"\\'nrt])|u(?P<four>[0-9A-Fa-f]{4})|U(?P<six>[0-9A-Fa-f]{6}))")
_SHORT = {"n": "\n", "r": "\r", "t": "\t"}


def _read_number(text: str) -> Any:
    try:
        if text.isdigit() and len(text) < 30:
            return int(text)
        return plain(to_decimal(Decimal(text)))
    except DecimalException:
        raise ValueError(f"the number {text[:50]} is too large") from None


def _read_string(text: str) -> str:
    """Backslashes that begin no escape stay, as patterns need them."""
    content = _ESCAPE.sub(_unescaped, text[1:-1])
    try:
        return content.encode("utf-16", "surrogatepass").decode("utf-16")
    except UnicodeDecodeError:
        raise ValueError("half a surrogate pair is not a character") from None


def _unescaped(found: re.Match[str]) -> str:
    if found["short"]:
        return _SHORT.get(found["short"], found["short"])
    code = int(found["four"] or found["six"], 16)
    if code > 0x10FFFF:
        raise ValueError(f"{found[0]!r} is not a character")
    return chr(code)


def _read_temporal(text: str) -> Any:
    value = parse_temporal(text[2:-1])
    if value is None:
        raise ValueError(f"{text[1:]} is neither a date, a time, a date and time, nor a duration")
    return value


def _read_type(text: str) -> str:
    name = " ".join(text.split()[2:])
    if name not in TYPES:
        raise ValueError(f"{name!r} is not a type; expected one of {', '.join(TYPES)}")
    return name


def _phrases(names: frozenset[str], before: str) -> str:
    """A pattern of names that have spaces in them, the longest first."""
    several = sorted((name for name in names if " " in name), key=len, reverse=True)
    spaced = (r"\s+".join(re.escape(word) for word in name.split()) for name in several)
    return rf"(?:{'|'.join(spaced)})(?=\s*{before})"


def _one_space(text: str) -> str:
    return " ".join(text.split())


_PARAMETERS = frozenset(
    parameter.name
    for name in FEEL_FUNCTIONS.names()
    for function in FEEL_FUNCTIONS.named(name)
    for parameter in function.parameters
)
_LEXER = Lexer(
    {
        "skipped": r"\s+|//[^\n]*|/\*.*?\*/",
        INSTANCE: r"instance\s+of\s+(?:date\s+and\s+time\b|days\s+and\s+time\s+duration\b|day-time\s+duration\b"
        r"|years\s+and\s+months\s+duration\b|year-month\s+duration\b|\w+)",
        FUNCTION: _phrases(FEEL_FUNCTIONS.names(), r"\("),
        QUOTED: rf"`[^`]+`|{_phrases(_PARAMETERS, ':')}",
        TEMPORAL: r"@\"[^\"]*\"",
        NUMBER: r"(?:[0-9]+(?:\.[0-9]+)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?",
        STRING: r"\"(?:[^\"\\]|\\.)*\"",
        NAME: r"(?:[^\W\d]|\?)(?:\w|\?)*",
        SYMBOL: r"\*\*|\.\.|!=|<=|>=|[-+*/<>=.,:()\[\]{}]",
    },
    KEYWORDS,
    {
        INSTANCE: _read_type,
        FUNCTION: _one_space,
        QUOTED: lambda text: _one_space(text.strip("`")),
        TEMPORAL: _read_temporal,
        NUMBER: _read_number,
        STRING: _read_string,
    },
)


def parse(source: str) -> Node:
    """Parse an expression, with or without the ``=`` before it. Raises InvalidExpression."""
    check_source(source)
    start = len(source) - len(source.lstrip())
    parser = _FeelParser(source, _LEXER.tokens(source, start + source.startswith("=", start)))
    if parser.token.kind == END:
        raise parser.error("expected an expression")
    tree = parser.expression()
    parser.finish()
    check_depth(tree, source)
    return tree


class _FeelParser(Parser):
    infix = _INFIX
    #: At the end of a range, [ closes it and begins no filter.
    _ends_range = False

    def operation(self, left: Node, operator: Operator, position: int) -> Node:
        if operator.name == "in":
            return In(left, self._tests(), position=position)
        if operator.name == "between":
            low = self.expression(_COMPARED)
            self.expect("and")
            return Between(left, low, self.expression(_COMPARED), position=position)
        return super().operation(left, operator, position)

    def operand(self) -> Node:
        token = self.take()
        if token.kind in (NUMBER, STRING, TEMPORAL):
            return Literal(token.value, position=token.position)
        if token.kind == NAME:
            return self._named(str(token.value), token.position)
        if token.kind == FUNCTION:
            return self._call(str(token.value), token.position)
        if token.kind == KEYWORD and token.value in _CONSTANTS:
            return Literal(_CONSTANTS[token.value], position=token.position)
        parse = _OPERANDS.get(token.value) if token.kind in (SYMBOL, KEYWORD) else None
        if parse is None:
            raise self.error(f"expected a value, found {token}", token.position)
        return parse(self, token.position)

    def suffix(self, target: Node) -> Node | None:
        position = self.token.position
        if self.token.kind == INSTANCE:
            return InstanceOf(target, str(self.take().value), position=position)
        if not self._ends_range and self.accept("["):
            condition = self._inner()
            self.expect("]")
            return Filter(target, condition, position=position)
        if self.accept("."):
            return Property(target, self._property(), position=position)
        if self.at("("):
            raise self.error("only a function can be called, by its name")
        return None

    def _inner(self) -> Node:
        """An expression inside brackets, where [ begins a filter again."""
        outside, self._ends_range = self._ends_range, False
        inner = self.expression()
        self._ends_range = outside
        return inner

    def _named(self, name: str, position: int) -> Node:
        if self.at("("):
            return self._call(name, position)
        tree: Node = Name(name, position=position)
        path = [name]
        while self.at("."):
            dot = self.take().position
            path.append(self._property())
            if self.at("("):
                return self._call(".".join(path), position)
            tree = Property(tree, path[-1], position=dot)
        return tree

    def _property(self) -> str:
        if self.token.kind == KEYWORD:
            return str(self.take().value)
        name = self.expect_name()
        second = _TWO_WORDS.get(name)
        if second is not None and self.token.kind == NAME and self.token.value == second:
            return f"{name} {self.take().value}"
        return name

    def _call(self, name: str, position: int) -> Node:
        self.expect("(")
        arguments: list[Node] = []
        names: list[str] = []

        def argument() -> None:
            value = self._inner()
            if isinstance(value, Name) and self.accept(":"):
                names.append(value.name)
                value = self._inner()
            arguments.append(value)

        self.separated(")", argument)
        if names and len(names) != len(arguments):
            raise self.error(f"{name}(): expected a name for all arguments or for none", position)
        self._check_call(name, names, len(arguments), position)
        return Call(name, tuple(arguments), tuple(names), position=position)

    def _check_call(self, name: str, names: list[str], count: int, position: int) -> None:
        known = FEEL_FUNCTIONS.named(name)
        if not known:
            if names:
                raise self.error(f"{name}(): a registered function takes its arguments by position", position)
        elif len(set(names)) != len(names) or not any(function.matches(count, names) for function in known):
            forms = dict.fromkeys(
                f"{name}({', '.join(parameter.name for parameter in function.parameters)})" for function in known
            )
            told = f"{name}() cannot be called with these arguments; expected {' or '.join(forms)}"
            raise self.error(told, position)

    def _group(self, position: int) -> Node:
        inner = self._inner()
        if self.at(".."):
            return self._range(inner, included=False, position=position)
        self.expect(")")
        return inner

    def _list(self, position: int) -> Node:
        if self.accept("]"):
            return ListOf((), position=position)
        items = [self._inner()]
        if self.at(".."):
            return self._range(items[0], included=True, position=position)
        while self.accept(","):
            items.append(self._inner())
        self.expect("]")
        return ListOf(tuple(items), position=position)

    def _open_range(self, position: int) -> Node:
        return self._range(self._inner(), included=False, position=position)

    def _range(self, start: Node, *, included: bool, position: int) -> Node:
        self.expect("..")
        outside, self._ends_range = self._ends_range, True
        end = self.expression(_COMPARED)
        self._ends_range = outside
        for closing, end_included in (("]", True), (")", False), ("[", False)):
            if self.accept(closing):
                return RangeOf(start, end, included, end_included, position=position)
        raise self.error(f"expected ']', ')' or '[' at the end of a range, found {self.token}")

    def _context(self, position: int) -> Node:
        entries: list[tuple[str, Node]] = []

        def entry() -> None:
            key = self._key()
            self.expect(":")
            entries.append((key, self._inner()))

        self.separated("}", entry)
        if len({key for key, _ in entries}) != len(entries):
            raise self.error("a key of the context is given twice", position)
        return ContextOf(tuple(entries), position=position)

    def _key(self) -> str:
        if self.token.kind == STRING:
            return str(self.take().value)
        words = [str(self.take().value) if self.token.kind == KEYWORD else self.expect_name()]
        while self.token.kind in (NAME, KEYWORD):
            words.append(str(self.take().value))
        return " ".join(words)

    def _negation(self, position: int) -> Node:
        operand = self.expression(_NEGATION)
        return Unary("-", operand, position=position)

    def _conditional(self, position: int) -> Node:
        condition = self.expression()
        self.expect("then")
        then = self.expression()
        self.expect("else")
        return Conditional(condition, then, self.expression(), position=position)

    def _loop(self, position: int) -> Node:
        iterators = self._iterators()
        self.expect("return")
        body = self.expression()
        partial = any(isinstance(node, Name) and node.name == "partial" for node, _ in walk(body))
        return For(iterators, body, partial, position=position)

    def _some(self, position: int) -> Node:
        return self._quantified("some", position)

    def _every(self, position: int) -> Node:
        return self._quantified("every", position)

    def _quantified(self, quantifier: str, position: int) -> Node:
        iterators = self._iterators()
        self.expect("satisfies")
        return Quantified(quantifier, iterators, self.expression(), position=position)

    def _iterators(self) -> tuple[tuple[str, Node], ...]:
        iterators = [self._iterator()]
        while self.accept(","):
            iterators.append(self._iterator())
        return tuple(iterators)

    def _iterator(self) -> tuple[str, Node]:
        name = self.expect_name()
        self.expect("in")
        position = self.token.position
        source = self.expression()
        if self.accept(".."):
            source = RangeOf(source, self.expression(), True, True, position=position)
        return name, source

    def _tests(self) -> tuple[Node, ...]:
        position = self.token.position
        if not self.accept("("):
            return (self._test(_COMPARED),)
        first = self._test()
        if self.at("..") and not isinstance(first, Test):
            return (self._range(first, included=False, position=position),)
        tests = [first]
        while self.accept(","):
            tests.append(self._test())
        self.expect(")")
        return tuple(tests)

    def _test(self, power: int = 0) -> Node:
        for operator in _COMPARISONS:
            if self.at(operator):
                position = self.take().position
                return Test(operator, self.expression(_COMPARED), position=position)
        return self.expression(power)

    def _no_function(self, position: int) -> Node:
        raise self.error("jobexec does not execute functions that an expression defines", position)


_OPERANDS: dict[str, Callable[[_FeelParser, int], Node]] = {
    "(": _FeelParser._group,
    "[": _FeelParser._list,
    "]": _FeelParser._open_range,
    "{": _FeelParser._context,
    "-": _FeelParser._negation,
    "if": _FeelParser._conditional,
    "for": _FeelParser._loop,
    "some": _FeelParser._some,
    "every": _FeelParser._every,
    "function": _FeelParser._no_function,
}
