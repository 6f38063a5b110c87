"""What a run was like, in a few lines, and whether it was good."""

from collections import Counter
from collections.abc import Iterator

from .history import History, Problem, Run
from .journal import Line
from .people.callers import TOGETHER
from .rules.resources import sharing, spells, trial_calls
from .rules.runs import repeats

_SHOWN = 10


def summary(history: History) -> Iterator[str]:
    """The figures of a run."""
    runs = [run for _, run in history.runs()]
    lost = sum(run.end is None for run in runs)
    yield f"jobs      {len(history.jobs)}: {_listed(_ends(history))}"
    yield f"runs      {len(runs)}, of which {lost} were lost in the middle; {_listed(_results(runs))}"
    counts = Counter(line["what"] for line in history.lines)
    pauses = ("kill", "pause", "term", "start", "server-down", "declared")
    kills, paused, drained, starts, outages, declared = (counts[what] for what in pauses)
    dies = counts["dies"]
    yield f"nodes     {starts} starts, {kills} kills, {dies} killed by jobs, {paused} pauses, {drained} drains"
    yield f"leases    {declared} nodes declared dead; {outages} outages of the server"
    causes = _causes(history)
    yield f"repeats   {causes.total()} runs that had ended well were repeated: {_listed(causes)}"
    charged = sum("process died" in log["exception_message"] for log in history.state["logs"])
    innocent = sum(
        "process died" in log["exception_message"] and not job.kills
        for job in history.jobs.values()
        for log in job.logs
    )
    yield f"charges   {charged} retries for lost runs, {innocent} of them to jobs whose node was killed or paused twice"
    if stay := history.of("stays"):
        yield f"stayed    {sum(len(line['jobs']) for line in stay)} jobs that handlers enqueued, with their node"
    if batches := history.state["job_batches"]:
        states = Counter(batch["state"] for batch in batches)
        yield f"batches   of {sum(batch['total'] for batch in batches)} jobs: {_listed(states)}"
    if shared := list(sharing(history)):
        yield f"shared    {'; '.join(f'{each.name}: {len(each.runs)} runs, {each.most} at once' for each in shared)}"
        times, runs_of = list(spells(history)), {each.name: each.runs for each in shared}
        opened = [spell for spell in times if spell.line["what"] == "breaker-opened"]
        trials = {id(run) for spell in opened for run in trial_calls(history, spell, runs_of.get(spell.resource, []))}
        yield f"breakers  {len(times) - len(opened)} times held, {len(opened)} times opened; {len(trials)} trial calls"
    if instances := history.state["instances"]:
        states = Counter(row["state"] for row in instances)
        yield f"processes {len(instances)} instances: {_listed(states)}; {len(history.of('step-ends'))} steps of flows"
    if published := history.of("published"):
        duplicates = sum(line["duplicate"] for line in published)
        went = Counter(run.message is not None for job, run in history.runs() if job.waits and run.end is not None)
        known = f"{len(published)} published, {duplicates} of them duplicates"
        yield f"messages  {known}; {went[True]} runs went on with one, {went[False]} without"
    yield from _of_tasks(history)


def _of_tasks(history: History) -> Iterator[str]:
    """The figures of schedules, unique keys and tasks, as far as there were some."""
    firings = history.state["firings"]
    if firings:
        times = [each["time"] for each in firings]
        hand = sum(time != int(time) for time in times)
        yield f"times     {len(firings) - hand} of schedules were fired, and {hand} jobs by hand"
    answers = history.of("keyed")
    if answers:
        found = Counter(_answer(line) for line in answers)
        replaced = sum(job.kind == "keyed" and bool(job.logged("deleted")) for job in history.jobs.values())
        yield f"keys      {len(answers)} asked for: {_listed(found)}; {replaced} jobs were replaced"
    results = Counter(result["status"].lower() for result in history.state["results"])
    if results:
        yield f"results   {_listed(results)}; seen {sum(len(line.get('seen', ())) for line in history.of('saw'))} times"


def _answer(line: Line) -> str:
    if line["ok"]:
        return "duplicates" if line["duplicate"] else "taken"
    if line["error"] == TOGETHER:
        return "given up with another key"
    return "failed in a conflict" if line["conflict"] else "failed in an outage"


def _ends(history: History) -> Counter[str]:
    ends: Counter[str] = Counter()
    for job in history.jobs.values():
        if job.rows:
            ends[job.rows[0]["table"]] += 1
        else:
            gone = [state for state in ("successful", "deleted", "cancelled") if job.logged(state)]
            ends[gone[0] if gone else "never created"] += 1
    return ends


def _results(runs: list[Run]) -> Counter[str]:
    return Counter({"ok": "ended well", "failed": "failed"}[run.result] for run in runs if run.result)


def _causes(history: History) -> Counter[str]:
    """What stood between the end of a run and its outcome."""
    causes: Counter[str] = Counter()
    paused = {line["of"]: line["t"] for line in history.of("pause")}
    for _, first, second in repeats(history):
        if history.died(first.pid) <= second.begin:
            causes["its process was killed"] += 1
        elif history.outage(first.begin - 5, second.begin):
            causes["the server was away"] += 1
        elif first.pid in paused:
            causes["its process was paused"] += 1
        else:
            causes["its node was late"] += 1
    return causes


def _listed(counts: Counter[str]) -> str:
    return ", ".join(f"{count} {name}" for name, count in counts.most_common()) or "none"


def verdict(history: History, problems: list[Problem]) -> Iterator[str]:
    """What is wrong, the first of each rule first."""
    rules = Counter(problem.rule for problem in problems)
    seen: Counter[str] = Counter()
    for problem in problems:
        seen[problem.rule] += 1
        if seen[problem.rule] <= max(1, _SHOWN // len(rules)):
            yield problem.shown(history.start)
    if problems:
        yield f"PROBLEMS: {_listed(rules)}"
