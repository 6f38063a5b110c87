"""The counters of the gateways in a process, since its start."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

#: Job events, with the names of Zeebe's ``zeebe_job_events_total{action}``.
CREATED, ACTIVATED, COMPLETED, FAILED = "created", "activated", "completed", "failed"
ERROR_THROWN, TIMED_OUT, CANCELED = "error_thrown", "timed_out", "canceled"
ACTIONS = frozenset({CREATED, ACTIVATED, COMPLETED, FAILED, ERROR_THROWN, TIMED_OUT, CANCELED})

#: The maximum number of types and of codes; further ones are counted under :data:`OTHERS`.
MOST_LABELS = 1000
OTHERS = "(others)"


@dataclass(slots=True)
class Counts:
    """Counters that only grow. Hold the registry's lock to change or copy them."""

    #: By action and type.
    events: Counter[tuple[str, str]] = field(default_factory=Counter)
    polls: Counter[str] = field(default_factory=Counter)
    pushed: int = 0
    push_failures: Counter[str] = field(default_factory=Counter)

    def copy(self) -> Counts:
        """Return a snapshot."""
        return Counts(Counter(self.events), Counter(self.polls), self.pushed, Counter(self.push_failures))

    def event(self, action: str, type: str, n: int) -> None:
        """Count ``n`` jobs. Raises ValueError for an unknown action."""
        if action not in ACTIONS:
            raise ValueError(f"action: expected one of {', '.join(sorted(ACTIONS))}, got {action!r}.")
        key = action, type
        if key not in self.events and len(self.events) >= MOST_LABELS:
            key = action, OTHERS
        self.events[key] += n

    def push_failure(self, code: str) -> None:
        """Count a push that failed."""
        if code not in self.push_failures and len(self.push_failures) >= MOST_LABELS:
            code = OTHERS
        self.push_failures[code] += 1
