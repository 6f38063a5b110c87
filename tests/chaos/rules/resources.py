"""What must hold of what jobs share: no more runs at once than it bears, and no more permits than its rate allows."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from jobexec.conf import resources
from tests.chaos.history import History, Problem, Run

#: The clocks of a server and of its machine are the same here; what a reading of them costs.
_CLOCK = 0.02


@dataclass
class _Resource:
    name: str
    limits: dict[str, Any]
    #: Those that count: until their timeout a thread is stuck, it says nothing of when that was settled.
    runs: list[Run] = field(default_factory=list)
    #: How many of them were there at the same moment.
    most: int = 0
    crowds: list[list[Run]] = field(default_factory=list)


def sharing(history: History) -> Iterator[_Resource]:
    """The resources, each with its runs and with the moments at which more of them were there than it bears."""
    limits = {entry: own for line in history.of("limits") for entry, own in line.get("resources", {}).items()}
    found: dict[str, _Resource] = {}
    for job, run in history.runs():
        if job.resource and not run.timed_out and "late" not in job.kind:
            entry = job.resource if job.resource in limits else f"{job.resource.partition(':')[0]}:*"
            found.setdefault(job.resource, _Resource(job.resource, limits[entry])).runs.append(run)
    for _, resource in sorted(found.items()):
        _count(history, resource)
        yield resource


def _count(history: History, resource: _Resource) -> None:
    """A run without an end counts until its lease is over: what a killed node held is nobody's before. A run that
    begins when its lease is over has no permit any more, and whoever has it now is counted."""
    here: list[Run] = []
    for run in sorted(resource.runs, key=lambda run: run.begin):
        here = [each for each in here if each.over_by() > run.begin and not history.lost_by(each, run.begin + _CLOCK)]
        if history.lost_by(run, run.begin + _CLOCK):
            continue
        here.append(run)
        resource.most = max(resource.most, len(here))
        if len(here) > resource.limits.get("limit", len(here)):
            resource.crowds.append(list(here))


def resources_bear_what_runs(history: History) -> Iterator[Problem]:
    """Never more runs of a resource at once than its limit, in the whole cluster, not counting those whose node had
    lost its lease, and those past their timeout."""
    for resource in sharing(history):
        for crowd in resource.crowds:
            text = f"began beside {len(crowd) - 1} others of {resource.name}, whose limit is {resource.limits['limit']}"
            yield Problem("resources", text, history.jobs[crowd[-1].job], history.about(*crowd))


def rates_are_kept(history: History) -> Iterator[Problem]:
    """In no time are there more permits than the rate of a resource allows.

    Nobody tells when a permit was taken; certainly before its run begins, however late that is, and not before the job
    came, or its last attempt failed. Permits of which both lie within a time were taken in it, so the burst and what
    the rate allows in that time bound their number. With a burst more: a node that is paused when it has looked at the
    clock and not yet at the jobs finds some that came meanwhile. The others wait for it, so that is so once in a time.
    """
    for resource in sharing(history):
        if "rate" in resource.limits:
            rate = resources.rate(resource.limits["rate"], resource.limits.get("burst"))
            interval = rate.period.total_seconds() / (rate.count - rate.burst + 1)
            yield from _too_soon(history, resource.name, 2 * rate.burst, interval)


def _too_soon(history: History, name: str, burst: int, interval: float) -> Iterator[Problem]:
    permits = sorted(_permits(history, name), key=lambda permit: permit[1].begin)
    for since in sorted({since for since, _ in permits}):
        within = [run for first, run in permits if first >= since]
        for count, run in enumerate(within, 1):
            lasted = run.begin - since
            if count > burst + (lasted + 2 * _CLOCK) / interval:
                text = f"was number {count} of {name} that came and began within {lasted:.3f} s"
                yield Problem("rates", text, history.jobs[run.job], history.about(*within[:count]))
                return


def _permits(history: History, name: str) -> Iterator[tuple[float, Run]]:
    """The runs that certainly took a permit of their own, each with a moment after which that was.

    One that was lost or given back is run again with the permit that it had.
    """
    for job in history.jobs.values():
        if job.resource != name:
            continue
        since: float | None = job.creating["t"]
        for run in job.runs:
            if since is not None and not history.lost_by(run, run.begin):
                yield since, run
            failed = run.outcome is not None and run.outcome["result"] == "failed" and not run.timed_out
            since = run.end if failed else None
