"""What must hold of any history. Each rule yields a problem for whatever breaks it.

Every rule may rely only on what cannot be told wrong by a process that is killed or paused between two lines: see
`docs/explanation/chaos.md`.
"""

from collections.abc import Callable, Iterator
from itertools import pairwise

from .history import History, Job, Problem, Run

_DIED = "The executor process died while it ran this job"
#: The clocks of a server and of its machine are the same here; what a reading of them costs.
_CLOCK = 0.02
#: So many lost runs make a job run alone.
_ALONE = 2

Rule = Callable[[History], Iterator[Problem]]


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
        return "" if job.was_asked(verb) else f"was {removed[0]} and nobody asked for it"
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


def no_overlap_in_an_instance(history: History) -> Iterator[Problem]:
    """No two exclusive jobs of one process instance run at once, unless the first one's node had lost its lease."""
    instances: dict[str, list[Run]] = {}
    for job, run in history.runs():
        if job.exclusive and job.instance:
            instances.setdefault(job.instance, []).append(run)
    for instance, runs in instances.items():
        for first, second in _overlaps(history, runs):
            if first.job != second.job:
                text = f"began while exclusive job {first.job} of {instance} was running, whose node held its lease"
                yield Problem("exclusive", text, history.jobs[second.job], history.about(first, second))


def never_on_two_nodes(history: History) -> Iterator[Problem]:
    """No job runs twice at once, unless the first one's node had lost its lease."""
    for job in history.jobs.values():
        for first, second in _overlaps(history, job.runs):
            # After a timeout only the lock of its process instance keeps the next attempt waiting for its end.
            if not first.timed_out or (job.exclusive and job.instance):
                text = "ran twice at once, and the node of the first run held its lease"
                yield Problem("one run at a time", text, job, history.about(first, second))


def _overlaps(history: History, runs: list[Run]) -> Iterator[tuple[Run, Run]]:
    """Pairs of runs of which the second began before the first was over, while the first still had a right to go on.

    A run without an end counts until its lease is over: what a killed node held is nobody's before.
    """
    open_runs: list[Run] = []
    for run in sorted(runs, key=lambda run: run.begin):
        open_runs = [other for other in open_runs if other.over_by() > run.begin]
        for other in open_runs:
            if not history.lost_by(other, run.begin + _CLOCK):
                yield other, run
        open_runs.append(run)


def outcomes_are_fenced(history: History) -> Iterator[Problem]:
    """The outcome of a run counts only if nobody else has begun the job since: a success is a job's last run, and
    after a failure the next run is another attempt."""
    for job in history.jobs.values():
        for index, run in enumerate(job.runs):
            if run.outcome is None:
                continue
            for later in job.runs[index + 1 :]:
                if run.outcome["result"] == "done" or _same_attempt(job, run, later):
                    text = "was settled by a run whose job somebody else had already taken over"
                    yield Problem("fencing", text, job, history.about(run, later))
                    break


def _same_attempt(job: Job, run: Run, later: Run) -> bool:
    counted_anew = any(verb in {"requeue", "set_retries"} and moment < later.begin for verb, moment in job.asked)
    return run.attempt == later.attempt and not counted_anew


def repeats_are_explained(history: History) -> Iterator[Problem]:
    """A run that ended well is repeated only if its node lost its lease (killed, paused, cut off) before the outcome
    was committed; an atomic one also if its transaction failed."""
    for job, first, second in repeats(history):
        if not history.lost_by(first, second.begin + _CLOCK):
            text = "had ended well and was run again, though its node held its lease"
            yield Problem("unexplained repeat", text, job, history.about(first, second))


def repeats(history: History) -> Iterator[tuple[Job, Run, Run]]:
    """Runs that ended well, and the run that repeated them."""
    for job in history.jobs.values():
        failed = {log["attempt"] for log in job.logged("failed")}
        for first, second in pairwise(job.runs):
            if first.result == "ok" and not (first.timed_out or (job.atomic and first.attempt in failed)):
                yield job, first, second


def leases_are_true(history: History) -> Iterator[Problem]:
    """A node that says it holds its lease holds it, and no node is declared dead before its lease is over."""
    for line in history.of("begin", "end"):
        end = history.lease_end_at(line["owner"], line["t"])
        if line["held"] and line["asked"] > end:
            text = f"was told that its lease is good {line['asked'] - end:.3f} s after it had run out"
            yield Problem("lease", text, history.jobs[line["job"]], (line,))
    for line in history.declared:
        left = history.lease_end(line["owner"]) - line["t"]
        if left > _CLOCK:
            yield Problem(
                "lease", f"{line['owner']} was declared dead {left:.3f} s before its lease was over", None, (line,)
            )


def siblings_wait_for_the_commit(history: History) -> Iterator[Problem]:
    """In one node, an exclusive job begins after the outcome of the sibling before it was committed, and so not before
    the node began to write it; and a job that ended well never runs again after its sibling began."""
    held: dict[tuple[str, str], list[tuple[Job, Run]]] = {}
    for job, run in history.runs():
        if job.exclusive and job.instance:
            held.setdefault((run.owner, job.instance), []).append((job, run))
    for runs in held.values():
        for (job, first), (sibling, second) in pairwise(sorted(runs, key=lambda pair: pair[1].begin)):
            after = first.end is not None and first.end <= second.begin
            if job is not sibling and after and not first.timed_out:
                yield from _sibling(history, job, first, second)


def _sibling(history: History, job: Job, first: Run, second: Run) -> Iterator[Problem]:
    late = first.settling is None or first.settling > second.begin
    if late and not job.atomic:  # which settles itself, in the same thread
        text = f"ended, and its sibling {second.job} began before its outcome was committed"
        yield Problem("siblings", text, job, history.about(first, second))
    failed = {log["attempt"] for log in job.logged("failed")}
    again = [run for run in job.runs if run.begin > second.begin]
    if first.result == "ok" and again and first.attempt not in failed:
        yield Problem(
            "siblings", f"was run again after its sibling {second.job}", job, history.about(first, second, *again)
        )


def nobody_pays_for_another(history: History) -> Iterator[Problem]:
    """Every failure in the job log is that of a run which failed. A lost run is charged to a job that had been lost
    before while it ran, and was running alone when its node was killed or lost its lease; never because a neighbour
    killed the process."""
    for job in history.jobs.values():
        for log in job.logged("failed"):
            text = _lost_run(history, job, log["attempt"]) if _DIED in log["exception_message"] else _failure(job, log)
            if text:
                yield Problem("charges", f"attempt {log['attempt']} {text}", job, _with_neighbours(history, job))


def _lost_run(history: History, job: Job, attempt: int) -> str:
    lost = [run for run in job.runs if run.attempt == attempt and run.lost >= _ALONE and run.outcome is None]
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


def suspects_run_alone(history: History) -> Iterator[Problem]:
    """A job that was lost while it ran runs with nothing beside it in its process."""
    processes: dict[int, list[Run]] = {}
    for job, run in history.runs():
        if job.kind != "late":  # a thread that is stuck after a timeout is nobody's, and not waited for
            processes.setdefault(run.pid, []).append(run)
    for runs in processes.values():
        for run in runs:
            beside = [other for other in runs if other.begin < run.over_by() and run.begin < other.over_by()]
            if run.lost >= _ALONE and len(beside) > 1:
                yield Problem("alone", "ran beside others", history.jobs[run.job], history.about(*beside))


def retries_add_up(history: History) -> Iterator[Problem]:
    """Retries left are those given less the failures charged, unless a person changed them."""
    for job in history.jobs.values():
        if not job.rows or job.was_asked("set_retries", "requeue") or job.kind == "fatal":
            continue
        row, failed = job.rows[0], len(job.logged("failed"))
        expected = max(0, job.retries - failed + row["conflicts"])
        if row["retries"] != expected:
            text = f"has {row['retries']} retries left; {job.retries} were given and {failed} failures logged"
            yield Problem("charges", text, job, tuple(job.lines))


def kinds_end_as_they_must(history: History) -> Iterator[Problem]:
    """A job that kills its process each time is a dead letter that says so; one that always fails does not finish."""
    for job in history.jobs.values():
        if job.kind in {"killer", "doomed", "fatal"} and job.logged("successful"):
            yield Problem("ends", "finished, which it cannot", job, tuple(job.lines))
        for row in job.rows:
            if job.kind == "killer" and row["table"] == "dead letter" and _DIED not in row["exception_message"]:
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


#: What holds at any time.
ALWAYS: tuple[Rule, ...] = (
    effects_exactly_once,
    no_overlap_in_an_instance,
    never_on_two_nodes,
    outcomes_are_fenced,
    repeats_are_explained,
    leases_are_true,
    siblings_wait_for_the_commit,
    nobody_pays_for_another,
    suspects_run_alone,
    retries_add_up,
    kinds_end_as_they_must,
)
#: What holds when the cluster has come to rest and its nodes have stopped in order.
AT_REST: tuple[Rule, ...] = (nothing_lost, nothing_is_left)


def judge(history: History) -> list[Problem]:
    """All problems; a run that was broken off before it came to rest is judged by what always holds."""
    rules = (*AT_REST, *ALWAYS) if history.of("rest") else ALWAYS
    return [problem for rule in rules for problem in rule(history)]
