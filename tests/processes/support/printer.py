"""Trees of expressions as source text: parsing what is printed gives an equal tree.

Operands stand in parentheses, because the tree has none.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from jobexec.processes.expressions import tree
from jobexec.processes.expressions.errors import ExpressionError
from jobexec.processes.expressions.feel import KEYWORDS
from jobexec.processes.expressions.feel_text import format_number, quoted
from jobexec.processes.expressions.juel_rules import to_text
from jobexec.processes.expressions.temporal import format_date_time, format_duration, format_time
from jobexec.processes.expressions.values import (
    BOOLEAN,
    DATE,
    DATE_TIME,
    DAYS_DURATION,
    MONTHS_DURATION,
    NULL,
    NUMBER,
    STRING,
    TIME,
    kind,
)


def print_juel(node: tree.Node) -> str:
    """The text of a model, marks included: ``${amount > 100}``, or literal text with marks in it."""
    return "".join(_juel_part(part) for part in (node.parts if isinstance(node, tree.Text) else (node,)))


def print_feel(node: tree.Node) -> str:
    """The text of a model, beginning with ``=``."""
    return f"={_written(_FEEL, node)}"


def _juel_part(node: tree.Node) -> str:
    # A backslash at the end would escape the mark behind it.
    if isinstance(node, tree.Literal) and isinstance(node.value, str) and not node.value.endswith("\\"):
        return node.value.replace("${", "\\${").replace("#{", "\\#{")
    return f"${{{_written(_JUEL, node)}}}"


def _written(writers: dict[type[tree.Node], Callable[[Any], str]], node: tree.Node) -> str:
    writer = writers.get(type(node))
    if writer is None:
        raise ExpressionError(f"a {type(node).__name__} cannot be written in this language")
    return writer(node)


def _operand(writers: Any, node: tree.Node) -> str:
    text = _written(writers, node)
    return text if isinstance(node, _CLOSED) else f"({text})"


#: Nodes that need no parentheses as operands.
_CLOSED = (
    *(tree.Literal, tree.Name, tree.Property, tree.Index, tree.ObjectProperty),
    *(tree.Call, tree.Filter, tree.ListOf, tree.ContextOf),
)


def _juel_literal(node: tree.Literal) -> str:
    value = node.value
    if isinstance(value, str):
        return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"
    if value is None or kind(value) in (BOOLEAN, NUMBER):
        return "null" if value is None else to_text(value)
    raise ExpressionError(f"JUEL has no literals of a {kind(value)}")


_FEEL_LITERALS: dict[str, Callable[[Any], str]] = {
    NULL: lambda value: "null",
    BOOLEAN: lambda value: "true" if value else "false",
    NUMBER: format_number,
    STRING: quoted,
    DATE: lambda value: f'@"{value.isoformat()}"',
    TIME: lambda value: f'@"{format_time(value)}"',
    DATE_TIME: lambda value: f'@"{format_date_time(value)}"',
    DAYS_DURATION: lambda value: f'@"{format_duration(value)}"',
    MONTHS_DURATION: lambda value: f'@"{format_duration(value)}"',
}


def _feel_literal(node: tree.Literal) -> str:
    return _FEEL_LITERALS[kind(node.value)](node.value)


def _binary(writers: Any, names: dict[str, str], node: tree.Binary) -> str:
    operator = names.get(node.operator, node.operator)
    return f"{_operand(writers, node.left)} {operator} {_operand(writers, node.right)}"


def _joined(writers: Any, operator: str, node: tree.And | tree.Or) -> str:
    return f" {operator} ".join(_operand(writers, operand) for operand in node.operands)


def _arguments(writers: Any, node: tree.Call) -> str:
    texts = [_written(writers, argument) for argument in node.arguments]
    if node.names:
        texts = [f"{name}: {text}" for name, text in zip(node.names, texts, strict=True)]
    return f"{node.function}({', '.join(texts)})"


def _common(writers: dict[type[tree.Node], Callable[[Any], str]], signs: dict[str, str]) -> None:
    """Add what both languages write alike; ``signs`` are the operators that JUEL spells differently."""
    writers.update(
        {
            tree.Binary: partial(_binary, writers, signs),
            tree.And: partial(_joined, writers, signs.get("and", "and")),
            tree.Or: partial(_joined, writers, signs.get("or", "or")),
            tree.Call: partial(_arguments, writers),
            tree.Unary: lambda node: f"{node.operator} {_operand(writers, node.operand)}",
        }
    )


def _target(node: tree.Node) -> str:
    """The dot of a property would belong to the number before it."""
    text = _operand(_JUEL, node)
    return f"({text})" if isinstance(node, tree.Literal) else text


_JUEL: dict[type[tree.Node], Callable[[Any], str]] = {}
_common(_JUEL, {"=": "==", "and": "&&", "or": "||"})
_JUEL |= {
    tree.Literal: _juel_literal,
    tree.Name: lambda node: node.name,
    tree.Property: lambda node: f"{_target(node.target)}.{node.name}",
    tree.ObjectProperty: lambda node: f"{node.object}.{node.name}",
    tree.Index: lambda node: f"{_operand(_JUEL, node.target)}[{_written(_JUEL, node.index)}]",
    tree.Conditional: lambda node: " ".join(
        (_operand(_JUEL, node.condition), "?", _operand(_JUEL, node.then), ":", _operand(_JUEL, node.otherwise))
    ),
}


def _feel_name(name: str) -> str:
    return f"`{name}`" if not name.isidentifier() or name in KEYWORDS else name


def _feel_test(node: tree.Node) -> str:
    if isinstance(node, tree.Test):
        return f"{node.operator} {_operand(_FEEL, node.operand)}"
    return _written(_FEEL, node) if isinstance(node, tree.RangeOf) else _operand(_FEEL, node)


def _feel_range(node: tree.RangeOf) -> str:
    start, end = _operand(_FEEL, node.start), _written(_FEEL, node.end)
    if not isinstance(node.end, tree.Literal | tree.Name):  # the [ of a filter would end the range
        end = f"({end})"
    return f"{'[' if node.start_included else '('}{start}..{end}{']' if node.end_included else ')'}"


def _feel_iterators(iterators: tuple[tuple[str, tree.Node], ...]) -> str:
    return ", ".join(f"{_feel_name(name)} in {_iterated(source)}" for name, source in iterators)


def _iterated(source: tree.Node) -> str:
    return _written(_FEEL, source) if isinstance(source, tree.RangeOf) else _operand(_FEEL, source)


_FEEL: dict[type[tree.Node], Callable[[Any], str]] = {}
_common(_FEEL, {})
_FEEL |= {
    tree.Literal: _feel_literal,
    tree.Name: lambda node: _feel_name(node.name),
    tree.Property: lambda node: f"{_operand(_FEEL, node.target)}.{_feel_name(node.name)}",
    tree.Filter: lambda node: f"{_operand(_FEEL, node.target)}[{_written(_FEEL, node.condition)}]",
    tree.ListOf: lambda node: f"[{', '.join(_operand(_FEEL, item) for item in node.items)}]",
    tree.ContextOf: lambda node: (
        "{" + ", ".join(f"{quoted(key)}: {_written(_FEEL, entry)}" for key, entry in node.entries) + "}"
    ),
    tree.RangeOf: _feel_range,
    tree.Conditional: lambda node: (
        f"if {_operand(_FEEL, node.condition)} then {_operand(_FEEL, node.then)} else {_operand(_FEEL, node.otherwise)}"
    ),
    tree.In: lambda node: f"{_operand(_FEEL, node.value)} in ({', '.join(map(_feel_test, node.tests))})",
    tree.Between: lambda node: (
        f"{_operand(_FEEL, node.value)} between {_operand(_FEEL, node.low)} and {_operand(_FEEL, node.high)}"
    ),
    tree.InstanceOf: lambda node: f"{_operand(_FEEL, node.value)} instance of {node.type}",
    tree.For: lambda node: f"for {_feel_iterators(node.iterators)} return {_operand(_FEEL, node.body)}",
    tree.Quantified: lambda node: (
        f"{node.quantifier} {_feel_iterators(node.iterators)} satisfies {_operand(_FEEL, node.condition)}"
    ),
}
