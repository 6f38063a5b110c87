"""The part of JUEL, the expression language of Camunda 7 and Flowable, that needs no object of Java.

``${order.amount > 100 && !empty order.items}``, ``#{...}``, ``Order ${id} of ${customer.name}``. A call is that of a
registered function, ``${shop.price(order)}``, or one of those of ``execution`` in :data:`EXECUTION_CALLS`.
"""

from __future__ import annotations

import math
import re

from .errors import InvalidExpression
from .lexer import END, KEYWORD, NAME, NUMBER, STRING, SYMBOL, Lexer, check_source
from .limits import MAX_BITS
from .parser import Operator, Parser, check_depth
from .tree import Call, Conditional, Index, Literal, Name, Node, ObjectProperty, Property, Text, Unary

#: What ``execution`` and ``task`` have. They are no variables. Where ``task`` and ``execution.eventName`` are known,
#: those who deploy a file check.
OBJECTS = {
    "execution": frozenset(
        {
            "activityInstanceId",
            "businessKey",
            "currentActivityId",
            "currentActivityName",
            "eventName",
            "id",
            "parentId",
            "processBusinessKey",
            "processDefinitionId",
            "processDefinitionKey",
            "processInstanceId",
            "rootProcessInstanceId",
            "tenantId",
        }
    ),
    "task": frozenset(
        {
            "assignee",
            "dueDate",
            "eventName",
            "executionId",
            "followUpDate",
            "id",
            "name",
            "priority",
            "processDefinitionId",
            "processInstanceId",
            "taskDefinitionKey",
            "tenantId",
        }
    ),
}
#: Functions of ``execution`` (and of ``task``) that read variables.
EXECUTION_CALLS = frozenset({"getVariable", "hasVariable"})

_ACCESSOR = re.compile(r"get([A-Z]\w*)")
_ESCAPE = re.compile(r"\\(.?)", re.DOTALL)
_MARK = re.compile(r"(?P<escape>\\)?(?P<mark>[$#])\{")

_NO_METHOD = "a method of a value cannot be called; expected a registered function, such as ${shop.price(order)}"
#: Reserved by the language, also where they mean nothing here.
_KEYWORDS = frozenset(
    {"and", "or", "not", "eq", "ne", "lt", "gt", "le", "ge", "div", "mod"}
    | {"true", "false", "null", "instanceof", "empty"}
)
_CONSTANTS = {"true": True, "false": False, "null": None}
_POWER = {
    "?": 1,
    "||": 2,
    "&&": 3,
    "==": 4,
    "<": 5,
    "+": 6,
    "*": 7,
    "unary": 8,
}


def _infix() -> dict[str, Operator]:
    rows = (
        ("?", "?", "?"),
        ("||", "or", "|| or"),
        ("&&", "and", "&& and"),
        ("==", "=", "== eq"),
        ("==", "!=", "!= ne"),
        ("<", "<", "< lt"),
        ("<", "<=", "<= le"),
        ("<", ">", "> gt"),
        ("<", ">=", ">= ge"),
        ("+", "+", "+"),
        ("+", "-", "-"),
        ("*", "*", "*"),
        ("*", "/", "/ div"),
        ("*", "%", "% mod"),
    )
    return {text: Operator(_POWER[power], name) for power, name, texts in rows for text in texts.split()}


def _read_number(text: str) -> int | float:
    if text.isdigit():
        whole = int(text)
        if whole.bit_length() > MAX_BITS:
            raise ValueError(f"an integer has more than {MAX_BITS:,} bits")
        return whole
    number = float(text)
    if math.isinf(number):
        raise ValueError(f"the number {text} is too large")
    return number


def _read_string(text: str) -> str:
    return _ESCAPE.sub(_unescaped, text[1:-1])


def _unescaped(found: re.Match[str]) -> str:
    if found[1] not in ("\\", "'", '"'):
        raise ValueError(f"{found[0]!r} is not an escape of JUEL; a backslash is written twice")
    return found[1]


_LEXER = Lexer(
    {
        "skipped": r"\s+",
        NUMBER: r"(?:[0-9]+\.[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?|[0-9]+[eE][+-]?[0-9]+|[0-9]+",
        STRING: r"'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"",
        NAME: r"(?:[^\W\d]|\$)(?:\w|\$)*",
        SYMBOL: r"==|!=|<=|>=|&&|\|\||[-+*/%<>!?:.,()\[\]}]",
    },
    _KEYWORDS,
    {NUMBER: _read_number, STRING: _read_string},
)


def parse(source: str) -> Node:
    """Parse text with any number of ``${...}``. Raises InvalidExpression.

    One mark that is the whole text keeps the type of its value; otherwise the value is a text. ``\\${`` is no mark.
    """
    check_source(source)
    parts, literal, at, mark = list[Node](), "", 0, ""
    while (found := _MARK.search(source, at)) is not None:
        literal += source[at : found.start()]
        if found["escape"]:
            literal, at = literal + found[0][1:], found.end()
            continue
        if mark not in ("", found["mark"]):
            raise InvalidExpression("${...} and #{...} cannot be mixed in one string", source, found.start())
        mark = found["mark"]
        parser = _JuelParser(source, _LEXER.tokens(source, found.end(), "}"))
        if literal:
            parts.append(Literal(literal))
        parts.append(parser.whole())
        literal, at = "", parser.token.position + 1
    literal += source[at:]
    if literal or not parts:
        parts.append(Literal(literal))
    tree = parts[0] if len(parts) == 1 else Text(tuple(parts))
    check_depth(tree, source)
    return tree


class _JuelParser(Parser):
    infix = _infix()

    def whole(self) -> Node:
        if self.token.kind == END:
            raise self.error("expected an expression between the braces")
        tree = self.expression()
        self.finish()
        return tree

    def operation(self, left: Node, operator: Operator, position: int) -> Node:
        if operator.name != "?":
            return super().operation(left, operator, position)
        then = self.expression()
        self.expect(":")
        return Conditional(left, then, self.expression(operator.power - 1), position=position)

    def operand(self) -> Node:
        token = self.take()
        if token.kind in (NUMBER, STRING):
            return Literal(token.value, position=token.position)
        if token.kind == NAME:
            return self._named(str(token.value), token.position)
        if token.kind == KEYWORD and token.value in _CONSTANTS:
            return Literal(_CONSTANTS[token.value], position=token.position)
        if token.value in ("-", "!", "not", "empty") and token.kind in (SYMBOL, KEYWORD):
            operator = "not" if token.value == "!" else str(token.value)
            return Unary(operator, self.expression(_POWER["unary"]), position=token.position)
        if token.value == "(" and token.kind == SYMBOL:
            inner = self.expression()
            self.expect(")")
            return inner
        raise self.error(f"expected a value, found {token}", token.position)

    def suffix(self, target: Node) -> Node | None:
        position = self.token.position
        if self.accept("["):
            index = self.expression()
            self.expect("]")
            return Index(target, index, position=position)
        if self.accept("."):
            return Property(target, self._property(), position=position)
        if self.at("("):
            raise self.error(_NO_METHOD)
        return None

    def finish(self) -> None:
        if self.at("instanceof"):
            raise self.error("'instanceof' asks for a class of Java; jobexec does not execute it")
        super().finish()

    def _named(self, name: str, position: int) -> Node:
        """A variable, a call like ``shop.price(order)``, or something of ``execution`` and ``task``."""
        if self.at("("):
            return Call(name, self._arguments(), position=position)
        if not self.at("."):
            if name in OBJECTS:
                raise self.error(
                    f"{name!r} is not a value; expected one of its properties, such as {name}.id", position
                )
            return Name(name, position=position)
        return self._dotted(name, position)

    def _dotted(self, name: str, position: int) -> Node:
        """The longest path of names; if parentheses follow, it is the name of a function."""
        tree: Node = Name(name, position=position)
        path = [name]
        while self.at("."):
            dot = self.take().position
            path.append(self._property())
            if self.at("("):
                return self._call(path, position)
            tree = Property(tree, path[-1], position=dot)
        if name in OBJECTS:
            return self._of_object(path, position)
        return tree

    def _property(self) -> str:
        # A reserved word may be a property: ${order.empty}
        if self.token.kind == KEYWORD:
            return str(self.take().value)
        return self.expect_name()

    def _call(self, path: list[str], position: int) -> Node:
        arguments = self._arguments()
        if path[0] not in OBJECTS:
            return Call(".".join(path), arguments, position=position)
        accessor = _ACCESSOR.fullmatch(path[-1])
        if len(path) == 2 and path[1] in EXECUTION_CALLS and len(arguments) == 1:
            return Call(".".join(path), arguments, position=position)
        if accessor is not None and not arguments:
            return self._of_object([*path[:-1], accessor[1][0].lower() + accessor[1][1:]], position)
        raise self.error(
            f"{'.'.join(path)}() is not available; expected one of "
            + ", ".join(f"{path[0]}.{name}('name')" for name in sorted(EXECUTION_CALLS)),
            position,
        )

    def _of_object(self, path: list[str], position: int) -> Node:
        name, *rest = path
        if rest[0] not in OBJECTS[name]:
            known = ", ".join(sorted(OBJECTS[name]))
            raise self.error(f"{name} has no property {rest[0]!r} here; expected one of {known}", position)
        tree: Node = ObjectProperty(name, rest[0], position=position)
        for each in rest[1:]:
            tree = Property(tree, each, position=position)
        return tree

    def _arguments(self) -> tuple[Node, ...]:
        self.expect("(")
        arguments: list[Node] = []
        self.separated(")", lambda: arguments.append(self.expression()))
        return tuple(arguments)
