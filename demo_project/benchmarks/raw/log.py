"""The raw SQL that writes the log of a page of jobs, by one INSERT … SELECT."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from jobexec import clock
from jobexec.models import JobLog, LogState
from jobexec.operations.history.job_log import COPIED

from .copy import Statement, as_they_are, insert_from, moment
from .queue import TABLE, RawQueue

_COPIED = (*COPIED, "retries")


def log_statement(queue: RawQueue, ids: Sequence[Any], state: str, **values: Any) -> Statement:
    """The INSERT of a log row for each of these jobs, which are still in the table; with the columns of ours."""
    now = moment(queue.alias, clock.now(queue.alias))
    given = {"timestamp": now, "state": state, "node": "jobbench raw", "attempt": 1, "wait": 0.1, "duration": 0.0}
    given |= {"exception_message": "", "exception_stack": "", "fingerprint": ""} | values
    copied = [("job_id", "id"), *as_they_are(queue.alias, _COPIED)]
    return insert_from(queue.alias, TABLE, JobLog, copied, given, queue.among(ids))


class LoggingQueue(RawQueue):
    """Writes a log row for each job that it deletes."""

    def settling(self, ids: Sequence[Any]) -> Iterator[Statement]:
        yield log_statement(self, ids, LogState.SUCCESSFUL)
        yield from super().settling(ids)
