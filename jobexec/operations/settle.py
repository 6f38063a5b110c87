"""The end of a run that did not succeed: retry, dead letter or cancelled, decided here and nowhere else."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, TypeAlias
from uuid import UUID

from jobexec import clock
from jobexec.conf import get_settings
from jobexec.exceptions import DoNotRetry, InvalidRetryPlan
from jobexec.models import AbstractJob, DeadLetterJob, Job, JobLog, LogState, SuspendedJob, TimerJob
from jobexec.retry import RetryPlan, default_plan

from . import history, unread
from .errors import shortened, storable
from .exclusive import unlock_instances
from .fingerprint import fingerprint
from .locking import atomic, lock_rows
from .log_fields import log_fields
from .move import move_all
from .release import by_owner
from .removal import remove_cancelled
from .run import Run, timing
from .suspensions import covered_rows
from .task_attempts import write_cancelled, write_failures
from .task_ready import is_task
from .unread import Changes, Departure
from .work import AcquiredJob

logger = logging.getLogger("jobexec.settle")

MESSAGE_LENGTH = 4000
STACK_LENGTH = 100_000
LETTERS = 2_000_000  # in the stack traces of one statement


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a run did not succeed.

    ``kind`` says what it costs: ``error`` one retry; ``fatal`` all of them (a do-not-retry error, a row that cannot
    be read); ``conflict`` none, up to the cap MAX_CONFLICTS; ``interrupted`` none, and is no attempt: it put itself off
    because its executor stops; ``unknown`` none until UNKNOWN_HANDLER_TIMEOUT has passed
    since a node first did not know the handler; ``cancelled`` is the end, without a failure. ``retry_at`` overrides the
    due date of the retry plan. ``keeps_instance``: the handler still runs, so its process instance stays locked.
    """

    message: str
    stack: str = ""
    kind: str = "error"
    retry_at: datetime | None = None
    plan: RetryPlan | None = None
    error: BaseException | None = None
    keeps_instance: bool = False
    #: What it has in common with those that look alike, once somebody has asked; see :func:`fingerprint_of`.
    known_fingerprint: str = field(default="", init=False, compare=False, repr=False)

    @property
    def counts(self) -> bool:
        """Whether it is an attempt, to be logged and counted; one that is the last always is."""
        return self.kind not in {"unknown", "interrupted"}


@dataclass(frozen=True, slots=True)
class Verdict:
    """What becomes of a job after a failure: a due date, or None for a dead letter, and what its row then says."""

    due_date: datetime | None
    changes: dict[str, Any]

    @property
    def columns(self) -> dict[str, Any]:
        """What its row says where it goes; a dead letter keeps the date when it was due."""
        return self.changes | ({"due_date": self.due_date} if self.due_date else {})


#: A job that has ended without success, its row locked by the caller.
Ended: TypeAlias = tuple[Job, Failure, Run]


def fail_job(using: str, job: AcquiredJob, failure: Failure, run: Run) -> AbstractJob | None:
    """Record one failed run: :func:`fail_jobs` for a single job."""
    return fail_jobs(using, [(job, failure, run)])[0]


def fail_jobs(using: str, failed: Sequence[tuple[AcquiredJob, Failure, Run]]) -> list[AbstractJob | None]:
    """Record failed runs and move the jobs on, many in one transaction: to a timer, the suspended or the dead letters.

    Returns for each of them the job where it now is (the Job row itself if it was cancelled and is gone), or None if
    it was no longer ours. A process instance's lock goes with its last sibling: a failed job that waits for its retry
    does not block the others.
    """
    with atomic(using):
        rows = _lock_ours(using, [job for job, _, _ in failed])
        # pop(): of two outcomes of the same acquisition the first counts.
        found = [rows.pop((job.id, job.lock_owner, job.revision), None) for job, _, _ in failed]
        ours = [(row, *each) for row, each in zip(found, failed, strict=True) if row]
        moved: dict[UUID, AbstractJob] = {}
        for piece in _pieces([(row, failure, run) for row, _, failure, run in ours]):
            moved |= settle_failures(using, piece)
        ended = by_owner(job for _, job, failure, _ in ours if not failure.keeps_instance)
        for owner, jobs in ended.items():
            unlock_instances(using, owner, {job.serial_key for job in jobs} - {""})
    return [moved.get(row.pk) if row else None for row in found]


def _lock_ours(using: str, jobs: Sequence[AcquiredJob]) -> dict[tuple[UUID, str | None, int], Job]:
    """The rows of these jobs, locked in the order of their ids, as far as their owners still hold them."""
    held = Job.objects.using(using).filter(pk__in={job.id for job in jobs}, lock_owner__in=set(by_owner(jobs)))
    if unread.is_possible(using):
        held = held.only(*unread.COLUMNS)
    return {(row.pk, row.lock_owner, row.revision): row for row in lock_rows(held.order_by("pk"))}


def _pieces(ended: Sequence[Ended]) -> Iterator[list[Ended]]:
    """Groups whose stack traces fit into a statement: MariaDB refuses one of 16 megabytes."""
    piece: list[Ended] = []
    letters = 0
    for each in ended:
        letters += min(STACK_LENGTH, len(each[1].stack))
        if piece and letters > LETTERS:
            yield piece
            piece, letters = [], min(STACK_LENGTH, len(each[1].stack))
        piece.append(each)
    if piece:
        yield piece


def settle_failures(using: str, ended: Sequence[Ended]) -> dict[UUID, AbstractJob]:
    """Move rows that the caller has locked to where their failures send them, and write the log.

    Returns the jobs where they now are, by id. A job that was cancelled while it ran does not go on, however it ended.
    """
    cancelled = [each for each in ended if each[1].kind == "cancelled" or each[0].cancel_requested]
    if cancelled:
        _remove_cancelled(using, cancelled)
    gone: dict[UUID, AbstractJob] = {row.pk: row for row, _, _ in cancelled}
    going_on = [each for each in ended if each[0].pk not in gone]
    moved = _move_on(using, going_on) if going_on else {}
    return gone | moved


def _remove_cancelled(using: str, ended: Sequence[Ended]) -> None:
    history.write(using, LogState.CANCELLED, [_cancellation(*each) for each in ended])
    write_cancelled(using, [each for each in ended if is_task(each[0])])
    remove_cancelled(using, [row for row, _, _ in ended])


def _cancellation(row: Job, failure: Failure, run: Run) -> JobLog:
    message = "" if failure.kind == "cancelled" else storable(failure.message)[:MESSAGE_LENGTH]
    values = {"attempt": row.attempts + 1, "exception_message": message, **timing(row, run)}
    return history.entry(row, LogState.CANCELLED, **values)


def _move_on(using: str, ended: Sequence[Ended]) -> dict[UUID, AbstractJob]:
    now = clock.now(using)
    verdicts = {row.pk: decide(row, failure, now) for row, failure, _ in ended}
    dead = [row for row, _, _ in ended if verdicts[row.pk].due_date is None]
    retried = [row for row, _, _ in ended if verdicts[row.pk].due_date is not None]
    covered = covered_rows(using, retried) if retried else []
    suspended = {row.pk for row in covered}
    departures = [
        Departure([row for row in retried if row.pk not in suspended], TimerJob),
        Departure(covered, SuspendedJob, {"suspended_at": now}),
        Departure(dead, DeadLetterJob, {"died_at": now}),
    ]
    alike = {row.pk: {"fingerprint": fingerprint_of(row, failure)} for row, failure, _ in ended}
    changes = {pk: verdict.columns for pk, verdict in verdicts.items()}
    changes |= {row.pk: changes[row.pk] | alike[row.pk] for row in dead}
    told = [each for each in ended if each[1].counts or not verdicts[each[0].pk].due_date]
    # While their rows are where they ran: what was not read of them is there.
    write_failures(using, [(*each, not verdicts[each[0].pk].due_date) for each in told if is_task(each[0])])
    depart = unread.depart if unread.is_possible(using) else _depart
    return depart(using, departures, changes, {row.pk: timing(row, run) | alike[row.pk] for row, _, run in told})


def fingerprint_of(row: AbstractJob | AcquiredJob, failure: Failure) -> str:
    """What this failure has in common with those that look alike."""
    if not failure.known_fingerprint:
        found = fingerprint(row.handler_type, storable(failure.message), failure.stack)
        object.__setattr__(failure, "known_fingerprint", found)  # it is needed twice and takes microseconds
    return failure.known_fingerprint


def _depart(
    using: str, departures: Sequence[Departure], changes: Changes, timings: Mapping[UUID, dict[str, Any]]
) -> dict[UUID, AbstractJob]:
    moved = {row.pk: row for rows, to, more in departures for row in move_all(rows, to, changes, **more)}
    before = {row.pk: row for rows, _, _ in departures for row in rows}
    told = [pk for pk in timings if pk in moved]
    history.write(using, LogState.FAILED, [_failure(before[pk], moved[pk], timings[pk]) for pk in told])
    return moved


def _failure(row: AbstractJob, moved: AbstractJob, timing: dict[str, Any]) -> JobLog:
    values: dict[str, Any] = {"exception_message": moved.exception_message, "exception_stack": moved.exception_stack}
    # When it was due is in the old row; the new one says when it is due again.
    return history.entry(moved, LogState.FAILED, **values, due_date=row.due_date, **timing)


def decide(row: AbstractJob, failure: Failure, now: datetime) -> Verdict:
    """What a failure costs this job and when it runs again; pure.

    ``retries`` counts attempts left, ``attempts`` attempts made, which picks the interval of the retry plan. A run
    with a recorded outcome proves that the job does not kill its process: ``lost_runs`` starts anew.
    """
    settings = get_settings()
    message = storable(failure.message)[:MESSAGE_LENGTH]
    changes: dict[str, Any] = {
        "exception_message": message,
        "exception_stack": shortened(storable(failure.stack), STACK_LENGTH),
    }
    if failure.kind == "unknown":
        since = row.unknown_since or now
        if now - since < settings.unknown_handler_timeout:
            return Verdict(now + settings.unknown_handler_delay, changes | {"unknown_since": since})
        return Verdict(None, changes | {"retries": 0})
    if failure.kind == "interrupted":
        # It has come to an end of its own choice: it is no suspect.
        return Verdict(_retry_date(row, failure, now), changes | {"lost_runs": 0, "unknown_since": None})
    changes |= {"attempts": row.attempts + 1, "lost_runs": 0, "unknown_since": None}
    if failure.kind == "conflict" and row.conflicts < settings.max_conflicts:
        # Spread by the id, so that jobs which collided do not meet again.
        spread = 1 + (row.pk.int % 1000) / 1000
        return Verdict(now + settings.conflict_delay * spread, changes | {"conflicts": row.conflicts + 1})
    retries = 0 if failure.kind == "fatal" else max(0, row.retries - 1)
    due_date = _retry_date(row, failure, now) if retries else None
    return Verdict(due_date, changes | {"retries": retries if due_date else 0})


def _retry_date(row: AbstractJob, failure: Failure, now: datetime) -> datetime | None:
    """When to try again; None if the plan says not to."""
    if failure.retry_at is not None:
        # In UTC: PostgreSQL would store what is then past the year 9999, and nobody could read the row again.
        return failure.retry_at.astimezone(UTC)
    failures = max(1, row.attempts + 1 - row.conflicts)
    try:
        plan = RetryPlan.parse(row.retry_plan) if row.retry_plan else failure.plan or default_plan()
        return plan.next_due_date(now, failures, failure.error)
    except DoNotRetry:
        return None
    except (InvalidRetryPlan, OverflowError):
        # A plan that a person or a callable broke, or that goes past the year 9999, must not cost the job its
        # retries, nor the loop its life.
        text = "Job %s: its retry plan is broken; the default plan is used"
        logger.exception(text, row.pk, extra=log_fields(row))
        return default_plan().next_due_date(now, failures)
