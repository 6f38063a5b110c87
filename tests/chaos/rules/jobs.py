"""What must hold of jobs: where they end, what they wrote, what they were charged for, and that nothing is left."""

from collections.abc import Iterator

from tests.chaos.history import History, Job, Problem, Run

from .runs import ALONE

DIED = "The executor process died while it ran this job"


def nothing_lost(history: History) -> Iterator[Problem]:
    """Every job is finished, dead with a reason, suspended for a reason, waiting, or deleted by a person."""
    for job in history.jobs.values():
        text = _fate(history, job)
        if text:
            yield Problem("nothing lost", text, job, tuple(job.lines))


def _fate(history: History, job: Job) -> str:
    """What is wrong with where a job ended; '' if nothing is."""
    if len(job.rows) > 1:
        return f"is in several tables: {', '.join(row['table'] for row in job.rows)}"
    if len(job.logged("successful")) > 1:
        return "was finished twice, says the job log"
    return _where_it_is(history, job) if job.rows else _how_it_went(job)


def _where_it_is(history: History, job: Job) -> str:
    row = job.rows[0]
    if job.logged("successful") or job.logged("deleted") or job.logged("cancelled"):
        return f"is {row['table']}, but the job log says that it is gone"
    if row["table"] == "executable":
        return f"is executable and nobody runs it (locked by {row['lock_owner']})"
    if row["table"] == "blocked":
        return f"waits for {job.resource or 'a resource'}, and nobody gives it a permit"
    if row["table"] == "timer" and row["due_in"] < 30:
        return f"is a timer, due since {-row['due_in']:.1f} s"
    if row["table"] == "suspended" and not _is_covered(history, row):
        return "is suspended, but no suspension covers it"
    if row["table"] == "dead letter" and not row["exception_message"]:
        return "is a dead letter that does not say why"
    return ""


def _is_covered(history: History, row: dict) -> bool:
    covered = any(row.get(scope) == value for scope, value in history.state["suspensions"])
    return bool(row["suspend_requested"]) or covered


def _how_it_went(job: Job) -> str:
    finished = bool(job.logged("successful"))
    removed = [state for state in ("deleted", "cancelled") if job.logged(state)]
    if finished + len(removed) > 1:
        return "was finished and removed"
    if finished:
        return "" if any(run.result == "ok" for run in job.runs) else "was finished without a run that ended well"
    if removed:
        verb = {"deleted": "delete", "cancelled": "cancel"}[removed[0]]
        replaced = any(log["exception_message"].startswith("Replaced by ") for log in job.logged(removed[0]))
        return (
            ""
            if job.was_asked(verb) or (replaced and job.kind == "keyed")
            else f"was {removed[0]} and nobody asked for it"
        )
    if job.in_doubt and not job.runs and not job.logs:
        return ""  # its creation failed
    return "is lost: it is in no table and did not end"


def effects_exactly_once(history: History) -> Iterator[Problem]:
    """An atomic job that finished has written its row once, any other never."""
    for job in history.jobs.values():
        expected = 1 if job.atomic and job.logged("successful") else 0
        if job.effects != expected:
            text = f"took effect {job.effects} times instead of {expected}"
            yield Problem("effects exactly once", text, job, tuple(job.lines))


def nobody_pays_for_another(history: History) -> Iterator[Problem]:
    """Every failure in the job log is that of a run which failed. A lost run is charged to a job that had been lost
    before while it ran, and was running alone when its node was killed or lost its lease; never because a neighbour
    killed the process."""
    for job in history.jobs.values():
        for log in job.logged("failed"):
            text = _lost_run(history, job, log["attempt"]) if DIED in log["exception_message"] else _failure(job, log)
            if text:
                yield Problem("charges", f"attempt {log['attempt']} {text}", job, _with_neighbours(history, job))


def _lost_run(history: History, job: Job, attempt: int) -> str:
    lost = [run for run in job.runs if run.attempt == attempt and run.lost >= ALONE and run.outcome is None]
    if not lost:
        return "was charged for a lost run, but no run was lost that was to convict it"
    if job.kills:
        return ""
    innocent = [run for run in lost if not _killed_by_neighbour(history, run)]
    return "" if innocent else "was charged because a neighbour killed the process"


def _killed_by_neighbour(history: History, run: Run) -> bool:
    deaths = [line for line in history.of("dies") if line["pid"] == run.pid and line["job"] != run.job]
    return run.end is None and run.pid not in history.killed and any(line["t"] >= run.begin for line in deaths)


def _with_neighbours(history: History, job: Job) -> tuple:
    pids = {run.pid for run in job.runs}
    deaths = [line for line in history.of("dies", "kill", "exit") if {line.get("of"), line["pid"]} & pids]
    return tuple(sorted({id(line): line for line in [*job.lines, *deaths]}.values(), key=lambda line: line["t"]))


def _failure(job: Job, log: dict) -> str:
    runs = [run for run in job.runs if run.attempt == log["attempt"]]
    failed = any(run.timed_out or run.result == "failed" or (job.atomic and run.result == "ok") for run in runs)
    # A node that is killed between the commit and its line tells nobody that the time of a run was over.
    failed |= log["exception_message"].startswith("JobTimeout") and any(run.end is None for run in runs)
    return "" if failed else f"was charged ({log['exception_message'][:200]}), but no run of it failed"


def retries_add_up(history: History) -> Iterator[Problem]:
    """Retries left are those given less the failures charged, unless a person changed them."""
    for job in history.jobs.values():
        if not job.rows or job.was_asked("set_retries", "requeue") or job.kind in {"fatal", "task-mute"}:
            continue
        row, failed = job.rows[0], len(job.logged("failed"))
        expected = max(0, job.retries - failed + row["conflicts"])
        if row["retries"] != expected:
            text = f"has {row['retries']} retries left; {job.retries} were given and {failed} failures logged"
            yield Problem("charges", text, job, tuple(job.lines))


def kinds_end_as_they_must(history: History) -> Iterator[Problem]:
    """A job that kills its process each time is a dead letter that says so; one that always fails does not finish."""
    for job in history.jobs.values():
        if job.kind in {"killer", "doomed", "fatal", "task-doomed", "task-mute"} and job.logged("successful"):
            yield Problem("ends", "finished, which it cannot", job, tuple(job.lines))
        for row in job.rows:
            if job.kind == "killer" and row["table"] == "dead letter" and DIED not in row["exception_message"]:
                text = f"is a dead letter that does not say that it kills: {row['exception_message'][:200]}"
                yield Problem("ends", text, job, tuple(job.lines))


def nothing_is_left(history: History) -> Iterator[Problem]:
    """When all nodes have stopped in order, no lock and no node is left, and no process ended by itself."""
    for what in ("locks", "nodes"):
        for name in history.state[what]:
            yield Problem("leftovers", f"{name} is left in {what}")
    dying = {line["pid"] for line in history.of("dies")}
    stopped = {line["of"] for line in history.of("kill", "term")}
    started = {line["of"]: line["t"] for line in history.of("start")}
    for line in history.of("exit"):
        expected = line["of"] in dying | stopped or history.outage(started[line["of"]], line["t"])
        if not expected:
            yield Problem("leftovers", f"{line['node']} ended by itself with {line['code']}", None, (line,))
    for line in history.of("restless"):
        yield Problem("leftovers", f"the cluster did not come to rest within {line['seconds']} s", None, (line,))
