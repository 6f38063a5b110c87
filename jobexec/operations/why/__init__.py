"""Explain why a job is not running: every reason that applies now."""

from .explain import Explanation, why
from .facts import Reason

__all__ = ["Explanation", "Reason", "why"]
