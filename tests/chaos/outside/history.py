"""One story out of the journal of all processes and what the database says at the end."""

from collections import defaultdict
from dataclasses import dataclass, field
from typing import Any

from tests.chaos.journal import Line, shown

ENDLESS = float("inf")
#: Seconds by which times of different clocks, and those that went over the wire in milliseconds, may differ.
SLACK = 0.05


@dataclass
class Fetch:
    """A worker was given the job: not before `moment`, for certain at `told`, until `deadline`.

    `moment` is when its deadline was counted from, which is before the job was locked.
    """

    key: int
    worker: str
    lease: str
    moment: float
    told: float
    deadline: float
    pid: int
    line: Line
    given_back: float = ENDLESS


@dataclass
class Report:
    """Somebody wanted something of the job: not before `begin`; when it came to pass, before `end`.

    `came_to` is ok, refused or doubt. Of whoever died meanwhile, and of a refusal while the database was away, nobody
    knows: a gateway tries again by itself, and may be told that it had been done. `moment` is that of the fetch which
    the worker speaks of; people have none.
    """

    verb: str
    begin: float
    end: float
    came_to: str
    worker: str
    lease: str
    moment: float
    values: dict[str, Any]
    line: Line
    said: str = ""

    @property
    def may_count(self) -> bool:
        return self.came_to != "refused"

    @property
    def accepted(self) -> bool:
        return self.came_to == "ok"

    @property
    def ends_hold(self) -> bool:
        """Whether the job is no longer its worker's if it counts."""
        return self.verb not in ("extend", "activate", "suspend", "set_priority")


@dataclass
class Run:
    """An executor ran what follows the job, at least from `begin` to `end`."""

    begin: float
    end: float


@dataclass
class Job:
    """`committed` is ok, refused (rolled back) or doubt; `callback` is what runs after it, '' for nothing."""

    key: int
    id: str
    callback: str
    instance: str
    exclusive: bool
    lines: list[Line]
    committed: str = "doubt"
    fetches: list[Fetch] = field(default_factory=list)
    reports: list[Report] = field(default_factory=list)
    runs: list[Run] = field(default_factory=list)
    rows: list[dict[str, Any]] = field(default_factory=list)
    logs: list[dict[str, Any]] = field(default_factory=list)
    effects: int = 0

    def logged(self, state: str, *, callback: bool = False) -> int:
        """How often this is in the job log: of what workers did, or of what followed in the executor."""
        found = [log for log in self.logs if log["state"] == state]
        return sum(log["handler_type"].startswith("tests.") == callback for log in found)

    @property
    def is_done(self) -> list[Report]:
        """The accepted reports after which no worker may see the job again."""
        return [report for report in self.reports if report.accepted and finishes(report)]


def finishes(report: Report) -> bool:
    """Whether it is the end of the job for workers, if it counts."""
    return report.verb == "complete" or (report.verb == "error" and report.values["code"] == "caught")


@dataclass(frozen=True)
class Problem:
    """What a rule found: about which job (or nobody)."""

    rule: str
    text: str
    job: Job | None = None

    def shown(self, start: float) -> str:
        about = f" job {self.job.key} ({self.job.id})" if self.job else ""
        lines = sorted(self.job.lines, key=lambda line: line["t"]) if self.job else []
        return "\n".join([f"{self.rule}:{about} {self.text}", *(f"    {shown(line, start)}" for line in lines[:40])])


class History:
    """`lines` is the journal in the order of time, `state` what `state.look()` returned."""

    def __init__(self, lines: list[Line], state: dict[str, Any]) -> None:
        self.lines, self.state = lines, state
        self.jobs: dict[int, Job] = {}
        self.fetches: list[Fetch] = []
        self._by_id: dict[str, Job] = {}
        self._outages = self._read_outages()
        self._ends_of_processes = self._read_ends()
        self._over: dict[str, float] = {line["worker"]: line["t"] for line in self.of("over")}
        self._workers = {line["name"]: line["pid"] for line in self.of("worker")}
        self._read_jobs()
        self._read_fetches()
        self._read_reports()
        self._read_runs()
        self._take_in_state()

    @property
    def start(self) -> float:
        return float(self.lines[0]["t"]) if self.lines else 0.0

    def of(self, *whats: str) -> list[Line]:
        return [line for line in self.lines if line["what"] in whats]

    def end_of(self, pid: int) -> float:
        """The time at which the process was gone for certain."""
        return self._ends_of_processes.get(pid, (ENDLESS, ENDLESS))[1]

    def last_of(self, pid: int) -> float:
        """The time until which the process was there for certain."""
        return self._ends_of_processes.get(pid, (ENDLESS, ENDLESS))[0]

    def end_of_worker(self, name: str) -> float:
        """The time at which nobody was there any more who had asked for jobs under this name."""
        process = self._workers.get(name.split(".")[0], -1)
        return min(self.end_of(process), self._over.get(name, ENDLESS))

    def was_away(self, begin: float, end: float) -> bool:
        """Whether the database was, at any time in between."""
        return any(down - 1 < end and begin < up + 1 for down, up in self._outages)

    # Reading the journal.

    def _read_outages(self) -> list[tuple[float, float]]:
        found: list[tuple[float, float]] = []
        for line in self.of("server-down", "server-up"):
            if line["what"] == "server-down":
                found.append((line["t"], ENDLESS))
            else:
                found[-1] = (found[-1][0], line["t"])
        return found

    def _read_ends(self) -> dict[int, tuple[float, float]]:
        """From a signal that kills, or the last line of its own, to when its end was seen."""
        found: dict[int, tuple[float, float]] = {}
        last: dict[int, float] = {}
        for line in self.lines:
            if line["what"] == "kill":
                found[line["of"]] = line["t"], ENDLESS
            elif line["what"] == "exit":
                found[line["of"]] = found.get(line["of"], (last.get(line["of"], 0.0), 0))[0], line["t"]
            last[line["pid"]] = line["t"]
        return found

    def _read_jobs(self) -> None:
        ended = {line["number"]: line["came_to"] for line in self.of("created")}
        for line in self.of("creating"):
            values = {name: line[name] for name in ("key", "callback", "instance", "exclusive")}
            job = Job(**values, id=line["job"], lines=[line], committed=ended.get(line["number"], "doubt"))
            self.jobs[job.key] = self._by_id[job.id] = job

    def _read_fetches(self) -> None:
        for line in self.of("grant"):
            for key in line["keys"]:
                times = {"moment": line["moment"], "told": line["t"], "deadline": line["deadline"]}
                fetch = Fetch(key, line["worker"], line["lease"], **times, pid=line["pid"], line=line)
                self.fetches.append(fetch)
                self.jobs[key].fetches.append(fetch)
                self.jobs[key].lines.append({**line, "keys": "…"})
        for line in self.of("yielding"):
            self.jobs[line["key"]].lines.append(line)
            for fetch in self.jobs[line["key"]].fetches:
                if abs(fetch.deadline - line["deadline"]) < SLACK and fetch.told <= line["t"] + SLACK:
                    fetch.given_back = line["t"]
        for line in self.of("got"):
            self.jobs[line["key"]].lines.append(line)

    def _read_reports(self) -> None:
        ended = {line["number"]: line for line in self.of("reported", "asked")}
        for line in self.of("report"):
            self._add_report(self.jobs[line["key"]], line, ended.get(line["number"]), **_of_worker(line))
        for line in self.of("asks"):
            jobs = [self._by_id[id] for id in line.get("jobs", ())] + [self.jobs[key] for key in line.get("keys", ())]
            for job in jobs:
                self._add_report(job, line, ended.get(line["number"]), worker="", lease="", moment=0.0, values={})

    def _add_report(self, job: Job, line: Line, end: Line | None, **values: Any) -> None:
        came_to, until = (end["came_to"], end["t"]) if end else ("doubt", ENDLESS)
        if came_to == "refused" and self.was_away(line["t"], until):
            came_to = "doubt"
        until = ENDLESS if came_to == "doubt" else until
        said = end["said"] if end else ""
        job.reports.append(Report(line["verb"], line["t"], until, came_to, line=line, said=said, **values))
        job.lines += [line, *([end] if end else [])]

    def _read_runs(self) -> None:
        open_: dict[tuple[int, str], Run] = {}
        by_pid: dict[int, list[Run]] = defaultdict(list)
        for line in self.of("begin", "end"):
            job, at = self._by_id.get(line["job"]), (line["pid"], line["job"])
            if job is None:
                continue
            job.lines.append(line)
            if line["what"] == "begin":
                open_[at] = Run(line["t"], min(self.last_of(line["pid"]), self._next_outage(line["t"])))
                job.runs.append(open_[at])
                by_pid[line["pid"]].append(open_[at])
            elif at in open_:
                run = open_.pop(at)
                run.end = min(run.end, line["t"])

    def _next_outage(self, after: float) -> float:
        """A run whose database went away may have lost its lease before it ends."""
        return min((down for down, _ in self._outages if down >= after), default=ENDLESS)

    def _take_in_state(self) -> None:
        for name, values in (("rows", self.state["rows"]), ("logs", self.state["logs"])):
            for each in values:
                job = self._by_id.get(each["job" if name == "rows" else "job_id"])
                if job is not None:
                    getattr(job, name).append(each)
        for id, count in self.state["effects"].items():
            self._by_id[id].effects = count


def _of_worker(line: Line) -> dict[str, Any]:
    return {name: line[name] for name in ("worker", "lease", "moment", "values")}
