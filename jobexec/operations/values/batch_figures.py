"""The figures of a batch of jobs, and conditions on them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from operator import ge, gt, le, lt
from typing import Any, NamedTuple

from jobexec.exceptions import InvalidJob
from jobexec.json_values import shown


class Figures(NamedTuple):
    """How many children a batch has: ``failed`` ones are dead letters, ``cancelled`` ones were removed undone."""

    total: int
    completed: int
    failed: int
    cancelled: int

    @property
    def open(self) -> int:
        """The children that are not over."""
        return max(0, self.total - self.completed - self.failed - self.cancelled)

    @property
    def over(self) -> int:
        return self.total - self.open

    def rate(self, name: str) -> float:
        """The share of all children, 0 without any."""
        return float(getattr(self, name)) / self.total if self.total else 0.0


_SIGNS = {">=": ge, "<=": le, ">": gt, "<": lt}
_COUNTS = ("completed", "failed", "cancelled")
_CONDITION = re.compile(r"\s*([a-z_]+)\s*(>=|<=|>|<)\s*([0-9]+(?:\.[0-9]+)?)\s*(%?)\s*", re.ASCII)
_EXPECTED = (
    "expected a comparison such as 'failed >= 10' or 'failed_rate > 5%': completed, failed or cancelled, each also with"
    " _rate (a share of all jobs), then >, >=, < or <=, and a number"
)


class Condition(NamedTuple):
    """A comparison of a figure of a batch with a number."""

    column: str
    is_rate: bool
    sign: str
    limit: float

    @classmethod
    def parse(cls, text: Any) -> Condition:
        """Read a condition. Raises InvalidJob."""
        found = _CONDITION.fullmatch(text) if isinstance(text, str) else None
        name = found[1].removesuffix("_rate") if found else ""
        if found is None or name not in _COUNTS:
            raise InvalidJob(f"when: {_EXPECTED}; got {shown(text)}.")
        is_rate = found[1] != name
        limit = float(found[3]) / (100 if found[4] else 1)
        if (found[4] and not is_rate) or (is_rate and limit > 1):
            raise InvalidJob(f"when: expected a share from 0 to 1, or from 0% to 100%, with _rate only; got {text!r}.")
        return cls(name, is_rate, found[2], limit)

    def holds(self, figures: Figures, *, sealed: bool, over: bool = False) -> bool:
        """Whether the comparison holds, and will not cease to hold as more children end.

        A share is known only when no more children can be added, and "less than" only at the end.
        """
        if not over and (self.sign in ("<", "<=") or (self.is_rate and not sealed)):
            return False
        value = figures.rate(self.column) if self.is_rate else getattr(figures, self.column)
        return bool(_SIGNS[self.sign](value, self.limit))


def holding(arguments: Mapping[str, Any], figures: Figures, *, sealed: bool, over: bool = False) -> list[str]:
    """Return the conditions of a batch that hold, and whose calls have not been made yet."""
    fired = arguments.get("fired") or ()
    return [
        text
        for text in arguments.get("when") or ()
        if text not in fired and Condition.parse(text).holds(figures, sealed=sealed, over=over)
    ]
