"""One story out of the journal of all processes and what the database says at the end."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any

from .journal import Line, shown
from .lives import ENDLESS, Job, Run


@dataclass(frozen=True)
class Problem:
    """What a rule found: about which job (or nobody), and the lines that show it."""

    rule: str
    text: str
    job: Job | None = None
    lines: tuple[Line, ...] = ()

    def shown(self, start: float) -> str:
        about = f" job {self.job.id} ({self.job.kind})" if self.job else ""
        return "\n".join(
            [f"{self.rule}:{about} {self.text}", *(f"    {shown(each, start)}" for each in _cut(self.lines))]
        )


def _cut(lines: tuple[Line, ...], most: int = 24) -> tuple[Line, ...]:
    return lines if len(lines) <= most else (*lines[: most // 2], *lines[-most // 2 :])


class History:
    """`lines` is the journal in the order of time, `state` what `state.look()` returned."""

    def __init__(self, lines: list[Line], state: dict[str, Any], *, single: bool = False) -> None:
        self.lines, self.state = lines, state
        #: One node at a time (SQLite): the next one need not wait for the lease of one that is dead.
        self.single = single
        self.jobs: dict[str, Job] = {}
        self.declared = self.of("declared")
        self._leases: dict[str, list[Line]] = {}
        self._open: dict[tuple[str, str, int], Run] = {}
        for line in lines:
            tell = getattr(self, f"_on_{line['what'].replace('-', '_')}", None)
            if tell is not None:
                tell(line)
        self._take_in_state()

    @property
    def start(self) -> float:
        return float(self.lines[0]["t"]) if self.lines else 0.0

    def of(self, *whats: str) -> list[Line]:
        return [line for line in self.lines if line["what"] in whats]

    # Reading the journal.

    def _on_creating(self, line: Line) -> None:
        for job in line["jobs"]:
            columns = {key: job[key] for key in ("kind", "instance", "exclusive", "atomic", "retries", "tenant")}
            more = ("priority", "now", "resource", "batch", "waits")
            columns |= {key: job[key] for key in more if job.get(key) is not None}
            if job["instance"] and job["tenant"]:
                columns["instance"] = f"{job['instance']} of {job['tenant']}"  # its namesakes elsewhere are others
            self.jobs[job["id"]] = Job(id=job["id"], **columns, lines=[{**line, "jobs": [job["id"]]}])
            self.jobs[job["id"]].creating = line

    def _on_created(self, line: Line) -> None:
        for pk in line["jobs"]:
            self.jobs[pk].in_doubt = not line["ok"]
            self.jobs[pk].created = line["t"] if line["ok"] else None

    def _on_asks(self, line: Line) -> None:
        of_tenant = [job.id for job in self.jobs.values() if job.tenant == line["tenant"]] if "tenant" in line else []
        for pk in line.get("jobs", of_tenant):
            self.jobs[pk].asked.append((line["verb"], line["t"]))
            self.jobs[pk].lines.append(line)

    def _on_lease(self, line: Line) -> None:
        self._leases.setdefault(line["owner"], []).append(line)

    def _on_begin(self, line: Line) -> None:
        run = Run(line["job"], line["owner"], line["pid"], line["attempt"], line["lost"], line["t"], [line])
        self._open[line["job"], line["owner"], line["attempt"]] = run
        self._note(line).runs.append(run)

    def _on_end(self, line: Line) -> None:
        run = self._open[line["job"], line["owner"], line["attempt"]]
        run.end, run.result = line["t"], line["result"]
        run.timed_out |= line.get("late", False)
        run.returns, run.scheduled_for = line.get("returns"), line.get("scheduled_for")
        run.message = line.get("message")
        run.lines.append(line)
        self._note(line)

    def _on_dies(self, line: Line) -> None:
        self._open[line["job"], line["owner"], line["attempt"]].dies = True
        self._note(line)

    def _on_outcome(self, line: Line) -> None:
        job = self._note(line)
        if line.get("error") == "WorkerLost":
            return  # told by who recovered the node, not by who ran the job
        for run in reversed(job.runs):
            run.timed_out |= (run.pid, run.attempt, "JobTimeout") == (line["pid"], line["attempt"], line.get("error"))
            here = run.pid == line["pid"] and (run.end is not None or run.timed_out)
            # Whoever cancels does not say which attempt it was; and what is put off while its node drains is none.
            same = line["result"] == "cancelled" or line["attempt"] == run.attempt
            same = same and line.get("owner", run.owner) == run.owner
            if here and same:
                run.outcome = line
                return

    def _on_settling(self, line: Line) -> None:
        for pk, attempt in line["runs"]:
            for run in reversed(self.jobs[pk].runs):
                if (run.pid, run.attempt) == (line["pid"], attempt) and run.end is not None:
                    run.settling = line["t"] if run.settling is None else run.settling
                    run.lines.append(line)
                    break

    def _note(self, line: Line) -> Job:
        job = self.jobs[line["job"]]
        job.lines.append(line)
        return job

    def _take_in_state(self) -> None:
        for row in self.state["rows"]:
            self.jobs[row["job"]].rows.append(row)
        for log in self.state["logs"]:
            self.jobs[log["job_id"]].logs.append(log)
        for firing in self.state["firings"]:
            if firing["job"] in self.jobs:
                self.jobs[firing["job"]].in_doubt = False
        for pk, count in self.state["effects"].items():
            self.jobs[pk].effects = count

    # Questions.

    def beats(self, owner: str, since: float) -> list[Line]:
        """The leases that this owner got by what it asked for after a moment."""
        return [line for line in self._leases.get(owner, []) if line["start"] >= since]

    @cached_property
    def pauses(self) -> list[tuple[float, float]]:
        """From when to when some process was paused."""
        found, ends = [], self.of("resume-sent", "exit")
        for line in self.of("pause"):
            mine = [end["t"] for end in ends if end["of"] == line["of"] and end["t"] > line["t"]]
            found.append((line["t"], min(mine, default=ENDLESS)))
        return found

    def lease_end(self, owner: str) -> float:
        """When the last lease of this owner ended. Nobody may take its jobs before: all its renewals came before it
        was declared dead, or they would not have succeeded."""
        return max((line["until"] for line in self._leases.get(owner, [])), default=-ENDLESS)

    def lease_end_at(self, owner: str, moment: float) -> float:
        """Until when this owner could believe in its lease at a moment."""
        ends = [line["until"] for line in self._leases.get(owner, []) if line["t"] <= moment]
        return max(ends, default=-ENDLESS)

    def lost_by(self, run: Run, moment: float) -> bool:
        """Whether the node of this run had lost its right to the job at a moment: its lease had run out."""
        if self.lease_end(run.owner) <= moment:
            return True
        return self.single and self.died(run.pid) <= moment

    @cached_property
    def calls(self) -> dict[str, dict[int, Line]]:
        """The lines before and after each call that asks for a unique key, by its number."""
        return {what: {line["call"]: line for line in self.of(what)} for what in ("keying", "keyed")}

    def died(self, pid: int) -> float:
        """When a process was known to have ended."""
        return self._exits.get(pid, ENDLESS)

    @cached_property
    def _exits(self) -> dict[int, float]:
        return {line["of"]: line["t"] for line in self.of("exit")}

    @cached_property
    def killed(self) -> dict[int, float]:
        """When the driver killed a process."""
        return {line["of"]: line["t"] for line in self.of("kill")}

    @cached_property
    def outages(self) -> list[tuple[float, float]]:
        """From when to when the server was away."""
        found, down = [], None
        for line in self.of("server-down", "server-up"):
            if line["what"] == "server-down":
                down = line["t"]
            elif down is not None:
                found.append((down, line["t"]))
                down = None
        return [*found, (down, ENDLESS)] if down is not None else found

    @cached_property
    def whole_outages(self) -> list[tuple[float, float]]:
        """Outages that no lease survives."""
        return [(down, up) for down, up in self.outages if self.lease_time <= self._away(down, up) < ENDLESS]

    def _away(self, down: float, up: float) -> float:
        """How long nobody renewed a lease: a server is there before that is told."""
        renewed: list[float] = sorted(line["start"] for line in self.of("lease") if down < line["start"] < up)
        return max(later - earlier for earlier, later in pairwise([down, *renewed, up]))

    @property
    def lease_time(self) -> float:
        """The length of a lease, in seconds; endless if there was none."""
        return min((line["until"] - line["start"] for line in self.of("lease")), default=ENDLESS)

    def renewed_first(self, pid: int, after: float) -> float | None:
        """When a process first had a lease after a moment; None if nobody knows."""
        starts = [line["start"] for line in self.of("lease") if line["pid"] == pid and line["start"] > after]
        return min(starts, default=None)

    def outage(self, since: float, until: float) -> bool:
        """Whether the server was away at any time in between."""
        return any(down <= until and up >= since for down, up in self.outages)

    def runs(self) -> Iterator[tuple[Job, Run]]:
        for job in self.jobs.values():
            for run in job.runs:
                yield job, run

    def about(self, *runs: Run) -> tuple[Line, ...]:
        """The lines of these runs, and what befell their nodes meanwhile."""
        pids, owners = {run.pid for run in runs}, {run.owner for run in runs}
        first = min(run.begin for run in runs)
        last = max(run.begin if run.end is None else run.end for run in runs)
        jobs = {run.job for run in runs}
        chosen = [
            line
            for line in self.lines
            if (line.get("job") in jobs and line.get("owner", "") in {*owners, ""})
            or (line.get("of") in pids and first - 5 <= line["t"] <= last + 5)
            or (line["what"] == "declared" and line["owner"] in owners)
        ]
        leases = [max(lines, key=lambda line: line["until"]) for owner in owners if (lines := self._leases.get(owner))]
        return tuple(sorted([*chosen, *leases], key=lambda line: line["t"]))
