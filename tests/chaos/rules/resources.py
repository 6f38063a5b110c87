"""What must hold of what jobs share: no more runs at once than it bears, no more permits than its rate allows, and no
more than trial calls while its breaker is not closed."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from jobexec.conf import resources
from tests.chaos.history import History, Line, Problem, Run
from tests.chaos.lives import ENDLESS

#: The clocks of a server and of its machine are the same here; what a reading of them costs.
_CLOCK = 0.02
#: Heartbeats after which a node knows what began before the first of them. "With its next heartbeat at the latest" is
#: what is promised; but that one only wakes the loop that looks, and the two after it give the loop time to do so.
_BEATS = 3
#: Seconds after the end of a pause for which the others still wait for what the paused process had locked, and after
#: an outage for which a loop that has failed several times does nothing.
_LOCKED, _FAILING = 0.5, 5.0


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
    for here in _together(history, resource.runs):
        resource.most = max(resource.most, len(here))
        if len(here) > resource.limits.get("limit", len(here)):
            resource.crowds.append(here)


def _together(history: History, runs: list[Run]) -> Iterator[list[Run]]:
    """Those of these runs that go on when one of them begins, which is the last one."""
    here: list[Run] = []
    for run in sorted(runs, key=lambda run: run.begin):
        here = [each for each in here if each.over_by() > run.begin and not history.lost_by(each, run.begin + _CLOCK)]
        if not history.lost_by(run, run.begin + _CLOCK):
            here = [*here, run]
            yield here


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


@dataclass(frozen=True)
class _Spell:
    """A time for which a breaker was certainly not closed; until `shut` it let no job begin."""

    resource: str
    why: str
    since: float
    shut: float
    until: float
    line: Line


def spells(history: History) -> Iterator[_Spell]:
    """The times for which operators held resources open, and for which breakers were open or half open."""
    limits = {entry: own for line in history.of("limits") for entry, own in line.get("resources", {}).items()}
    released = history.of("breaker-releases")
    changed = history.of("breaker-holds", "breaker-releases")
    for line in history.of("breaker-held"):
        end = min(line["t"] + line["until"] - line["w"] - _CLOCK, _next(changed, line))
        yield _Spell(line["resource"], "was held open by an operator", line["t"], end, end, line)
    closing = [*released, *(begin for begin, end in _calls(history, "count") if end is None or end["done"])]
    for before, after in _calls(history, "open"):
        if after is not None and after["done"]:
            profile, until = resources.breaker(limits[after["resource"]]["breaker"]), _next(closing, after)
            shut = min(until, before["t"] + profile.wait.total_seconds() - _CLOCK)
            yield _Spell(after["resource"], "had an open breaker", after["t"], shut, until, after)


def _next(lines: list[Line], line: Line) -> float:
    """The time of the first of these lines that comes after one about the same resource."""
    moments = [each["t"] for each in lines if each["resource"] == line["resource"] and each["t"] > line["t"]]
    return min(moments, default=ENDLESS)


def _calls(history: History, deed: str) -> Iterator[tuple[Line, Line | None]]:
    """The lines before and after each call that opens a breaker, or counts trial calls; None for one without an end."""
    begun: dict[tuple[int, str], Line] = {}
    for line in history.of(f"breaker-{deed}s", f"breaker-{deed}ed"):
        begin = begun.pop((line["pid"], line["resource"]), None)
        if line["what"] == f"breaker-{deed}s":
            begun[line["pid"], line["resource"]] = line
        if begin is not None:
            yield begin, line if line["what"] == f"breaker-{deed}ed" else None
    for begin in begun.values():
        yield begin, None


def breakers_let_none_begin(history: History) -> Iterator[Problem]:
    """No run of a resource begins while its breaker is open, or an operator holds it open, once its node has heard of
    it."""
    for spell in spells(history):
        for job, run in history.runs():
            if job.resource == spell.resource and spell.since < run.begin < spell.shut:
                knew = _knew(history, run.owner, spell.since)
                if knew < run.begin:
                    text = f"began {run.begin - knew:.3f} s after its node knew that {spell.resource} {spell.why}"
                    yield Problem("breakers", text, job, (spell.line, *history.about(run)))


def only_trial_calls_run(history: History) -> Iterator[Problem]:
    """While a breaker is not closed, no more runs at once than its trial calls begin, on nodes that knew of it before
    these were let through."""
    found = {resource.name: resource for resource in sharing(history)}
    for spell in spells(history):
        if spell.until > spell.shut and spell.resource in found:
            resource = found[spell.resource]
            most = resources.breaker(resource.limits["breaker"]).trial_calls
            for here in _together(history, trial_calls(history, spell, resource.runs)):
                if len(here) > most:
                    text = f"began beside {len(here) - 1} others of {spell.resource}, which allows {most} trial calls"
                    lines = (spell.line, *history.about(*here))
                    yield Problem("breakers", text, history.jobs[here[-1].job], lines)


def trial_calls(history: History, spell: _Spell, runs: list[Run]) -> list[Run]:
    """Those of the runs that must be trial calls."""
    during = [run for run in runs if spell.since < run.begin < spell.until]
    knew = {run.owner: _knew(history, run.owner, spell.since) for run in during}
    return [run for run in during if knew[run.owner] < min(run.begin, spell.shut)]


def _knew(history: History, owner: str, since: float) -> float:
    """When a node certainly knew of what happened at a moment: after some heartbeats that nothing has disturbed.

    Any node that is paused may have locked what the loop of another one waits for.
    """
    disturbed = [(begin, end + _LOCKED) for begin, end in history.pauses]
    disturbed += [(begin, end + _FAILING) for begin, end in history.outages]
    while since < ENDLESS:
        beats = history.beats(owner, since)[:_BEATS]
        if len(beats) < _BEATS:
            return ENDLESS
        over = [end for begin, end in disturbed if begin <= beats[-1]["t"] and end > since]
        if not over:
            return float(beats[-1]["t"])
        since = max(over)
    return ENDLESS
