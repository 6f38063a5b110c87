"""What is known of a job and of each of its runs."""

from dataclasses import dataclass, field
from typing import Any

from .journal import Line

ENDLESS = float("inf")


@dataclass(eq=False)
class Run:
    """One run of a handler, as it told it itself: the true run is a little longer on both sides.

    `end` is None if nobody was left to tell it. `result` is "ok", "failed", or "" without an end.
    """

    job: str
    owner: str
    pid: int
    attempt: int
    lost: int
    begin: float
    lines: list[Line]
    end: float | None = None
    result: str = ""
    dies: bool = False
    #: Its time was over and it was settled as failed, whatever the handler did until its end.
    timed_out: bool = False
    #: When its process began to write its outcome, for the first time.
    settling: float | None = None
    #: The line of its outcome, when it was committed by the process that ran it.
    outcome: Line | None = None
    #: What a task returned, and for which time of a schedule it was told to run (seconds since the epoch).
    returns: Any = None
    scheduled_for: float | None = None
    #: What the message says with which it went on; None if it had none, or has not come to its end.
    message: str | None = None

    def over_by(self) -> float:
        return ENDLESS if self.end is None else self.end


@dataclass(eq=False)
class Job:
    """What was enqueued, and all that is known about it."""

    id: str
    kind: str
    instance: str
    exclusive: bool
    atomic: bool
    retries: int
    tenant: str = ""
    resource: str = ""
    #: The name of the batch of which it is a child.
    batch: str = ""
    #: None if nobody said; and whether it could run as soon as it was committed.
    priority: int | None = None
    now: bool = False
    #: The key of the message for which it waits, and for how many seconds.
    waits: tuple[str, float] | None = None
    lines: list[Line] = field(default_factory=list)
    #: The line of its creation, which was not committed then.
    creating: Line = field(default_factory=dict)
    in_doubt: bool = True
    #: When its creation was known to be committed.
    created: float | None = None
    runs: list[Run] = field(default_factory=list)
    #: Verb and time of what a person asked for, whether it was done or not.
    asked: list[tuple[str, float]] = field(default_factory=list)
    rows: list[dict[str, Any]] = field(default_factory=list)
    logs: list[dict[str, Any]] = field(default_factory=list)
    effects: int = 0

    def logged(self, state: str) -> list[dict[str, Any]]:
        return [log for log in self.logs if log["state"] == state]

    def of(self, what: str) -> list[Line]:
        return [line for line in self.lines if line["what"] == what]

    def was_asked(self, *verbs: str) -> bool:
        return any(verb in verbs for verb, _ in self.asked)

    @property
    def kills(self) -> bool:
        return self.kind.startswith("killer")
