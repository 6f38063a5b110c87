"""Which jobs somebody means, in the words of the columns (Camunda: JobQuery; Flowable: BaseJobQuery)."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, fields
from datetime import datetime
from typing import Any, TypeAlias
from uuid import UUID

from django.db.models import Q, QuerySet

from jobexec import clock
from jobexec.models import JOB_TABLES, AbstractJob, DeadLetterJob, ExternalWorkerJob, JobType, SuspendedJob

from ..rows import routing
from ..targets.lookup import as_id
from . import values as values
from .search import find

Table: TypeAlias = type[AbstractJob]
Condition: TypeAlias = Callable[[Any, Table], Q]

STATES: dict[str, Table] = {table.state.replace(" ", "_"): table for table in JOB_TABLES}
"""The states by name: executable, timer, suspended, dead_letter, external_worker. A state is a table."""

_WITH_KEYS = (SuspendedJob, DeadLetterJob, ExternalWorkerJob)


def _by(check: values.Check, condition: Condition) -> Any:
    """An argument that is not given by default: what it may be, and the condition that it makes."""
    return field(default=None, metadata={"check": check, "condition": condition})


def _column(lookup: str, check: values.Check = values.text) -> Any:
    return _by(check, lambda value, table: Q(**{lookup: value}))


def _pattern(column: str) -> Any:
    def condition(value: str, table: Table) -> Q:
        exact = not value.endswith("*")
        return Q(**{column: value}) if exact else Q(**{f"{column}__startswith": value[:-1]})

    return _by(values.text, condition)


def _either(yes: Q, no: Q) -> Any:
    return _by(values.yes_no, lambda value, table: yes if value else no)


def _suspended(value: bool, table: Table) -> Q:
    if table is SuspendedJob:
        return Q() if value else Q(pk__in=[])
    return Q(suspend_requested=value)


def _locked(value: bool, table: Table) -> Q:
    now = clock.now()
    return routing.held(table, now) if value else routing.free(table, now)


def _anywhere(value: str, table: Table) -> Q:
    id = as_id(value)
    found = Q(process_instance_id=value) | Q(correlation_id=value) | Q(handler_type__startswith=value)
    key = values.as_key(value) if table in _WITH_KEYS else None
    if key is not None:
        found |= Q(job_key=key)
    return found if id is None else found | Q(pk=id)


_NOTHING: Condition = lambda value, table: Q()  # noqa: E731 (what another argument or the table says)


@dataclass(frozen=True, kw_only=True)
class JobQuery:
    """Conditions that a job meets all of; those that are None do not count.

    Texts are compared exactly; ``handler`` and ``category`` may end in ``*``: begins with. The bounds of the priority
    and ``created_before`` include their value, ``created_after``, ``due_before`` and ``due_after`` do not (Camunda's
    ``createdBefore``, ``duedateLowerThan``, ...); a job without a due date is neither before nor after any. Raises
    :class:`~jobexec.exceptions.InvalidQuery`, which names the argument and what was expected.
    """

    ids: Collection[UUID | str] | None = _column("pk__in", values.uuids)
    states: Collection[str] | None = _by(values.words(STATES), _NOTHING)
    """Some of :data:`STATES`."""
    type: str | None = _column("type", values.word(*JobType.values))
    handler: str | None = _pattern("handler_type")
    """The name of a handler, or the type of an external job (Camunda 7: its topic)."""
    job_key: int | None = _column("job_key", values.key)
    """By which workers outside name it."""
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
    """True: those of no tenant, alone or besides those of ``tenant_ids``; False: those of any."""
    priority_min: int | None = _column("priority__gte", values.priority)
    priority_max: int | None = _column("priority__lte", values.priority)
    due_before: datetime | None = _column("due_date__lt", values.moment)
    due_after: datetime | None = _column("due_date__gt", values.moment)
    created_before: datetime | None = _column("create_time__lte", values.moment)
    created_after: datetime | None = _column("create_time__gt", values.moment)
    retries_left: bool | None = _either(Q(retries__gt=0), Q(retries=0))
    attempted: bool | None = _either(Q(attempts__gt=0), Q(attempts=0))
    """Whether an attempt was made; a timer with one waits for a retry."""
    with_exception: bool | None = _either(~Q(exception_message=""), Q(exception_message=""))
    exception_contains: str | None = _column("exception_message__contains")
    fingerprint: str | None = _column("fingerprint")
    """That of a dead letter; jobs of other states have none."""
    failed_activity_id: str | None = _column("failed_activity_id")
    locked: bool | None = _by(values.yes_no, _locked)
    """Whether a node has it in hand, or a worker whose deadline is not over."""
    lock_owner: str | None = _column("lock_owner")
    node: str | None = _by(values.text, lambda value, table: Q(lock_owner__startswith=f"{value}:"))
    """The name of the node that holds it."""
    worker: str | None = _column("lock_owner")
    """The worker outside that had it last, whether or not its deadline is over."""
    suspended: bool | None = _by(values.yes_no, _suspended)
    """Whether it is suspended, or to be as soon as its run has ended."""
    batch_id: UUID | str | None = _column("batch_id", values.uuid)
    correlation_id: str | None = _column("correlation_id")
    text: str | None = _by(values.text, _anywhere)
    """A job's id or key, a process instance, a correlation id, or how a handler's name begins."""

    def __post_init__(self) -> None:
        for each in fields(self):
            value = getattr(self, each.name)
            if value is not None:
                object.__setattr__(self, each.name, each.metadata["check"](each.name, value))

    @property
    def given(self) -> dict[str, Any]:
        """The conditions that are asked for, by name."""
        values = {each.name: getattr(self, each.name) for each in fields(self)}
        return {name: value for name, value in values.items() if value is not None}

    @property
    def tables(self) -> list[Table]:
        """Where such jobs can be."""
        wanted = STATES if self.states is None else self.states
        tables = [table for name, table in STATES.items() if name in wanted]
        if self.fingerprint is not None:
            tables = [table for table in tables if table is DeadLetterJob]
        if self.worker is not None:
            tables = [table for table in tables if table is ExternalWorkerJob]
        if self.job_key is not None:
            tables = [table for table in tables if table in _WITH_KEYS]
        return tables

    def queryset(self, table: Table, using: str) -> QuerySet[Any]:
        """The jobs of one table: comparisons of its columns and nothing else, so that a batch can keep them."""
        rows: QuerySet[Any] = table._base_manager.using(using)
        if table not in self.tables:
            return rows.none()
        return rows.filter(self._tenants(), *self._conditions(table))

    def _conditions(self, table: Table) -> list[Q]:
        conditions = {each.name: each.metadata["condition"] for each in fields(self)}
        return [conditions[name](value, table) for name, value in self.given.items()]

    def _tenants(self) -> Q:
        if self.tenant_ids is not None:
            return Q(tenant_id__in=[*self.tenant_ids, *([""] if self.without_tenant else [])])
        if self.without_tenant is None:
            return Q()
        return Q(tenant_id="") if self.without_tenant else ~Q(tenant_id="")

    def find(self, using: str, *, limit: int = 100, order: str = "id", defer: Sequence[str] = ()) -> list[AbstractJob]:
        """The first ``limit`` jobs of all tables in this order; see :func:`~jobexec.operations.query.search.find`."""
        return find([self.queryset(table, using) for table in self.tables], limit, order, defer)
