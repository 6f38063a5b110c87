"""Errors of expressions. They name the source, the position in it, and what was expected."""

from __future__ import annotations

_SHOWN = 120


class ExpressionError(ValueError):
    """An expression cannot be parsed or evaluated.

    ``reason`` is the sentence without the source; ``position`` is the index of a character of ``source``.
    """

    def __init__(self, reason: str, source: str = "", position: int = 0) -> None:
        self.reason, self.source, self.position = reason, source, position
        super().__init__(f"{_shown(source)}, character {position + 1}: {reason}." if source else f"{reason}.")

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.reason, self.source, self.position)


class InvalidExpression(ExpressionError):
    """The source is not an expression of its language, or uses what jobexec does not execute."""


class EvaluationError(ExpressionError):
    """The expression has no value with these variables."""


class LimitExceeded(EvaluationError):
    """The evaluation costs more than :mod:`jobexec.processes.expressions.limits` allows."""


def _shown(source: str) -> str:
    return repr(source) if len(source) <= _SHOWN else f"{source[:_SHOWN]!r}..."
