"""Select jobs by conditions on their columns (Camunda: JobQuery; Flowable: BaseJobQuery)."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, fields
from datetime import datetime
from typing import Any, TypeAlias
from uuid import UUID

from django.db.models import Q, QuerySet

from jobexec import clock
from jobexec.identifiers import as_id
from jobexec.models import (
    EXTERNAL_TABLES,
    JOB_TABLES,
    AbstractJob,
    DeadLetterJob,
    ExternalWorkerJob,
    JobType,
    SuspendedJob,
)

from ..rows import routing
from ..sql.dialect import begins_with, has_part
from . import values as values
from .search import find

Table: TypeAlias = type[AbstractJob]
#: Of a value, for a table of a database.
Condition: TypeAlias = Callable[[Any, Table, str], Q]

STATES: dict[str, Table] = {table.state.replace(" ", "_"): table for table in JOB_TABLES}
"""The states by name: executable, timer, suspended, dead_letter, blocked, external_worker. A state is a table."""


def _by(check: values.Check, condition: Condition) -> Any:
    """An optional argument, with its validation and its condition."""
    return field(default=None, metadata={"check": check, "condition": condition})


def _column(lookup: str, check: values.Check = values.text) -> Any:
    return _by(check, lambda value, table, using: Q(**{lookup: value}))


def _pattern(column: str) -> Any:
    def condition(value: str, table: Table, using: str) -> Q:
        return begins_with(using, column, value[:-1]) if value.endswith("*") else Q(**{column: value})

    return _by(values.text, condition)


def _either(yes: Q, no: Q) -> Any:
    return _by(values.yes_no, lambda value, table, using: yes if value else no)


def _suspended(value: bool, table: Table, using: str) -> Q:
    if table is SuspendedJob:
        return Q() if value else Q(pk__in=[])
    return Q(suspend_requested=value)


def _locked(value: bool, table: Table, using: str) -> Q:
    now = clock.now()
    return routing.held(table, now) if value else routing.free(table, now)


def _anywhere(value: str, table: Table, using: str) -> Q:
    id = as_id(value)
    found = Q(process_instance_id=value) | Q(correlation_id=value) | begins_with(using, "handler_type", value)
    key = values.as_key(value) if table in EXTERNAL_TABLES else None
    if key is not None:
        found |= Q(job_key=key)
    return found if id is None else found | Q(pk=id)


_NOTHING: Condition = lambda value, table, using: Q()  # noqa: E731 (another argument or the table has the condition)


@dataclass(frozen=True, kw_only=True)
class JobQuery:
    """Conditions that a job must all meet; None means no condition.

    Texts are compared exactly; in ``handler`` and ``category``, a ``*`` at the end means a prefix. The priority bounds
    and ``created_before`` are inclusive, ``created_after``, ``due_before`` and ``due_after`` exclusive (Camunda's
    ``createdBefore``, ``duedateLowerThan``, ...); a job without a due date is neither before nor after any date. Raises
    :class:`~jobexec.exceptions.InvalidQuery`, which names the argument and the expected value.
    """

    ids: Collection[UUID | str] | None = _column("pk__in", values.uuids)
    states: Collection[str] | None = _by(values.words(STATES), _NOTHING)
    """Some of :data:`STATES`."""
    type: str | None = _column("type", values.word(*JobType.values))
    handler: str | None = _pattern("handler_type")
    """The name of a handler, or the type of an external job (Camunda 7: its topic)."""
    job_key: int | None = _column("job_key", values.key)
    """The key by which external workers refer to it."""
    job_definition_id: str | None = _column("job_definition_id")
    category: str | None = _pattern("category")
    process_instance_id: str | None = _column("process_instance_id")
    root_process_instance_id: str | None = _column("root_process_instance_id")
    execution_id: str | None = _column("execution_id")
    process_definition_id: str | None = _column("process_definition_id")
    process_definition_key: str | None = _column("process_definition_key")
    deployment_id: str | None = _column("deployment_id")
    tenant_ids: Collection[str] | None = _by(values.texts, _NOTHING)
    without_tenant: bool | None = _by(values.yes_no, _NOTHING)
    """True: jobs without a tenant, alone or in addition to those of ``tenant_ids``; False: jobs with a tenant."""
    priority_min: int | None = _column("priority__gte", values.priority)
    priority_max: int | None = _column("priority__lte", values.priority)
    due_before: datetime | None = _column("due_date__lt", values.moment)
    due_after: datetime | None = _column("due_date__gt", values.moment)
    created_before: datetime | None = _column("create_time__lte", values.moment)
    created_after: datetime | None = _column("create_time__gt", values.moment)
    retries_left: bool | None = _either(Q(retries__gt=0), Q(retries=0))
    attempted: bool | None = _either(Q(attempts__gt=0), Q(attempts=0))
    """Whether an attempt was made; a timer with an attempt is a waiting retry."""
    with_exception: bool | None = _either(~Q(exception_message=""), Q(exception_message=""))
    exception_contains: str | None = _by(
        values.text, lambda value, table, using: has_part(using, "exception_message", value)
    )
    fingerprint: str | None = _column("fingerprint")
    """The fingerprint of a dead letter; jobs in other states have none."""
    failed_activity_id: str | None = _column("failed_activity_id")
    locked: bool | None = _by(values.yes_no, _locked)
    """Whether a node holds it, or a worker whose deadline has not passed."""
    lock_owner: str | None = _column("lock_owner")
    node: str | None = _by(values.text, lambda value, table, using: begins_with(using, "lock_owner", f"{value}:"))
    """The name of the node that holds it."""
    worker: str | None = _column("lock_owner")
    """The external worker that fetched it last, whether or not its deadline has passed."""
    suspended: bool | None = _by(values.yes_no, _suspended)
    """Whether it is suspended, or will be as soon as its run has ended."""
    batch_id: UUID | str | None = _column("batch_id", values.uuid)
    correlation_id: str | None = _column("correlation_id")
    waits_for: str | None = _column("waits_for")
    """The name of the message that it waits for."""
    waits_for_key: str | None = _column("waits_for_key")
    text: str | None = _by(values.text, _anywhere)
    """A job's id or key, a process instance, a correlation id, or the beginning of a handler's name."""

    def __post_init__(self) -> None:
        for each in fields(self):
            value = getattr(self, each.name)
            if value is not None:
                object.__setattr__(self, each.name, each.metadata["check"](each.name, value))

    @property
    def given(self) -> dict[str, Any]:
        """The given conditions, by name."""
        values = {each.name: getattr(self, each.name) for each in fields(self)}
        return {name: value for name, value in values.items() if value is not None}

    @property
    def tables(self) -> list[Table]:
        """The tables that can contain such jobs."""
        wanted = STATES if self.states is None else self.states
        tables = [table for name, table in STATES.items() if name in wanted]
        if self.fingerprint is not None:
            tables = [table for table in tables if table is DeadLetterJob]
        if self.worker is not None:
            tables = [table for table in tables if table is ExternalWorkerJob]
        if self.job_key is not None:
            tables = [table for table in tables if table in EXTERNAL_TABLES]
        return tables

    def queryset(self, table: Table, using: str) -> QuerySet[Any]:
        """The matching jobs of a table; only comparisons of its columns, so that a batch can store the conditions."""
        rows: QuerySet[Any] = table._base_manager.using(using)
        if table not in self.tables:
            return rows.none()
        return rows.filter(self._tenants(), *self._conditions(table, using))

    def _conditions(self, table: Table, using: str) -> list[Q]:
        conditions = {each.name: each.metadata["condition"] for each in fields(self)}
        return [conditions[name](value, table, using) for name, value in self.given.items()]

    def _tenants(self) -> Q:
        if self.tenant_ids is not None:
            return Q(tenant_id__in=[*self.tenant_ids, *([""] if self.without_tenant else [])])
        if self.without_tenant is None:
            return Q()
        return Q(tenant_id="") if self.without_tenant else ~Q(tenant_id="")

    def find(self, using: str, *, limit: int = 100, order: str = "id", defer: Sequence[str] = ()) -> list[AbstractJob]:
        """The first ``limit`` matching jobs of all tables; see :func:`~jobexec.operations.query.search.find`."""
        return find([self.queryset(table, using) for table in self.tables], limit, order, defer)
