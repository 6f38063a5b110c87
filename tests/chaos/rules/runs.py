"""What must hold of runs: who may run when, whose outcome counts, what may be repeated."""

from collections.abc import Iterator
from itertools import pairwise

from tests.chaos.history import History, Job, Problem, Run
from tests.chaos.lives import ENDLESS

#: The clocks of a server and of its machine are the same here; what a reading of them costs.
_CLOCK = 0.02
#: So many lost runs make a job run alone.
ALONE = 2


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


def judges_were_well_themselves(history: History) -> Iterator[Problem]:
    """Whoever declares a node dead has had its own lease for the time of a lease, and since the last outage that no
    lease survives."""
    for line in history.declared:
        down = max((down for down, _ in history.whole_outages if down < line["t"]), default=-ENDLESS)
        since = history.renewed_first(line["pid"], down)
        if since is not None and line["t"] - since < history.lease_time - _CLOCK:
            text = f"{line['owner']} was declared dead by who had been there for {line['t'] - since:.3f} s"
            yield Problem("judge", text, None, (line,))


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


def siblings_begin_in_their_order(history: History) -> Iterator[Problem]:
    """Exclusive jobs of one process instance and priority that were committed together, and that nobody has touched,
    begin in the order in which they were enqueued. Nothing is said where whole scopes were suspended."""
    if history.of("asks"):
        return
    together: dict[tuple[float, str, int | None], list[Job]] = {}
    for job in history.jobs.values():
        if job.exclusive and job.instance and job.now and job.runs:
            together.setdefault((job.creating["t"], job.instance, job.priority), []).append(job)
    for jobs in together.values():
        for first, second in pairwise(sorted(jobs, key=lambda job: job.id)):
            if second.runs[0].begin < first.runs[0].begin:
                text = f"began before its elder sibling {first.id}"
                yield Problem("turn", text, second, history.about(first.runs[0], second.runs[0]))


def suspects_run_alone(history: History) -> Iterator[Problem]:
    """A job that was lost while it ran runs with nothing beside it in its process."""
    processes: dict[int, list[Run]] = {}
    for job, run in history.runs():
        if not job.kind.endswith("late"):  # what goes on after its timeout is nobody's, and not waited for
            processes.setdefault(run.pid, []).append(run)
    for runs in processes.values():
        for run in runs:
            beside = [other for other in runs if other.begin < run.over_by() and run.begin < other.over_by()]
            if run.lost >= ALONE and len(beside) > 1:
                yield Problem("alone", "ran beside others", history.jobs[run.job], history.about(*beside))
