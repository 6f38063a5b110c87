"""What must hold of jobs that workers outside do. A rule yields a problem for whatever breaks it.

It may rely only on what cannot be told wrong by a process that is killed or paused between two lines.
"""

import signal
from collections.abc import Callable, Iterator
from itertools import combinations, pairwise

from .history import ENDLESS, SLACK, Fetch, History, Job, Problem, Report, finishes

Rule = Callable[[History], Iterator[Problem]]
#: Seconds in which a gateway must have noticed that a worker is gone; nobody is killed for slowness here.
NOTICED = 1.5
#: Seconds in which a process has begun; who finds no database then says so and ends.
STARTED = 5


def completed_once(history: History) -> Iterator[Problem]:
    """Of all reports that end a job one is accepted; the job log knows it, and no other that nobody made."""
    for job in history.jobs.values():
        done, in_doubt = job.is_done, [each for each in job.reports if each.came_to == "doubt" and finishes(each)]
        if len(done) > 1:
            yield Problem("completed once", f"was ended {len(done)} times", job)
        completed = [each for each in done if each.verb == "complete"]
        logged = job.logged("successful")
        if not len(completed) <= logged <= min(1, len(completed) + len(in_doubt)):
            yield Problem("completed once", f"{len(completed)} accepted completions, {logged} in the job log", job)


def nothing_follows_the_end(history: History) -> Iterator[Problem]:
    """No worker is given a job that was completed, nor one that was never committed."""
    for job in history.jobs.values():
        end = min((report.end for report in job.is_done), default=ENDLESS)
        for fetch in job.fetches:
            if fetch.moment > end + SLACK:
                yield Problem("nothing follows the end", f"was given to {fetch.worker} after its completion", job)
            if job.committed == "refused":
                yield Problem("nothing follows the end", "was rolled back, and was given to a worker", job)


def one_worker_at_a_time(history: History) -> Iterator[Problem]:
    """Nobody is given a job before the deadline of the one who has it, unless it was given back or failed."""
    for job in history.jobs.values():
        for first, second in pairwise(sorted(job.fetches, key=lambda fetch: fetch.moment)):
            until = _deadline(job, first, second)
            early = until - second.told
            if early > SLACK and not _released(job, first, second) and not _other_way_round(first, second):
                text = f"was given to {second.worker} {early:.2f} s before the deadline of {first.worker}"
                yield Problem("one worker at a time", text, job)


def _other_way_round(first: Fetch, second: Fetch) -> bool:
    """Whether the second one may have been locked, and been over, before the first one was locked.

    Between the counting of a deadline and the lock a process can be held up for any time.
    """
    over = min(second.deadline, second.given_back) < first.told
    return second.moment < first.told and over


def _deadline(job: Job, first: Fetch, second: Fetch) -> float:
    """The earliest at which the first one's deadline can be, as far as anybody said until the second one."""
    until = first.deadline
    said = [each for each in job.reports if each.verb == "extend" and each.may_count]
    said = [each for each in said if each.end > first.moment and each.begin < second.told]
    for report in said:
        # It is counted from when the row is locked, which is after the worker has asked.
        counted = report.begin + report.values["timeout"] / 1000
        alone = len(said) == 1 and report.accepted and report.begin > first.told and report.end < second.moment
        until = counted if alone else min(until, counted)
    return until


def _released(job: Job, first: Fetch, second: Fetch) -> bool:
    if first.given_back < ENDLESS:
        return True
    ends = [each for each in job.reports if each.ends_hold and each.may_count]
    return any(each.begin < max(first.told, second.told) and each.end > first.moment for each in ends)


def _certain_hold(job: Job, fetch: Fetch) -> tuple[float, float]:
    """The time in which the worker had the job, whatever the processes did between their lines."""
    ends = [fetch.deadline, fetch.given_back]
    for report in job.reports:
        if report.may_count and report.end > fetch.moment:
            if report.ends_hold:
                ends.append(report.begin)
            elif report.verb == "extend":
                ends.append(report.begin + report.values["timeout"] / 1000)
    return fetch.told, min(ends)


def one_of_an_instance_at_a_time(history: History) -> Iterator[Problem]:
    """No two exclusive jobs of a process instance are in the hands of workers, or of an executor, at the same time."""
    by_instance: dict[str, list[tuple[float, float, Job]]] = {}
    for job in history.jobs.values():
        if job.exclusive and job.instance:
            in_hand = [_certain_hold(job, fetch) for fetch in job.fetches] + [(run.begin, run.end) for run in job.runs]
            by_instance.setdefault(job.instance, []).extend((*each, job) for each in in_hand)
    for instance, times in by_instance.items():
        for (begin, end, job), (other_begin, other_end, other) in combinations(times, 2):
            both = min(end, other_end) - max(begin, other_begin)
            if job is not other and both > SLACK:
                yield Problem("exclusive", f"and {other.key} of {instance} were both in hand for {both:.2f} s", job)


def stale_leases_are_refused(history: History) -> Iterator[Problem]:
    """Whose job was given to somebody else with another lease cannot end it any more."""
    for job in history.jobs.values():
        for report in job.reports:
            if report.accepted and report.verb in ("complete", "fail", "error") and _is_stale(job, report):
                yield Problem("stale lease", f"{report.verb} of {report.worker} was accepted", job)


def _is_stale(job: Job, report: Report) -> bool:
    own = [each.told for each in job.fetches if each.worker == report.worker and each.lease == report.lease]
    since = max(own, default=report.begin)
    later = [each for each in job.fetches if each.moment > since and each.told < report.begin]
    if report.lease:
        return any(each.lease != report.lease for each in later)
    return any(each.lease and not _may_be_cleared(job, each) for each in later)


def _may_be_cleared(job: Job, fetch: Fetch) -> bool:
    """Whether the job may have lost its lease since: taken from its worker by hand, or given back."""
    by_hand = [each for each in job.reports if each.verb in ("unlock", "requeue", "activate", "suspend")]
    return fetch.given_back < ENDLESS or any(each.end > fetch.moment for each in by_hand) or _came_back(job, fetch)


def _came_back(job: Job, fetch: Fetch) -> bool:
    """Through an incident, and not by name: incidents are ended whosever they are."""
    ends = [each for each in job.reports if each.verb in ("fail", "error") and each.may_count]
    return any(each.end > fetch.moment for each in ends)


def holders_are_heard(history: History) -> Iterator[Problem]:
    """Who has a job, before its deadline, and reports while nobody else does anything with it, is not refused."""
    for job in history.jobs.values():
        for report in job.reports:
            if report.came_to != "refused" or not report.worker:
                continue
            fetch = next((each for each in job.fetches if abs(each.moment - report.moment) < SLACK), None)
            if fetch is None or fetch.worker != report.worker or report.end > fetch.deadline - SLACK:
                continue
            others = [each for each in job.reports if each is not report and each.end > fetch.moment]
            others = [each for each in others if each.begin < report.end and (each.may_count or not each.worker)]
            if not others and fetch.given_back == ENDLESS and len(_since(job, fetch)) == 0:
                yield Problem("holders are heard", f"{report.verb} of {report.worker}: {report.said}", job)


def _since(job: Job, fetch: Fetch) -> list[Fetch]:
    return [each for each in job.fetches if each is not fetch and each.told > fetch.moment]


def effects_exactly_once(history: History) -> Iterator[Problem]:
    """What follows a job has written its row once if it was completed or its error caught, else never."""
    for job in history.jobs.values():
        finished = job.logged("successful", callback=True)
        expected = min(finished, 1)
        if finished > 1 or job.effects != expected:
            text = f"took effect {job.effects} times, and what follows it ended {finished} times"
            yield Problem("effects exactly once", text, job)
        if job.effects and not any(each.may_count and finishes(each) for each in job.reports):
            yield Problem("effects exactly once", "took effect, and nobody has completed it", job)


def nothing_lost(history: History) -> Iterator[Problem]:
    """Each job is completed, a dead letter, suspended by a suspension in force, or removed by a person."""
    for job in history.jobs.values():
        text = _fate(history, job)
        if text:
            yield Problem("nothing lost", text, job)


def _fate(history: History, job: Job) -> str:
    """What is wrong with where a job ended; '' if nothing is."""
    if job.rows:
        return _where_it_is(history, job)
    if _removed(job):
        asked = any(each.verb in ("cancel", "delete") and each.may_count for each in job.reports)
        return "" if asked else "was removed, and nobody asked for it"
    if job.logged("successful", callback=True):
        return ""
    if job.logged("successful"):
        return "" if not job.callback else f"was completed, but {job.callback} never ended"
    if job.committed == "ok":
        return "is lost: it is in no table and did not end"
    return "" if not job.logs else "was not committed, but is in the job log"


def _removed(job: Job) -> int:
    return sum(log["state"] in ("deleted", "cancelled") for log in job.logs)


def _where_it_is(history: History, job: Job) -> str:
    row = job.rows[0]
    if len(job.rows) > 1:
        return f"is in several tables: {', '.join(row['table'] for row in job.rows)}"
    if _removed(job) or job.logged("successful", callback=True):
        return f"is a {row['table']} job, but the job log says that it is gone"
    if job.committed == "refused":
        return "was rolled back, and is there"
    if row["table"] == "suspended":
        covered = row["suspend_requested"] or row["tenant_id"] in history.state["suspended_tenants"]
        return "" if covered else "is suspended, but no suspension covers it"
    if row["table"] == "dead letter":
        return "" if row["exception_message"] else "is a dead letter that does not say why"
    return f"is stuck: it is an {row['table']} job of {row['lock_owner']}"


def dead_letters_have_incidents(history: History) -> Iterator[Problem]:
    """The open incidents are the dead letters, one for each."""
    dead = sorted(row["job"] for row in history.state["rows"] if row["table"] == "dead letter")
    incidents = sorted(history.state["incidents"])
    if dead != incidents:
        different = sorted({*dead} ^ {*incidents}) or "one has several"
        yield Problem("incidents", f"{len(dead)} dead letters, {len(incidents)} open incidents: {different}")


def nothing_goes_to_the_dead(history: History) -> Iterator[Problem]:
    """No job is kept for a worker that had been gone, or asked no more, for a while when it was fetched."""
    for job in history.jobs.values():
        for fetch in job.fetches:
            gone = history.end_of_worker(fetch.worker)
            kept = fetch.given_back == ENDLESS and history.last_of(fetch.pid) > fetch.told + NOTICED
            if kept and fetch.moment > gone + NOTICED:
                text = f"was kept for {fetch.worker}, which was gone for {fetch.moment - gone:.2f} s"
                yield Problem("given to the dead", text, job)


def nothing_left_behind(history: History) -> Iterator[Problem]:
    """All came to rest, all processes ended as they should, no lock and no node is left."""
    for line in history.of("restless"):
        yield Problem("rest", f"there was none after {line['seconds']:.0f} s")
    for line in history.of("exit"):
        # uvicorn ends itself by the signal that it was sent, as does whoever has only just begun.
        well = line["code"] in (0, -signal.SIGKILL, -signal.SIGTERM)
        if not well and not history.was_away(line["t"] - STARTED, line["t"]):
            yield Problem("processes", f"{line['node']} ended with {line['code']}; its log says why")
    for name in ("locks", "nodes"):
        if history.state[name]:
            yield Problem("leftovers", f"{name}: {history.state[name]}")


#: What can be asked only when all have come to rest.
_AT_REST: tuple[Rule, ...] = (nothing_lost, effects_exactly_once, dead_letters_have_incidents, nothing_left_behind)
_ALWAYS: tuple[Rule, ...] = (
    completed_once,
    nothing_follows_the_end,
    one_worker_at_a_time,
    one_of_an_instance_at_a_time,
    stale_leases_are_refused,
    holders_are_heard,
    nothing_goes_to_the_dead,
)


def judge(history: History) -> list[Problem]:
    """All problems."""
    rules = _ALWAYS + (_AT_REST if history.of("rest") else ())
    return [problem for rule in rules for problem in rule(history)]
