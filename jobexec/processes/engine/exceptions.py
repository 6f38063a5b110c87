"""Exceptions that end a step."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


class BpmnError(Exception):
    """A business error with a code. A handler raises it, and an error event of the process catches it."""

    def __init__(self, code: str, message: str = "", variables: Mapping[str, Any] | None = None) -> None:
        self.code, self.message, self.variables = code, message, dict(variables or {})
        super().__init__(f"{code}: {message}" if message else code)

    @property
    def uncaught(self) -> str:
        """A sentence for who hears of it if no event catches it."""
        return f"Nothing catches the error {str(self).removesuffix('.')}."


class StepError(Exception):
    """The step cannot be made; none of it has happened. ``element`` is where it stopped."""

    def __init__(self, element: str, message: str) -> None:
        self.element, self.message = element, message
        super().__init__(f"{element}: {message}")


class NoFlowTaken(StepError):
    """No condition of the flows that leave an element holds, and it has no default."""


class NoStart(StepError, ValueError):
    """The process has no such start event, or none that waits for nothing."""


class TooManyMoves(StepError):
    """An endless loop without a wait."""


class TooDeep(StepError):
    """Too many instances call each other."""


class UncaughtError(StepError):
    """Nothing catches a business error, and no token waits where it was thrown: it ended a user's task, for example, or
    comes from a listener of a whole process, or to a cancellation."""


class NoValue(StepError):
    """An expression of the element has no value with the variables that it sees."""


class NoCondition(StepError):
    """The value of a condition is neither true nor false."""


class NoName(StepError):
    """The expression for the name or the key of a message, or for the name of a signal, has no such value."""


class BadLoop(StepError):
    """The cardinality is not a number, or the collection not a list."""


class BadChange(StepError):
    """A modification does not fit the process or the current state of its instance."""
