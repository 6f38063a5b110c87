"""What must hold of unique keys: of the jobs that want one, no two have it at the same time.

While a job certainly has its key is less than while it has it: from the line after its commit, or its first run, to the
last line before its end. A running job that was to be unique only while it waits is left out for that reason.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations

from tests.chaos.history import History, Job, Problem, Run
from tests.chaos.journal import Line
from tests.chaos.lives import ENDLESS
from tests.chaos.people.callers import LASTS

_CLOCK = 0.05
_REPLACED = "Replaced by "


@dataclass
class _Held:
    """From when to when a job certainly has a key, and from when to when the call lasted that made it."""

    job: Job
    start: float
    end: float
    asked: float
    told: float


def no_key_has_two_jobs(history: History) -> Iterator[Problem]:
    """No two jobs with a key had it at the same time, and none was made while another certainly had it."""
    keys: dict[str, list[_Held]] = {}
    for job in history.jobs.values():
        if job.kind == "keyed" and (held := _held(history, job)):
            keys.setdefault(job.creating["key"], []).append(held)
    for key, holders in keys.items():
        for one, other in combinations(holders, 2):
            both = max(one.start, other.start) < min(one.end, other.end)
            if both or _within(one, other) or _within(other, one):
                text = f"had the key {key} while {one.job.id} had it"
                lines = sorted([*one.job.lines, *other.job.lines], key=lambda line: line["t"])
                yield Problem("unique keys", text, other.job, tuple(lines))


def _within(one: _Held, other: _Held) -> bool:
    return one.start < other.asked and other.told < one.end


def _held(history: History, job: Job) -> _Held | None:
    """None for a job that was perhaps never there."""
    call = job.creating["call"]
    asked = history.calls["keying"][call]["t"]
    answer = history.calls["keyed"].get(call)
    moments = [answer["t"]] if answer and answer["ok"] else []
    moments += [run.begin for run in job.runs[:1]]
    if not moments:
        return None
    start = min(moments)
    return _Held(job, start, _end(history, job, start, asked), asked, max(moments))


def _end(history: History, job: Job, start: float, asked: float) -> float:
    kind = job.creating["key"].split("-")[0]
    for log in job.logged("deleted"):
        successor = history.jobs.get(log["exception_message"].removeprefix(_REPLACED))
        return history.calls["keying"][successor.creating["call"]]["t"] if successor else start
    if kind == "waiting":
        due = job.creating["due"]
        return start if due is None else job.creating["t"] + due - job.creating["w"] - _CLOCK
    end = _ends(job, start, kind)
    return max(end, asked + LASTS - _CLOCK) if kind == "for" else end


def _ends(job: Job, start: float, kind: str) -> float:
    dead = bool(job.rows) and job.rows[0]["table"] == "dead letter"
    if job.rows and (not dead or kind == "existing"):
        return ENDLESS
    ends = [run.begin if run.end is None else run.end for run in job.runs[-1:]]
    return max([start, *ends])


def duplicates_have_a_holder(history: History) -> Iterator[Problem]:
    """Whoever is told that a job is there already is told one of that key, which was not over when they asked."""
    for line in history.of("keyed"):
        if not line["ok"] or not line["duplicate"]:
            continue
        job = history.jobs.get(line["job"])
        if job is None or job.creating.get("key") != line["key"]:
            text = f"{line['key']} was a duplicate of {line['job']}, which nobody has made with this key"
            yield Problem("unique keys", text, job, (line,))
        elif reason := _free(history, job, history.calls["keying"][line["call"]]["t"], line):
            text = f"was said to have the key {line['key']}, and {reason} before"
            yield Problem("unique keys", text, job, (*job.lines, line))


def _free(history: History, job: Job, asked: float, line: Line) -> str:
    """Why a job could not have its key any more at any time of a call; '' if it could."""
    kind = line["key"].split("-")[0]
    if kind == "for" and asked < job.creating["t"] + LASTS + _CLOCK:
        return ""
    if kind == "waiting" and any(_runs_throughout(history, run, asked, line["t"]) for run in job.runs):
        return "ran since"
    over = {"done"} if kind == "existing" else {"done", "dead"}
    return "was over" if any(each["result"] in over and each["t"] < asked for each in job.of("outcome")) else ""


def _runs_throughout(history: History, run: Run, since: float, until: float) -> bool:
    sure = run.begin < since and run.end is not None and run.end > until
    return sure and not run.timed_out and not history.lost_by(run, until + _CLOCK)


def calls_fail_only_in_conflicts(history: History) -> Iterator[Problem]:
    """Whoever enqueues with a key meets no error but a conflict of the database, or one that is away."""
    for line in history.of("keyed"):
        asked = history.calls["keying"][line["call"]]["t"]
        if not line["ok"] and not line["conflict"] and not history.outage(asked - 5, line["t"]):
            yield Problem("unique keys", f"a call has failed: {line['error']}", None, (line,))
