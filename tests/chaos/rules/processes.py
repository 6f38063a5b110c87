"""What must hold of processes and flows: they end as their models say, and what they have done says the same."""

from collections import Counter
from collections.abc import Iterator
from typing import Any

from tests.chaos.history import History, Problem
from tests.chaos.journal import Line
from tests.chaos.processes.expected import ENDS, IN_STEPS, OUTSIDE, UNDONE

from .jobs import DIED

#: The element that a message completes.
_MESSAGE = {"chaos-late": "wait", "chaos-gate": "answer", "chaos-flow": "wait"}
_TASKS = {kind: frozenset(task for tasks in ends.values() for task in tasks) for kind, ends in ENDS.items()}


def _instances(history: History) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = history.state["instances"]
    return found


def _done(history: History) -> dict[str, Counter[str]]:
    """How often each element was completed, by instance."""
    found: dict[str, Counter[str]] = {}
    for instance, element, count in history.state["activities"]:
        found.setdefault(instance, Counter())[element] = count
    return found


def _lines(history: History, name: str) -> tuple[Line, ...]:
    return tuple(
        line
        for line in history.lines
        if line.get("name") == name
        or name in line.get("names", ())
        or any(each["name"] == name for each in line.get("instances", ()))
    )


def _problem(rule: str, history: History, row: dict[str, Any], text: str) -> Problem:
    told = f"{row['definition_key']} {row['id']} of {row['business_key']} ({row['state']}) {text}"
    return Problem(rule, told, lines=_lines(history, row["business_key"]))


def starts_are_kept(history: History) -> Iterator[Problem]:
    """An instance is there, once, if and only if the transaction that started it was committed."""
    found = Counter(row["business_key"] for row in _instances(history) if row["parent_execution_id"] is None)
    started = {name: line for line in history.of("started") for name in line["names"]}
    for line in history.of("starting"):
        for each in line["instances"]:
            told, count = started.get(each["name"]), found[each["name"]]
            sure = told is not None and told["ok"]
            expected = [int(told["kept"])] if told is not None and sure else [0, 1]
            if count not in expected:
                text = f"{each['kind']} {each['name']} is there {count} times, expected {expected}"
                yield Problem("starts", text, lines=_lines(history, each["name"]))


def instances_end_as_their_models_say(history: History) -> Iterator[Problem]:
    """The tasks of one that is completed are those of a way to its end, each as often as the model says."""
    done = _done(history)
    for row in _instances(history):
        ends, tasks = ENDS[row["definition_key"]], _TASKS[row["definition_key"]]
        counts = {task: count for task, count in done.get(row["id"], Counter()).items() if task in tasks}
        if row["state"] == "completed":
            wanted = [ends[row["end_element"]]] if row["end_element"] in ends else list(ends.values())
            if counts not in wanted:
                yield _problem("ends", history, row, f"ended at {row['end_element']} after {counts}, expected {wanted}")
        elif not any(_is_part(counts, whole) for whole in [*ends.values(), {}]):
            yield _problem("ends", history, row, f"has done {counts}, which is on no way to an end")


def _is_part(counts: dict[str, int], whole: dict[str, int]) -> bool:
    return all(count <= whole.get(task, 0) for task, count in counts.items())


def steps_have_their_effects_once(history: History) -> Iterator[Problem]:
    """What runs in a step has written one row for each time that it was completed, and none otherwise."""
    done, written = _done(history), {(instance, element): count for instance, element, count in history.state["steps"]}
    for row in _instances(history):
        counts = done.get(row["id"], Counter())
        for element in sorted(IN_STEPS):
            rows = written.pop((row["id"], element), 0)
            if rows != counts[element]:
                text = f"has completed {element} {counts[element]} times, and written {rows} rows"
                yield _problem("effects of steps", history, row, text)
    for (instance, element), rows in written.items():
        yield Problem("effects of steps", f"{element} of {instance} wrote {rows} rows, and nobody knows that instance")


def what_is_done_outside_was_run(history: History) -> Iterator[Problem]:
    """A step of a flow is completed only by a run that ended well: one at least, of the same step."""
    ended = Counter((line["name"], line["element"]) for line in history.of("step-ends"))
    done = _done(history)
    for row in _instances(history):
        counts = done.get(row["id"], Counter())
        for element in (*OUTSIDE, *(f"undo.{each}" for each in UNDONE)):
            if counts[element] > ended[row["business_key"], element]:
                yield _problem("steps outside", history, row, f"has completed {element}, and no run of it ended well")


def flows_are_undone_backwards(history: History) -> Iterator[Problem]:
    """A flow that was cancelled has undone what was done, the last first; any other has undone nothing."""
    done, ended = _done(history), dict[tuple[str, str], float]()
    for line in history.of("step-ends"):
        ended.setdefault((line["name"], line["element"]), line["t"])
    for row in _instances(history):
        if row["definition_key"] != "chaos-flow":
            continue
        name, counts = row["business_key"], done.get(row["id"], Counter())
        undone = [element for element in UNDONE if counts[f"undo.{element}"]]
        expected = [element for element in UNDONE if counts[element]] if row["state"] == "cancelled" else []
        if undone != expected and row["state"] != "compensating":
            yield _problem("compensation", history, row, f"has undone {undone}, and should have undone {expected}")
        elif "a" in undone and any(ended[name, f"undo.{each}"] > ended[name, "undo.a"] for each in undone[1:]):
            yield _problem("compensation", history, row, "has undone its first step before the others")


def messages_are_delivered_once(history: History) -> Iterator[Problem]:
    """A message that was accepted, and committed, has completed what waited for it; another one did nothing."""
    accepted = Counter(line["name"] for line in history.of("sent") if line["ok"] and line["delivered"])
    done = _done(history)
    for row in _instances(history):
        element = _MESSAGE.get(row["definition_key"])
        if element is None:
            continue
        count = accepted[row["business_key"]]
        if count > 1 or (count and done.get(row["id"], Counter())[element] != 1):
            yield _problem("correlation", history, row, f"took {count} messages at {element}, and did not go on once")


def cancellations_hold(history: History) -> Iterator[Problem]:
    """Whoever was told that an instance is cancelled finds it so, and nobody else does."""
    told = {pk for line in history.of("cancelled") if line["ok"] for pk in line["done"]}
    meant = {line["name"] for line in history.of("cancelling")}
    for row in _instances(history):
        if row["id"] in told and row["state"] not in ("cancelled", "compensating"):
            yield _problem("cancellations", history, row, "was cancelled")
        called = row["parent_execution_id"] is not None
        if row["state"] == "cancelled" and row["business_key"] not in meant and not called:
            yield _problem("cancellations", history, row, "was cancelled by nobody")


def rows_fit_together(history: History) -> Iterator[Problem]:
    """What `processes check` looks for: no token without its job, nothing of what is gone, nobody stuck at a join.

    A job that has lost its token meanwhile, and waits for its retry, finds out by itself: at rest there is none."""
    for instance, message in history.state["discrepancies"]:
        if message.startswith("The job ") and not history.of("rest"):
            continue
        row = next((each for each in _instances(history) if each["id"] == instance), None)
        if row is None:
            yield Problem("rows of processes", f"{instance}: {message}")
        else:
            yield _problem("rows of processes", history, row, message)


def instances_come_to_their_end(history: History) -> Iterator[Problem]:
    """At rest an instance has ended, or has a dead letter that is meant to be; what has ended has no job."""
    jobs: dict[str, list[list[str]]] = {}
    for job in history.state["process_jobs"]:
        jobs.setdefault(job[1], []).append(job)
    excused = {
        row["root_id"] for row in _instances(history) if any(_is_meant(job, row) for job in jobs.get(row["id"], ()))
    }
    for row in _instances(history):
        own = jobs.pop(row["id"], [])
        if row["state"] in ("active", "compensating"):
            if row["root_id"] not in excused:
                tokens = [rest for instance, *rest in history.state["tokens"] if instance == row["id"]]
                yield _problem("instances", history, row, f"has not ended; its tokens: {tokens}, its jobs: {own}")
        elif own:
            yield _problem("instances", history, row, f"has ended, and has the jobs {own}")
    for instance, own in jobs.items():
        yield Problem("instances", f"there are jobs of {instance}, which is not there: {own}")


def _is_meant(job: list[str], row: dict[str, Any]) -> bool:
    table, _, _, _, message = job
    doomed = row["definition_key"] == "chaos-doomed"
    return table == "dead letter" and (doomed or message.startswith(DIED))
