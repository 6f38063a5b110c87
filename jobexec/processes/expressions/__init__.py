"""Expressions of models: a closed language. Pure values, no database, no code of Python.

::

    parse("${order.amount > 100}", "juel").evaluate({"order": {"amount": 250}})     # True
    parse("=sum(items.price)", "feel").evaluate({"items": [{"price": 1}]})          # 1

An expression is parsed once, at deployment or when its definition is loaded, and evaluated often. It reads variables
and calls functions; it changes nothing. No attribute of an object of Python is ever read. See ``limits`` for what one
expression may cost.
"""

from __future__ import annotations

from .errors import EvaluationError, ExpressionError, InvalidExpression, LimitExceeded
from .evaluate import EvaluationContext
from .expression import ParsedExpression, parse
from .values import Months, Range, Value

__all__ = [
    "EvaluationContext",
    "EvaluationError",
    "ExpressionError",
    "InvalidExpression",
    "LimitExceeded",
    "Months",
    "ParsedExpression",
    "Range",
    "Value",
    "parse",
]
