"""Hand-made histories for the tests of the rules: a few lines of a journal, and what the database says."""

from typing import Any

from tests.chaos.history import History

A, B = "n1:boot-a", "n2:boot-b"
PIDS = {A: 11, B: 22}
LEASE = 10.0
#: What the database says of operators in a story that is not about them.
PLAIN: dict[str, Any] = {
    **{name: {} for name in ("ledger", "unwritten", "buried")},
    **{name: [] for name in ("incidents", "dead", "batches", "batch_jobs", "job_batches")},
    "meters": {"job-successful": {}, "job-failed": {}},
    "logged": {"successful": {}, "failed": {}},
    "failure_groups": 0,
    **{name: [] for name in ("results", "schedules", "firings")},
    **{name: [] for name in ("instances", "steps", "activities", "tokens", "process_jobs", "discrepancies")},
}


class Story:
    """Jobs are called by short names; times are seconds. Owners A and B are nodes with a lease from 0 to 10."""

    def __init__(self, **jobs: dict[str, Any]) -> None:
        self.lines: list[dict[str, Any]] = []
        self.rows: list[dict[str, Any]] = []
        self.logs: list[dict[str, Any]] = []
        self.effects: dict[str, int] = {}
        self.suspensions: list[list[str]] = []
        self.locks: list[str] = []
        self.nodes: list[str] = []
        self.more: dict[str, Any] = {}
        told = []
        for name, values in jobs.items():
            plain = {"kind": "work", "instance": "p", "exclusive": True, "atomic": False, "retries": 3, "tenant": ""}
            told.append({"id": name, **plain, **values})
        self.tell(0, "creating", jobs=told)
        self.tell(0, "created", ok=True, jobs=list(jobs))
        for owner in PIDS:
            self.lease(owner, 0)

    def tell(self, t: float, what: str, pid: int = 1, **values: Any) -> "Story":
        self.lines.append({"t": t, "by": "x", "pid": pid, "what": what, **values})
        return self

    def lease(self, owner: str, start: float) -> "Story":
        return self.tell(start, "lease", PIDS[owner], owner=owner, start=start, until=start + LEASE)

    def begin(self, t: float, job: str, owner: str, attempt: int = 1, lost: int = 0, held: bool = True) -> "Story":
        run = {"job": job, "owner": owner, "attempt": attempt, "lost": lost, "held": held, "asked": t}
        return self.tell(t, "begin", PIDS[owner], **run)

    def end(self, t: float, job: str, owner: str, attempt: int = 1, result: str = "ok", held: bool = True) -> "Story":
        run = {"job": job, "owner": owner, "attempt": attempt, "result": result, "held": held, "asked": t}
        return self.tell(t, "end", PIDS[owner], **run)

    def outcome(
        self, t: float, job: str, owner: str, attempt: int = 1, result: str = "done", error: str = ""
    ) -> "Story":
        self.settling(t - 0.05, job, owner, attempt)
        named = {"owner": owner} if result == "done" else {}
        return self.tell(t, "outcome", PIDS[owner], job=job, attempt=attempt, result=result, error=error, **named)

    def settling(self, t: float, job: str, owner: str, attempt: int = 1) -> "Story":
        return self.tell(t, "settling", PIDS[owner], runs=[[job, attempt]])

    def run(self, since: float, until: float, job: str, owner: str, attempt: int = 1, lost: int = 0) -> "Story":
        """A run that ended well and was settled."""
        self.begin(since, job, owner, attempt, lost).end(until, job, owner, attempt)
        return self.outcome(until + 0.1, job, owner, attempt).log(job, "successful", attempt)

    def exit(self, t: float, owner: str, code: int = -9) -> "Story":
        return self.tell(t, "exit", node=owner[:2], of=PIDS[owner], code=code)

    def kill(self, t: float, owner: str) -> "Story":
        return self.tell(t, "kill", node=owner[:2], of=PIDS[owner]).exit(t + 0.1, owner)

    def log(self, job: str, state: str, attempt: int = 1, message: str = "") -> "Story":
        row = {"job_id": job, "state": state, "attempt": attempt, "exception_message": message}
        self.logs.append(row)
        return self

    def row(self, job: str, table: str, **values: Any) -> "Story":
        plain = {"retries": 3, "conflicts": 0, "due_in": None, "exception_message": "", "suspend_requested": False}
        self.rows.append({"table": table, "job": job, "lock_owner": None, **plain, **values})
        return self

    def history(self, **options: Any) -> History:
        names = ("rows", "logs", "effects", "suspensions", "locks", "nodes")
        state = {name: getattr(self, name) for name in names} | PLAIN | self.more
        return History(sorted(self.lines, key=lambda line: line["t"]), state, **options)


def good(rule: Any, story: Story, **options: Any) -> None:
    """The rule finds nothing."""
    assert [problem.text for problem in rule(story.history(**options))] == []


def bad(rule: Any, story: Story, text: str, **options: Any) -> None:
    """The first thing that the rule finds says this."""
    problems = list(rule(story.history(**options)))
    assert text in problems[0].text, problems
    assert problems[0].shown(0.0)
