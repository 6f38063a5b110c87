"""The raw SQL that keeps the results of a page of jobs, by one INSERT … SELECT."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from jobexec import clock
from jobexec.models import ResultStatus, TaskResult

from .copy import Statement, as_they_are, insert_from, moment
from .queue import TABLE, RawQueue

_COPIED = (
    *("id", "handler_type", "handler_configuration", "category", "priority"),
    *("process_instance_id", "tenant_id", "create_time"),
)


class ResultQueue(RawQueue):
    """Writes a row of results for each job that it deletes, all with the same value."""

    def settling(self, ids: Sequence[Any]) -> Iterator[Statement]:
        now = moment(self.alias, clock.now(self.alias))
        given = {"status": str(ResultStatus.SUCCESSFUL), "first_time": now, "last_time": now, "end_time": now}
        given |= {"return_value": "7", "errors": "[]", "workers": '["jobbench raw"]'}
        copied = [("backend", "task_backend"), *as_they_are(self.alias, _COPIED)]
        yield insert_from(self.alias, TABLE, TaskResult, copied, given, self.among(ids))
        yield from super().settling(ids)
