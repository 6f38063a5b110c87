"""The state while a file is read: its problems, its language, and the elements that others refer to."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from jobexec.processes import expressions
from jobexec.processes.definition import Expression, Language, Problem, Value
from jobexec.processes.expressions.tree import Name, Node, Property

from .names import CAMUNDA, FOX, VENDORS, ZEEBE

if TYPE_CHECKING:
    from lxml import etree

    from .element import Element

_MARK = re.compile(r"[$#]\{")


class Reading:
    """One file. ``definitions`` are the elements of its top level that have ids: messages, errors, ..."""

    def __init__(self, root: etree._Element) -> None:
        self.problems: list[Problem] = []
        self.definitions: dict[tuple[str, str], Element] = {}
        self.ids = {str(each.get("id")) for each in root.iter() if each.get("id")}
        namespaces = {name for each in root.iter() if isinstance(each.tag, str) for name in each.nsmap.values()}
        #: Files of Camunda 8 write FEEL, and begin it with "=". In others that is plain text.
        self.is_zeebe = ZEEBE in namespaces
        #: The others write JUEL. In a file of Camunda 8 alone, its marks are plain text.
        self.has_juel = not self.is_zeebe or not namespaces.isdisjoint(VENDORS)
        #: In Camunda, a process is executed only if it says that it is executable.
        self.is_camunda = not namespaces.isdisjoint((CAMUNDA, FOX, ZEEBE))

    def problem(self, element: Element, message: str) -> None:
        problem = Problem(element.id, message, element.line)
        if problem not in self.problems:
            self.problems.append(problem)

    def referred(self, element: Element, kind: str, id: str | None) -> Element | None:
        """The message, signal, error or escalation that an element refers to. Its prefix is left out."""
        if not id:
            return None
        found = self.definitions.get((kind, id)) or self.definitions.get((kind, id.rpartition(":")[2]))
        if found is None:
            element.problem(f"There is no {kind} with the id {id!r}.")
        return found

    def value(self, element: Element, text: str | None) -> Value:
        """An expression if the text has marks, otherwise the text itself; None for a missing or empty one."""
        if not text:
            return None
        if self.is_zeebe and text.startswith("="):
            return self._checked(element, Expression(text, Language.FEEL))
        return self.juel(element, text) or text

    def juel(self, element: Element, text: str | None) -> Expression | None:
        """An expression if the text has marks of JUEL; None for any other text."""
        if text and self.has_juel and _MARK.search(text):
            return self._checked(element, Expression(text, Language.JUEL))
        return None

    def expression(self, element: Element, text: str | None, what: str) -> Expression | None:
        """An expression. Plain text is a problem, which names ``what``."""
        found = self.value(element, text)
        if found is None or isinstance(found, Expression):
            return found
        marks = "'='" if self.is_zeebe else "'${'"
        element.problem(f"The {what} {text!r} is not an expression; expressions begin with {marks}.")
        return None

    def feel(self, element: Element, text: str | None) -> Value:
        """What Zeebe takes as FEEL even without the ``=``."""
        if not text or text.startswith("="):
            return self.value(element, text)
        return self._checked(element, Expression(f"={text}", Language.FEEL))

    def dotted_name(self, element: Element, text: str, attribute: str) -> str:
        """The name in ``${ship}`` or ``${shop.ship}``. Anything else is a problem."""
        found = self.expression(element, text, attribute)
        if found is None:
            return text
        try:
            name = _path(expressions.parse(found.text, found.language).tree)
        except expressions.InvalidExpression:  # a problem already
            return text
        if name is None:
            element.problem(f"The {attribute} {text!r} must be the name of a handler, such as ${{ship}}.")
        return name or text

    def root_of(self, expression: Expression | None) -> str | None:
        """The variable of an expression that only reads it, or a part of it."""
        if expression is None:
            return None
        try:
            path = _path(expressions.parse(expression.text, expression.language).tree)
        except expressions.InvalidExpression:  # a problem already
            return None
        return None if path is None else path.partition(".")[0]

    def _checked(self, element: Element, expression: Expression) -> Expression:
        try:
            expressions.parse(expression.text, expression.language)
        except expressions.InvalidExpression as error:
            element.problem(f"The expression {error}")
        return expression


def variable(name: str) -> Expression:
    """The variable of this name, null if there is none."""
    escaped = name.replace("\\", "\\\\").replace("'", "\\'")
    return Expression(f"${{execution.getVariable('{escaped}')}}")


def _path(tree: Node) -> str | None:
    if isinstance(tree, Name):
        return tree.name
    if isinstance(tree, Property):
        target = _path(tree.target)
        return None if target is None else f"{target}.{tree.name}"
    return None
