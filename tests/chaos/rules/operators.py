"""What must hold of what operators see and do: batches, incidents, meters, limits of tenants, recorded history."""

from collections.abc import Iterator
from typing import Any

from tests.chaos.history import History, Problem, Run
from tests.chaos.mixtures import LEDGER, NEVER

_DIED = "process died while"


def records_are_written_once(history: History) -> Iterator[Problem]:
    """Each record that was committed is in the ledger once, or still in its job; any other is nowhere."""
    state, sure = history.state, _recorded(history)
    known = {record["id"]: (record, line) for line in history.of("recording") for record in line["records"]}
    for pk, (record, line) in known.items():
        counts = [state[place].get(pk, 0) for place in ("ledger", "unwritten", "buried")]
        expected = {1} if pk in sure and line["kept"] else {0, 1} if line["kept"] else {0}
        if sum(counts) not in expected:
            text = f"record {pk} is written {counts[0]}, waiting {counts[1]} and buried {counts[2]} times"
            yield Problem("history", text, None, (line,))
        elif record["failures"] == NEVER and counts[0]:
            yield Problem("history", f"record {pk} is written, although its handler failed", None, (line,))
    for job in history.jobs.values():
        counts = [state[place].get(f"effect {job.id}", 0) for place in ("ledger", "unwritten", "buried")]
        if sum(counts) != job.effects:
            yield Problem("history", f"took effect {job.effects} times and recorded {counts}", job, tuple(job.lines))


def _recorded(history: History) -> set[str]:
    return {record for line in history.of("recorded") if line["ok"] for record in line["records"]}


def no_record_waits(history: History) -> Iterator[Problem]:
    """At rest all records are written, or buried with a reason."""
    for pk in history.state["unwritten"]:
        yield Problem("history", f"record {pk} is still waiting")


def each_dead_letter_has_its_incident(history: History) -> Iterator[Problem]:
    """There is one open incident for each dead letter, and no other."""
    opened, dead = history.state["incidents"], history.state["dead"]
    if opened != dead:
        more, less = sorted(set(opened) - set(dead)), sorted(set(dead) - set(opened))
        text = f"{len(dead)} dead letters and {len(opened)} open incidents; too many: {more}, missing: {less}"
        yield Problem("incidents", text)


def batches_end(history: History) -> Iterator[Problem]:
    """A batch is over, and nothing of it is left; its counts add up. It may wait for a job that lost its nodes."""
    jobs: dict[str, list[list[str]]] = {}
    for row in history.state["batch_jobs"]:
        jobs.setdefault(row[1], []).append(row)
    batches = {batch["id"]: batch for batch in history.state["batches"]}
    for pk in jobs.keys() - batches.keys():
        yield Problem("batches", f"batch {pk} is gone, but not its jobs: {jobs[pk]}")
    for pk, batch in batches.items():
        text = _wrong(batch, jobs.get(pk, []))
        if text:
            yield Problem("batches", f"batch {pk} ({batch['type']}, {batch['state']}) {text}")


def children_are_counted(history: History) -> Iterator[Problem]:
    """The figures of a batch of jobs are those of its children, and each call that follows it is made at most once."""
    for batch in history.state["job_batches"]:
        children = [job for job in history.jobs.values() if job.batch == batch["name"]]
        completed = sum(bool(job.logged("successful")) for job in children)
        failed = sum(any(row["table"] == "dead letter" for row in job.rows) for job in children)
        removed = sum(bool(job.logged("cancelled") or job.logged("deleted")) for job in children)
        expected = {"total": len(children), "completed": completed, "failed": failed, "cancelled": removed}
        wrong = {name: batch[name] for name, count in expected.items() if batch[name] != count}
        if wrong:
            yield Problem("children", f"batch {batch['name']} counts {wrong}, but there are {expected}")
        if max(batch["all_done"], batch["not_all_done"]) > 1:
            yield Problem("children", f"batch {batch['name']} was followed more than once: {batch}")
        follows = {"completed": "all_done", "failed": "not_all_done"}.get(batch["state"])
        if follows and not batch[follows]:
            yield Problem("children", f"batch {batch['name']} has {batch['state']}, and nothing followed: {batch}")


def batches_of_jobs_end(history: History) -> Iterator[Problem]:
    """A sealed batch of jobs whose children are over is over. Its monitor may have lost its nodes."""
    for batch in history.state["job_batches"]:
        over = batch["total"] == batch["completed"] + batch["failed"] + batch["cancelled"]
        if over and batch["state"] == "running" and not batch["stalled"]:
            yield Problem("children", f"batch {batch['name']} has not come to its end: {batch}")


def _wrong(batch: dict[str, Any], jobs: list[list[str]]) -> str:
    if batch["state"] in {"seeding", "running"}:
        waits = any(table == "dead letter" and _DIED in message for table, _, _, message in jobs)
        return "" if waits else f"has not come to its end; its jobs: {jobs}"
    if jobs or batch["parts"]:
        return f"is over, and has left {batch['parts']} parts and {jobs}"
    if batch["failures"] != batch["skipped"]:
        return f"has skipped {batch['skipped']} jobs and noted {batch['failures']}"
    done = batch["changed"] + batch["skipped"]
    if done > batch["total"] or (batch["state"] == "completed" and done < batch["total"]):
        return f"has done {done} of {batch['total']}"
    return ""


def meters_count_what_happened(history: History) -> Iterator[Problem]:
    """Nothing is counted that did not happen, or twice; and everything, if all processes ended in order."""
    state = history.state
    cut_off = bool(history.of("kill", "dies", "pause", "server-down"))
    for meter, logged in (("job-successful", "successful"), ("job-failed", "failed")):
        counted, happened = state["meters"][meter], state["logged"][logged]
        for handler in sorted(counted.keys() | happened.keys() - {LEDGER}):
            ours, theirs = counted.get(handler, 0), happened.get(handler, 0)
            if ours > theirs or (ours < theirs and not cut_off):
                yield Problem("meters", f"{meter} of {handler} is {ours}, and the job log has {theirs}")
    failed = sum(state["meters"]["job-failed"].values())
    if failed != state["failure_groups"]:
        yield Problem("meters", f"{failed} failures were counted, and {state['failure_groups']} in groups")


def tenants_keep_to_their_limits(history: History) -> Iterator[Problem]:
    """No process runs more jobs of a tenant at once than it may. What is past its timeout no longer counts."""
    for line in history.of("limits"):
        for tenant, limit in line["tenants"].items():
            processes: dict[int, list[Run]] = {}
            for job, run in history.runs():
                if job.tenant == tenant and not run.timed_out and "late" not in job.kind:
                    processes.setdefault(run.pid, []).append(run)
            for runs in processes.values():
                yield from _beside(history, tenant, limit, runs)


def _beside(history: History, tenant: str, limit: int, runs: list[Run]) -> Iterator[Problem]:
    for run in runs:
        beside = [other for other in runs if other.begin <= run.begin < other.over_by()]
        if len(beside) > limit:
            text = f"began beside {len(beside) - 1} others of tenant {tenant}, of which {limit} may run at once"
            yield Problem("tenants", text, history.jobs[run.job], history.about(*beside))
