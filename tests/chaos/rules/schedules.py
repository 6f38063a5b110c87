"""What must hold of schedules: each of their times makes one job, and none is left out but as its misfire says."""

from collections import Counter
from collections.abc import Iterator
from itertools import groupby
from typing import Any

from tests.chaos.history import History, Problem
from tests.chaos.journal import Line

#: Of readings of the wall clock: a line is told some time after the node has looked, and rounded.
_CLOCK = 0.05
#: The whole seconds at which each of these fires, by the remainder of two.
_SECONDS = {"every-second": (0, 1), "even-seconds": (0,), "odd-seconds": (1,)}


def each_time_has_one_job(history: History) -> Iterator[Problem]:
    """A time has one firing, a firing one job, which somebody told to make for that time; and no job that a schedule
    made ran, or is anywhere, without its firing."""
    firings = history.state["firings"]
    for (name, time), count in Counter((each["schedule"], each["time"]) for each in firings).items():
        if count > 1:
            yield Problem("schedules", f"{name} has fired {time} {count} times")
    of_job: dict[str, list[Any]] = {}
    for each in firings:
        of_job.setdefault(each["job"], []).append(each)
    for pk, several in of_job.items():
        yield from _made_for(history, pk, several)
    for job in history.jobs.values():
        if job.kind == "scheduled" and job.id not in of_job and (job.runs or job.rows or job.logs):
            yield Problem("schedules", "was made by a schedule, which has not noted it", job, tuple(job.lines))


def _made_for(history: History, pk: str, firings: list[Any]) -> Iterator[Problem]:
    job = history.jobs.get(pk)
    if job is None:
        yield Problem("schedules", f"nobody has told that {pk} is made for {firings}")
    elif len(firings) > 1 or job.creating["scheduled_for"] != firings[0]["time"]:
        yield Problem("schedules", f"was not made for {firings}, or not for one time", job, tuple(job.lines))


def runs_know_their_time(history: History) -> Iterator[Problem]:
    """What a run is told of the time for which it was made is that of the firing."""
    times = {each["job"]: each["time"] for each in history.state["firings"]}
    for job, run in history.runs():
        if job.kind == "scheduled" and run.result == "ok" and run.scheduled_for != times.get(job.id):
            text = f"was told that it was made for {run.scheduled_for}, and it was for {times.get(job.id)}"
            yield Problem("schedules", text, job, tuple(job.lines))


def no_time_is_missing(history: History) -> Iterator[Problem]:
    """Of the times between the saving of a schedule and the moment when it had caught up each was fired, but for those
    that were missed by more than the threshold when somebody came to fire what is next."""
    caught_up = max((line["until"] for line in history.of("caught-up")), default=None)
    if caught_up is None:
        return
    for line in history.of("schedule"):
        fired = {round(each["time"], 6) for each in history.state["firings"] if each["schedule"] == line["name"]}
        made = {time: _told(history, line["name"], time) for time in fired if time == int(time)}
        times = range(int(line["w"]) + 1, int(caught_up) + 1)
        due = [time for time in times if time % 2 in _SECONDS[line["name"]]]
        strange = [time for time in made if time % 2 not in _SECONDS[line["name"]]]
        if strange:
            yield Problem("schedules", f"{line['name']} has fired {sorted(strange)}, none of its times", None, (line,))
        yield from _gaps(line, due, made)


def _told(history: History, name: str, time: float) -> float:
    """When somebody told that the job of this time is made, by the wall clock."""
    jobs = [each["job"] for each in history.state["firings"] if (each["schedule"], each["time"]) == (name, time)]
    return max((history.jobs[pk].creating["w"] for pk in jobs if pk in history.jobs), default=float("inf"))


def _gaps(line: Line, due: list[int], made: dict[float, float]) -> Iterator[Problem]:
    for missing, group in groupby(due, lambda time: time not in made):
        gap = list(group)
        if not missing:
            continue
        later = [time for time in sorted(made) if time > gap[-1]]
        moment = made[later[0]] if later else None
        # ONCE looks at the first that was missed, SKIP at each of them.
        late = {"once": gap[0], "skip": gap[-1]}.get(line["misfire"])
        excused = late is not None and moment is not None and moment >= late + line["threshold"] - _CLOCK
        if not excused:
            when = f"{later[0]} was made at {moment:.3f}" if moment else "none was made afterwards"
            text = f"{line['name']} ({line['misfire']}) has not fired {gap[0]} to {gap[-1]}; {when}"
            yield Problem("schedules", text, None, (line,))
