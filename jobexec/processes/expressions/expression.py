"""A parsed expression: what the rest of jobexec works with."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

from . import feel, feel_rules, juel, juel_rules
from .errors import EvaluationError
from .evaluate import EMPTY, EvaluationContext, Rules, evaluate, is_part_of_variable
from .feel_functions import FEEL_FUNCTIONS
from .feel_text import as_json
from .functions import JUEL_FUNCTIONS
from .tree import Call, Name, Node, ObjectProperty, walk
from .values import Value, kind


class _Language(NamedTuple):
    parse: Callable[[str], Node]
    rules: Rules
    functions: frozenset[str]


_LANGUAGES = {
    "juel": _Language(
        juel.parse,
        juel_rules.RULES,
        JUEL_FUNCTIONS.names() | {f"{name}.{call}" for name in juel.OBJECTS for call in juel.EXECUTION_CALLS},
    ),
    "feel": _Language(feel.parse, feel_rules.RULES, FEEL_FUNCTIONS.names()),
}


@dataclass(frozen=True, slots=True)
class ParsedExpression:
    """``functions`` are the names of those that the project must have registered.

    ``properties`` are those of ``execution`` and ``task`` that it reads, and what it calls of them: "task.assignee".
    ``needs_instance``: it reads such a property, or a variable.
    """

    source: str
    language: str
    tree: Node
    functions: frozenset[str]
    properties: frozenset[str]
    needs_instance: bool

    def evaluate(self, variables: Mapping[str, Value], context: EvaluationContext = EMPTY) -> Value:
        """The value with these variables. A mapping is asked for single names, by ``variables[name]``.

        What FEEL computes is returned as JSON, so that it is the same before and after it is stored as a variable.
        Raises EvaluationError, with the source and the position; what a registered function raises passes through.
        """
        try:
            result = evaluate(self.tree, _LANGUAGES[self.language].rules, variables, context)
            return as_json(result) if self.language == "feel" and not is_part_of_variable(self.tree) else result
        except EvaluationError as error:
            if error.source:
                raise
            raise type(error)(error.reason, self.source, error.position) from None

    def holds(self, variables: Mapping[str, Value], context: EvaluationContext = EMPTY) -> bool:
        """The value of a condition. It must be true or false: Camunda and Zeebe take nothing else for it."""
        found = self.evaluate(variables, context)
        if type(found) is not bool:
            raise EvaluationError(f"a condition must be true or false, and this is {_shown(found)}", self.source)
        return found


def _shown(value: Value) -> str:
    return "null" if value is None else f"a {kind(value)}"


@lru_cache(maxsize=4096)
def parse(source: str, language: str) -> ParsedExpression:
    """Parse an expression of ``"juel"`` or ``"feel"``. Raises InvalidExpression, with the position of the error.

    A text of JUEL without marks is a constant. FEEL takes the ``=`` of Zeebe before the expression, and needs none.
    """
    known = _LANGUAGES[language]
    tree = known.parse(source)
    nodes = [node for node, _ in walk(tree)]
    calls = {node.function for node in nodes if isinstance(node, Call)}
    read = {f"{node.object}.{node.name}" for node in nodes if isinstance(node, ObjectProperty)}
    read |= {name for name in calls if name.partition(".")[0] in juel.OBJECTS}
    needs_instance = bool(read) or any(isinstance(node, Name) for node in nodes)
    return ParsedExpression(source, language, tree, frozenset(calls - known.functions), frozenset(read), needs_instance)
