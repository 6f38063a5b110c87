"""Counts kept in memory for an engine until they are written."""

from __future__ import annotations

import logging
import threading
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from jobexec import clock
from jobexec.models import DeadLetterJob, FailureGroup, Job
from jobexec.operations.reports import meters as names
from jobexec.operations.reports.failure_groups import OTHER, FailureCount
from jobexec.operations.reports.subjects import counts_of_subjects
from jobexec.operations.sql.errors import storable
from jobexec.operations.values.acquired_job import AcquiredJob, Acquisition
from jobexec.operations.values.failure import Failure, fingerprint_of
from jobexec.operations.values.fingerprint import exception_name
from jobexec.operations.values.histogram import KEYS, counts_by_key
from jobexec.operations.values.ranking import interval
from jobexec.operations.values.run import Run

from ..run.outcomes import Outcome

logger = logging.getLogger("jobexec.executor")

#: Kinds of failures beyond this many are counted as one until the next flush.
MOST_GROUPS = 1000
#: Beyond this many handlers with their categories and tenants, tenants are not counted until the next flush.
MOST_SUBJECTS = 1000
_LAST = len(KEYS) - 1  # the bucket without an end
_BITS = 128  # more than any duration in milliseconds has
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)
_MESSAGE = FailureGroup._meta.get_field("message").max_length
_NAME = FailureGroup._meta.get_field("exception").max_length


class MeterBatch(NamedTuple):
    """Counts that are written together."""

    counts: names.Counts
    failures: Sequence[FailureCount]


class Meters:
    """Counts once for each page and each group of outcomes; thread-safe.

    A run's waiting time starts when its job was due, according to its rank: the due date of a timer or a retry, the
    time of creation or requeueing of any other. Jobs without an outcome (released, or with a lost lock) are not
    counted.
    """

    def __init__(self, using: str) -> None:
        self._using = using
        self._lock = threading.Lock()
        self._begin()

    def _begin(self) -> None:
        self._counts: Counter[tuple[str, str]] = Counter()
        #: By handler, category and tenant: successful runs by bucket of their duration, then failures.
        self._subjects: dict[tuple[str, str, str], list[int]] = {}
        self._waits, self._runs = [0] * _BITS, [0] * _BITS
        self._waited, self._ran = 0, 0.0  # milliseconds, seconds
        self._failures: dict[str, FailureCount] = {}

    def acquired(self, page: Acquisition) -> None:
        """A page was requested from the database."""
        with self._lock:
            self._counts[names.JOB_ACQUISITION_ATTEMPT, ""] += 1
            self._counts[names.JOB_ACQUIRED_SUCCESS, ""] += len(page.jobs)
            self._counts[names.JOB_ACQUIRED_FAILURE, ""] += page.lock_failures
            self._counts[names.JOB_LOCKED_EXCLUSIVE, ""] += page.blocked

    def followed(self, count: int) -> None:
        """Jobs that a handler enqueued stay here."""
        with self._lock:
            self._counts[names.JOB_FOLLOWED_UP, ""] += count

    def sampled(self, backlog: names.Counts) -> None:
        """Record the number of waiting jobs."""
        with self._lock:
            self._counts.update(backlog)

    def recovered(self, count: int) -> None:
        """Jobs of a dead node were released."""
        with self._lock:
            self._counts[names.JOB_RECOVERED, ""] += count

    def ended(self, outcomes: Sequence[Outcome]) -> None:
        """These are committed. Never raises: a commit must not be undone for a count."""
        try:
            per_point = interval(self._using)
            done = [each for each in outcomes if each.counted and each.run is not None]
            with self._lock:
                self._count_ends(done)
                self._count_times([(each.work, each.run) for each in done if each.run], per_point)
        except Exception:
            logger.exception("Outcomes on %s could not be counted", self._using)

    # The loops over all jobs: no unnecessary calls. Tiny jobs follow each other within the same millisecond, and their
    # handlers are mostly the same.

    def _count_ends(self, outcomes: Sequence[Outcome]) -> None:
        handler = category = tenant = None
        counts, tiny = [0], 0
        for outcome in outcomes:
            if outcome.became is not None:
                self._failed(outcome)
                continue
            work, run = outcome.work, outcome.run
            if work.handler_type != handler or work.category != category or work.tenant_id != tenant:
                counts[0] += tiny
                handler, category, tenant = work.handler_type, work.category, work.tenant_id
                counts, tiny = self._counts_of(handler, category, tenant), 0
            if run is None or run.duration < 0.001:
                tiny += 1
            else:
                counts[min(int(run.duration * 1000).bit_length(), _LAST)] += 1
        counts[0] += tiny

    def _counts_of(self, handler: str, category: str, tenant: str) -> list[int]:
        found = self._subjects.get((handler, category, tenant))
        if found is None:
            if len(self._subjects) >= MOST_SUBJECTS:
                tenant = ""  # there are as many of these as a project has customers
            found = self._subjects.setdefault((handler, category, tenant), [0] * (len(KEYS) + 1))
        return found

    def _count_times(self, runs: Sequence[tuple[AcquiredJob, Run]], per_point: int) -> None:
        waits, ran, waited = self._waits, self._runs, 0
        seconds, tiny, milliseconds = 0.0, 0, 0
        begin = end = _EPOCH
        for work, run in runs:
            if not begin <= run.started_at < end:
                milliseconds = (run.started_at - _EPOCH) // _MILLISECOND
                begin = _EPOCH + milliseconds * _MILLISECOND
                end = begin + _MILLISECOND
            try:
                wait = milliseconds - work.rank
                if work.priority:
                    wait -= int(work.priority) * per_point
            except (TypeError, ValueError):  # SQLite takes any value in any column
                continue
            if wait > 0:  # otherwise the clock of the enqueueing process was ahead
                waits[wait.bit_length()] += 1
                waited += wait
            else:
                waits[0] += 1
            seconds += run.duration
            if run.duration < 0.001:
                tiny += 1
            else:
                ran[int(run.duration * 1000).bit_length()] += 1
        ran[0] += tiny
        self._waited += waited
        self._ran += seconds

    def _failed(self, outcome: Outcome) -> None:
        work, failure, became = outcome.work, outcome.failure, outcome.became
        if failure is None or (became is Job and not outcome.handled):  # cancelled
            return
        dead = became is DeadLetterJob
        if not failure.counts and not dead:
            return  # no attempt; the next node may know the handler
        self._counts[names.JOB_FAILED, work.handler_type] += 1
        self._counts_of(work.handler_type, work.category, work.tenant_id)[-1] += 1
        if dead:
            self._counts[names.JOB_DEAD_LETTERED, work.handler_type] += 1
        self._group(work, failure)

    def _group(self, work: AcquiredJob, failure: Failure) -> None:
        fingerprint = fingerprint_of(work, failure)
        now, group = clock.now(self._using), self._failures.get(fingerprint)
        if group is None and len(self._failures) >= MOST_GROUPS:
            fingerprint = OTHER
            group = self._failures.get(OTHER)
        message = storable(failure.message)
        if group is None:
            handler = "" if fingerprint == OTHER else work.handler_type
            exception = "" if fingerprint == OTHER else exception_name(message)[:_NAME]
            self._failures[fingerprint] = FailureCount(
                fingerprint, handler, exception, message[:_MESSAGE], work.id, first_time=now, last_time=now
            )
            return
        group.message, group.job_id, group.last_time = message[:_MESSAGE], work.id, now
        group.count += 1

    @property
    def worth_writing(self) -> bool:
        """Whether anything was counted apart from polls of an empty queue."""
        with self._lock:
            return any(value for (name, _), value in self._counts.items() if name != names.JOB_ACQUISITION_ATTEMPT) or (
                bool(self._subjects)
            )

    def take(self) -> MeterBatch:
        """Return and reset the counts."""
        with self._lock:
            counts, subjects, failures = self._counts, self._subjects, self._failures
            waits, runs, waited, ran = self._waits, self._runs, self._waited, self._ran
            self._begin()
        for (handler, _category, _tenant), by_bucket in subjects.items():
            counts[names.JOB_SUCCESSFUL, handler] += sum(by_bucket[:-1])
        counts.update(counts_of_subjects(subjects))
        for name, buckets in ((names.JOB_WAIT_TIME, waits), (names.JOB_RUN_TIME, runs)):
            counts.update({(name, key): count for key, count in counts_by_key(buckets)})
        counts[names.JOB_WAIT_TIME_SUM, ""], counts[names.JOB_RUN_TIME_SUM, ""] = waited, round(ran * 1000)
        return MeterBatch({key: count for key, count in counts.items() if count}, list(failures.values()))
