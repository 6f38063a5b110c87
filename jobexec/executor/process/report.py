"""The health report of a process: for the health port, its supervisor and systemd."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

#: The probes, by their names in Kubernetes.
PROBES = ("startup", "ready", "live")


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """The answers to the probes, each as a list of reasons for "no"; an empty list is "yes".

    ``startup``: the start is over. ``ready``: takes jobs now. ``live``: need not be killed. ``status`` is one line for
    display, ``wish`` why this process wants to be restarted, ``details`` other facts worth knowing, as JSON.
    """

    startup: list[str] = field(default_factory=list)
    ready: list[str] = field(default_factory=list)
    live: list[str] = field(default_factory=list)
    draining: bool = False
    status: str = ""
    wish: str | None = None
    details: dict[str, Any] = field(default_factory=dict)

    def answer(self, probe: str) -> dict[str, Any]:
        """The JSON object that answers one of :data:`PROBES`."""
        reasons: list[str] = getattr(self, probe)
        return {"ok": not reasons, "reasons": reasons, "status": self.status, **self.details}

    def as_json(self) -> dict[str, Any]:
        """Serialise the report for another process: ``Report(**json)``."""
        return asdict(self)
