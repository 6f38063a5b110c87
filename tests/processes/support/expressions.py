"""A tiny language for the conditions of test models; no evaluator of the package, so that the engine is tested alone.

``x``, ``order.total``, ``3``, ``'text'``, ``[1, 2]``, ``not x``, ``a == b`` with `` == != > >= < <= + ``, ``a and b``.
"""

from __future__ import annotations

import json
import operator
from typing import Any

OPERATORS: dict[str, Any] = {
    " and ": lambda left, right: bool(left) and bool(right),
    " == ": operator.eq,
    " != ": operator.ne,
    " >= ": operator.ge,
    " <= ": operator.le,
    " > ": operator.gt,
    " < ": operator.lt,
    " + ": operator.add,
}


class Unknown(Exception):
    """A variable that nobody has set."""


def evaluate(text: str, scope: Any) -> Any:
    text = text.strip()
    for mark, function in OPERATORS.items():
        left, found, right = text.partition(mark)
        if found:
            return function(evaluate(left, scope), evaluate(right, scope))
    if text.startswith("not "):
        return not evaluate(text[4:], scope)
    return literal_or_name(text, scope)


def literal_or_name(text: str, scope: Any) -> Any:
    if text.startswith("'"):
        return text[1:-1]
    try:
        return json.loads(text)
    except ValueError:
        pass
    name, *path = text.split(".")
    if name == "execution":
        return getattr(scope, path[0])
    if name not in scope:
        raise Unknown(text)
    found = scope[name]
    for key in path:
        found = found[key]
    return found
