"""Inserted rows as model instances."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from copy import copy
from functools import cache
from typing import Any, NamedTuple, TypeAlias, overload
from uuid import UUID

from django.db.models.base import ModelState

from jobexec.models import AbstractJob, BlockedJob, DeadLetterJob, Job, SuspendedJob, TimerJob

#: A job as it is inserted: it may run, or waits for its date or its resource.
NewJob: TypeAlias = Job | TimerJob | BlockedJob
Table = type[Job] | type[TimerJob] | type[BlockedJob]
#: The name and the key of the message for which a job waits.
Wait: TypeAlias = tuple[str, str]
#: The result of ``enqueue``: the job that it inserted, or the existing job with the unique key.
AnyJob: TypeAlias = NewJob | SuspendedJob | DeadLetterJob


class Own(NamedTuple):
    """The values that a function's options compute from the arguments of a call; None if they do not."""

    resource: str | None = None
    wait: Wait | None = None


def instance(using: str, table: type[AbstractJob], columns: Mapping[str, Any]) -> Any:
    """Build an instance from these columns as if loaded from ``using``; the other columns have their defaults.

    It bypasses the constructor, as unpickling does: the constructor takes several times as long as all the rest.
    """
    row = table.__new__(table)
    row._state = state = ModelState()
    state.db, state.adding = using, False
    vars(row).update(_defaults(table))
    vars(row).update(columns)
    row.custom_headers = copy(columns["custom_headers"]) if "custom_headers" in columns else {}  # no two share it
    return row


def without_defaults(columns: Mapping[str, Any]) -> dict[str, Any]:
    """Return the columns that differ from their default, which are all that a statement needs.

    The deployment is always kept: if it is not given, a job gets that of the process that enqueues it.
    """
    defaults = {name: value for name, value in _defaults(Job).items() if name != "deployment_id"}
    return {name: value for name, value in columns.items() if name not in defaults or value != defaults[name]}


@cache
def _defaults(table: type[AbstractJob]) -> dict[str, Any]:
    made_for_each = ("id", "create_time", "custom_headers", "handler_configuration")
    fields = table._meta.concrete_fields
    return {field.attname: field.get_default() for field in fields if field.attname not in made_for_each}


class CreatedJobs(Sequence[NewJob]):
    """The rows inserted by one call, in the given order. Reads and compares like a list.

    An instance is created at its first access and kept: most callers access none, and creating a hundred thousand takes
    longer than inserting them. ``handler_configuration`` is as the database would return it. ``list(rows)`` creates all
    instances. Can be pickled.
    """

    def __init__(
        self,
        using: str,
        table: Table,
        columns: Mapping[str, Any],
        ids: Sequence[UUID],
        configurations: Sequence[str],
        waits: Sequence[Wait] | None = None,
        held: tuple[Mapping[str, Any], int] | None = None,
    ) -> None:
        """``configurations`` are the JSON texts of ``handler_configuration``; all other columns are the same.

        Except for the messages for which the jobs wait, if there are ``waits``, and for ``held``: further columns, and
        the number of the first rows that have them.
        """
        self._using, self._table, self._columns = using, table, columns
        self._held, self._first = held if held is not None else ({}, 0)
        self._configurations, self._waits = configurations, waits
        self._rows: dict[int, Any] = {}
        #: The ids of the rows, available without creating instances.
        self.ids = ids

    def __len__(self) -> int:
        return len(self.ids)

    @overload
    def __getitem__(self, index: int) -> NewJob: ...
    @overload
    def __getitem__(self, index: slice) -> list[NewJob]: ...
    def __getitem__(self, index: int | slice) -> Any:
        numbers = range(len(self.ids))[index]
        return self._row(numbers) if isinstance(numbers, int) else [self._row(number) for number in numbers]

    def __iter__(self) -> Iterator[NewJob]:
        return map(self._row, range(len(self.ids)))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, list | CreatedJobs):
            return NotImplemented
        return len(self) == len(other) and all(mine == theirs for mine, theirs in zip(self, other, strict=True))

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"<{len(self)} created jobs>"

    def _row(self, number: int) -> Any:
        row = self._rows.get(number)
        if row is None:
            configuration = json.loads(self._configurations[number])
            columns = dict(self._columns, id=self.ids[number], handler_configuration=configuration)
            if self._waits is not None:
                columns["waits_for"], columns["waits_for_key"] = self._waits[number]
            columns |= self._held if number < self._first else {}
            # Threads that access a row at the same time get the same instance.
            row = self._rows.setdefault(number, instance(self._using, self._table, columns))
        return row
