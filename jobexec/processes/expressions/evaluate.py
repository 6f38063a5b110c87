"""Evaluation of trees. The tree says in which order; the rules of the language say what each operator means."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from types import MappingProxyType
from typing import Any

from . import tree
from .errors import EvaluationError, LimitExceeded
from .limits import CHARACTERS_PER_OPERATION, MAX_OPERATIONS, MAX_RESULT_VALUES, MAX_TEXT, MAX_VALUE_DEPTH
from .values import Value, check_value

_NOTHING: Mapping[str, Any] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class EvaluationContext:
    """What an expression sees besides variables. One context serves any number of evaluations.

    ``functions`` are those that the project has registered. They are called with values and return one; what they
    raise passes through. ``objects`` are the properties of ``execution`` and ``task``. ``now`` is the clock. With
    ``items_exist``, JUEL's ``target[index]`` is an error if the object or the list has no such item, instead of null.
    """

    functions: Mapping[str, Callable[..., Value]] = field(default_factory=dict)
    objects: Mapping[str, Mapping[str, Value]] = field(default_factory=dict)
    now: Callable[[], datetime] | None = None
    items_exist: bool = False


EMPTY = EvaluationContext()


class Evaluation:
    """One evaluation: its variables, and what it has cost so far."""

    __slots__ = ("_operations", "_rules", "context", "position", "scopes", "variables")

    def __init__(self, rules: Rules, variables: Mapping[str, Value], context: EvaluationContext) -> None:
        self._rules = rules
        self.variables = variables
        self.context = context
        self.scopes: list[Mapping[str, Value]] = []
        self._operations = 0
        #: That of the node whose operation runs, for errors.
        self.position = 0

    def value(self, node: tree.Node) -> Value:
        self._operations += 1
        if self._operations > MAX_OPERATIONS:
            raise _too_many()
        return _EVALUATE[type(node)](self, node, self._rules)

    def charge(self, operations: int) -> None:
        """Pay for work on this many items before it is done."""
        self._operations += operations
        if self._operations > MAX_OPERATIONS:
            raise _too_many()

    def charge_text(self, length: int) -> None:
        """Pay for a text of this many characters."""
        if length > MAX_TEXT:
            raise LimitExceeded(f"a string has more than {MAX_TEXT:,} characters")
        self.charge(length // CHARACTERS_PER_OPERATION)

    def lookup(self, name: str) -> Value:
        """The value of a name, from the innermost scope outwards. Raises KeyError."""
        for scope in reversed(self.scopes):
            if name in scope:
                return check_value(scope[name])
        return check_value(self.variables[name])

    def within(self, scope: Mapping[str, Value], node: tree.Node) -> Value:
        """The value of a node that sees the names of one more scope."""
        self.scopes.append(scope)
        try:
            return self.value(node)
        finally:
            self.scopes.pop()

    def now(self) -> datetime:
        if self.context.now is None:
            raise EvaluationError("the current time is not available here")
        return self.context.now()


class Rules(ABC):
    """What the parts of a tree mean in one language. Values are never objects with code of their own."""

    @abstractmethod
    def unknown(self, name: str) -> Value:
        """The value of a name that nothing defines."""

    @abstractmethod
    def member(self, evaluation: Evaluation, target: Value, name: str) -> Value:
        """The value of ``target.name``."""

    @abstractmethod
    def unary(self, operator: str, value: Value) -> Value: ...

    @abstractmethod
    def binary(self, evaluation: Evaluation, operator: str, left: Value, right: Value) -> Value: ...

    @abstractmethod
    def conjunction(self, values: Iterator[Value]) -> Value:
        """The value of ``and``. Operands are evaluated as they are asked for."""

    @abstractmethod
    def disjunction(self, values: Iterator[Value]) -> Value: ...

    @abstractmethod
    def condition(self, value: Value) -> bool: ...

    @abstractmethod
    def call(self, evaluation: Evaluation, name: str, values: Sequence[Value], names: Sequence[str]) -> Value: ...

    def call_registered(self, evaluation: Evaluation, name: str, values: Sequence[Value]) -> Value:
        function = evaluation.context.functions.get(name)
        if function is None:
            raise EvaluationError(f"{name!r} is not a registered function")
        return check_value(function(*values))


def evaluate(node: tree.Node, rules: Rules, variables: Mapping[str, Value], context: EvaluationContext) -> Value:
    """The value of a tree. Raises EvaluationError; its source is unknown here."""
    evaluation = Evaluation(rules, variables, context)
    try:
        result = evaluation.value(node)
        if type(result) in (list, dict) and not is_part_of_variable(node):
            _check_size(result)
    except EvaluationError as error:
        if error.source:  # that of another expression, which a registered function evaluated
            raise
        raise type(error)(error.reason, position=evaluation.position) from None
    return result


def is_part_of_variable(node: tree.Node) -> bool:
    """Whether the value of a node is a variable or a part of it: as large as the variable, and no larger."""
    while isinstance(node, tree.Property | tree.Index | tree.Filter):
        node = node.target
    return isinstance(node, tree.Name | tree.ObjectProperty)


def _too_many() -> LimitExceeded:
    return LimitExceeded(f"the evaluation takes more than {MAX_OPERATIONS:,} operations")


def _check_size(result: Value) -> None:
    """Lists that share their items take little memory, and become very long as JSON."""
    left, waiting = MAX_RESULT_VALUES, [(result, 1)]
    while waiting:
        value, level = waiting.pop()
        items = value.values() if type(value) is dict else value
        left -= len(items)
        if left < 0:
            raise LimitExceeded(f"the result has more than {MAX_RESULT_VALUES:,} values")
        if level > MAX_VALUE_DEPTH:
            raise LimitExceeded(f"the result is nested more than {MAX_VALUE_DEPTH} levels deep")
        waiting.extend((item, level + 1) for item in items if type(item) in (list, dict))


def _literal(evaluation: Evaluation, node: Any, rules: Rules) -> Value:
    return node.value


def _name(evaluation: Evaluation, node: Any, rules: Rules) -> Value:
    evaluation.position = node.position
    try:
        return evaluation.lookup(node.name)
    except KeyError:
        return rules.unknown(node.name)


def _property(evaluation: Evaluation, node: Any, rules: Rules) -> Value:
    value = evaluation.value(node.target)
    evaluation.position = node.position
    return check_value(rules.member(evaluation, value, node.name))


def _unary(evaluation: Evaluation, node: Any, rules: Rules) -> Value:
    value = evaluation.value(node.operand)
    evaluation.position = node.position
    return rules.unary(node.operator, value)


def _binary(evaluation: Evaluation, node: Any, rules: Rules) -> Value:
    left = evaluation.value(node.left)
    right = evaluation.value(node.right)
    evaluation.position = node.position
    return rules.binary(evaluation, node.operator, left, right)


def _and(evaluation: Evaluation, node: Any, rules: Rules) -> Value:
    return rules.conjunction(evaluation.value(operand) for operand in node.operands)


def _or(evaluation: Evaluation, node: Any, rules: Rules) -> Value:
    return rules.disjunction(evaluation.value(operand) for operand in node.operands)


def _conditional(evaluation: Evaluation, node: Any, rules: Rules) -> Value:
    condition = evaluation.value(node.condition)
    evaluation.position = node.position
    return evaluation.value(node.then if rules.condition(condition) else node.otherwise)


def _call(evaluation: Evaluation, node: Any, rules: Rules) -> Value:
    values = [evaluation.value(argument) for argument in node.arguments]
    evaluation.position = node.position
    return rules.call(evaluation, node.function, values, node.names)


#: How each type of node is evaluated. The files of the languages add their own types.
_EVALUATE: dict[type[tree.Node], Callable[[Evaluation, Any, Any], Value]] = {
    tree.Literal: _literal,
    tree.Name: _name,
    tree.Property: _property,
    tree.Unary: _unary,
    tree.Binary: _binary,
    tree.And: _and,
    tree.Or: _or,
    tree.Conditional: _conditional,
    tree.Call: _call,
}


def evaluates(node_type: type[tree.Node]) -> Callable[[Callable[[Evaluation, Any, Any], Value]], Any]:
    """Register the evaluation of a type of node that only one language has."""

    def add(function: Callable[[Evaluation, Any, Any], Value]) -> Any:
        _EVALUATE[node_type] = function
        return function

    return add
