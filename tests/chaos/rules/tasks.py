"""What must hold of tasks of django.tasks: their results say what became of them, and nothing else does."""

from collections.abc import Iterator
from typing import Any

from tests.chaos.history import History, Job, Problem


def _tasks(history: History) -> Iterator[tuple[Job, dict[str, Any] | None]]:
    results = {result["job"]: result for result in history.state["results"]}
    for job in history.jobs.values():
        if job.kind.startswith("task"):
            yield job, results.pop(job.id, None)


def results_say_what_happened(history: History) -> Iterator[Problem]:
    """A task that is over has one result, which is final; one that lives has none, or one that is not."""
    for job, result in _tasks(history):
        expected = _expected(job)
        status = result["status"] if result else ""
        if expected and status not in expected:
            text = f"has the result {status or 'none'}, and the tables say {' or '.join(map(repr, expected))}"
            yield Problem("results", text, job, tuple(job.lines))
        elif result and result["ended"] != (status != "READY"):
            yield Problem("results", f"is {status}, and has {'an' if result['ended'] else 'no'} end", job)
        elif result and expected and result["seen"] not in _shown(job, status):
            yield Problem("results", f"is {status}, and is shown as {result['seen']}", job, tuple(job.lines))
    known = {job.id for job in history.jobs.values() if job.kind.startswith("task")}
    for result in history.state["results"]:
        if result["job"] not in known:
            yield Problem("results", f"{result['job']} has a result, and is no task that was enqueued")


def _expected(job: Job) -> tuple[str, ...]:
    """What the result of this task may be; '' stands for none, and nothing for a task that was never there."""
    if job.rows:
        return ("FAILED",) if job.rows[0]["table"] == "dead letter" else ("", "READY")
    if job.logged("successful"):
        return ("SUCCESSFUL",)
    if job.logged("deleted") or job.logged("cancelled"):
        return ("FAILED",)
    return ()


def _shown(job: Job, status: str) -> tuple[str, ...]:
    # Nodes that were killed at the end of a run without an end hold their locks.
    return ("READY", "RUNNING") if job.rows and status == "READY" else (status,)


def values_are_those_of_the_last_run(history: History) -> Iterator[Problem]:
    """What a task returned is what its last run did: nobody begins a task whose success has counted, and no success
    counts after somebody else has begun it. Any other has no value."""
    for job, result in _tasks(history):
        if result is None:
            continue
        last = job.runs[-1].returns if job.runs else None
        expected = last if result["status"] == "SUCCESSFUL" else None
        if result["value"] != expected:
            text = f"is {result['status']} with the value {result['value']}, and its last run returned {last}"
            yield Problem("values", text, job, tuple(job.lines))


def each_attempt_is_noted_once(history: History) -> Iterator[Problem]:
    """A result names one node for each attempt that counted: each failure in the job log and the success."""
    for job, result in _tasks(history):
        if result is None or job.was_asked("cancel"):  # a run that a cancellation ended is in no log of runs
            continue
        counted = len(job.logged("failed")) + len(job.logged("successful"))
        if len(result["workers"]) != counted:
            text = f"has the workers {result['workers']}, and {counted} attempts in the job log"
            yield Problem("attempts", text, job, tuple(job.lines))


def sightings_are_true(history: History) -> Iterator[Problem]:
    """Whoever asks for a task finds it; once it was seen as successful, it stays so, and with its value."""
    successes: dict[str, Any] = {}
    for line in history.of("saw"):
        for pk, (status, value) in line["seen"].items():
            job = history.jobs[pk]
            if status == "nowhere":
                yield Problem("sightings", "is there, and was not found", job, (line, *job.lines))
            elif pk in successes and [status, value] != successes[pk]:
                yield Problem("sightings", f"was {successes[pk]}, and then {status} {value}", job, (line, *job.lines))
            elif status == "SUCCESSFUL":
                successes[pk] = [status, value]
    for job, result in _tasks(history):
        if job.id in successes and (result is None or result["value"] != successes[job.id][1]):
            text = f"was successful with {successes[job.id][1]}, and is not any more"
            yield Problem("sightings", text, job, tuple(job.lines))
