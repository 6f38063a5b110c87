"""What is told of a run: what happened, and what is wrong."""

from collections import Counter
from collections.abc import Iterator

from tests.chaos.report import _listed

from .history import History, Problem

_SHOWN = 8


def summary(history: History) -> Iterator[str]:
    """How much there was to judge."""
    jobs = history.jobs.values()
    reports = Counter(f"{report.verb} {report.came_to}" for job in jobs for report in job.reports)
    yield f"jobs: {sum(job.committed == 'ok' for job in jobs)} made, {len(history.fetches)} fetches"
    yield f"reports: {_listed(reports)}"
    refusals = Counter(line["said"].split(" ")[0].rstrip(":") for line in history.of("reported") if line["said"])
    yield f"said: {_listed(refusals)}"
    befell = Counter(line["what"] for line in history.of("kill", "pause", "term", "server-down", "yielding", "away"))
    yield f"befell: {_listed(befell)}"
    yield f"asked: {_listed(Counter(line['verb'] for line in history.of('asks')))}"
    yield f"at the end: {_listed(Counter(row['table'] for row in history.state['rows']))}"


def verdict(history: History, problems: list[Problem]) -> Iterator[str]:
    """What is wrong, some of each rule."""
    rules = Counter(problem.rule for problem in problems)
    seen: Counter[str] = Counter()
    for problem in problems:
        seen[problem.rule] += 1
        if seen[problem.rule] <= max(1, _SHOWN // len(rules)):
            yield problem.shown(history.start)
    if problems:
        yield f"PROBLEMS: {_listed(rules)}"
