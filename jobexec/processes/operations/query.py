"""Views of an instance for callers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple
from uuid import UUID

from jobexec.models import JOB_TABLES, AbstractJob, DeadLetterJob, Incident, IncidentState, Suspension
from jobexec.operations.batches.of_jobs import figures_of

from ..engine.rows import NOT_WAITING
from ..models import (
    ActivityInstance,
    EventSubscription,
    Execution,
    ProcessDefinition,
    ProcessInstance,
    UserTask,
    Variable,
)
from ..models.instance import RUNNING
from ..store.definitions import CALLS, MISSED
from ..store.items import MARK
from ..store.suspensions import suspension_of

#: Rows of each table that a view has; an instance may have any number.
MOST_ROWS = 1_000


class Value(NamedTuple):
    """A variable as it is shown. ``element`` is that of its scope, empty for the instance itself."""

    name: str
    value: Any
    element: str = ""


class Items(NamedTuple):
    """How far the jobs for the items of a long list are: the numbers of their results, and of what is left to do."""

    done: int
    left: int
    failed: int


@dataclass(frozen=True)
class InstanceView:
    """An instance with the first MOST_ROWS of its rows in each table, each list in the order of time.

    Of the items of long lists there are only the dead letters; ``items`` has their numbers.
    """

    instance: ProcessInstance
    definition: ProcessDefinition | None
    executions: list[Execution]
    variables: list[Variable]
    subscriptions: list[EventSubscription]
    tasks: list[UserTask]
    jobs: list[AbstractJob]
    activities: list[ActivityInstance]
    called: list[ProcessInstance]
    suspension: Suspension | None = None
    """One that covers the instance, if it runs."""
    cut: tuple[str, ...] = ()
    """The tables that have more rows of it."""
    items: Mapping[UUID, Items] = field(default_factory=dict)
    """By the executions that wait for long lists."""

    @property
    def waits_at(self) -> list[str]:
        """The elements at which something waits, each once."""
        return list(dict.fromkeys(row.element_id for row in self.executions if row.state not in NOT_WAITING))

    @property
    def values(self) -> list[Value]:
        """Its variables, also after its end, without those that a flow has for itself."""
        is_flow = self.definition is not None and self.definition.version is None
        elements = {row.pk: row.element_id for row in self.executions}
        found = [Value(row.name, row.value, elements.get(row.scope_id, "")) for row in self.variables]
        found += [Value(name, value) for name, value in (self.instance.final_variables or {}).items()]
        shown = [each for each in found if not is_flow or not (each.name == CALLS or each.name.endswith(MISSED))]
        return sorted(shown, key=lambda each: (each.element, each.name))


@dataclass(frozen=True)
class Listed:
    """An instance in a list: the elements where it waits, each once, and the number of its open incidents."""

    instance: ProcessInstance
    waits_at: list[str]
    incidents: int

    def as_json(self) -> dict[str, Any]:
        row = self.instance
        return {
            "id": str(row.pk),
            "key": row.definition_key,
            "business_key": row.business_key,
            "tenant": row.tenant_id,
            "state": row.state,
            "start_time": row.start_time.isoformat(),
            "end_time": row.end_time.isoformat() if row.end_time else None,
            "waits_at": self.waits_at,
            "incidents": self.incidents,
        }


def listed(using: str, instances: Sequence[ProcessInstance]) -> list[Listed]:
    """Instances, which are few, with where they wait and their incidents: two statements."""
    ids = [row.pk for row in instances]
    tokens = Execution.objects.using(using).filter(root_id__in={row.root_id for row in instances}, instance_id__in=ids)
    places: dict[UUID, list[str]] = {}
    for id, element in (
        tokens.exclude(state__in=NOT_WAITING).order_by("element_id").distinct().values_list("instance_id", "element_id")
    ):
        places.setdefault(id, []).append(element)
    open_ones = Incident.objects.using(using).filter(state=IncidentState.OPEN, process_instance_id__in=map(str, ids))
    incidents = Counter(open_ones.values_list("process_instance_id", flat=True))
    return [Listed(row, places.get(row.pk, []), incidents[str(row.pk)]) for row in instances]


def is_value(stored: Any, value: Any) -> bool:
    """Whether a value that ``value_is`` has found is meant: MariaDB takes the text "5" for the number 5."""
    return (stored, isinstance(stored, bool)) == (value, isinstance(value, bool))


def view_of(using: str, id: UUID) -> InstanceView:
    """Raises ProcessInstance.DoesNotExist."""
    instance = ProcessInstance.objects.using(using).get(pk=id)
    cut: list[str] = []

    def first(rows: Any) -> Any:
        found = list(rows[: MOST_ROWS + 1])
        if len(found) > MOST_ROWS:
            cut.append(str(rows.model._meta.verbose_name_plural))
        return found[:MOST_ROWS]

    def of_instance(model: Any) -> Any:
        return model.objects.using(using).filter(root_id=instance.root_id, instance_id=id).order_by("pk")

    executions, variables = first(of_instance(Execution)), of_instance(Variable)
    batches = {row.job_id: row.pk for row in executions if row.data.get("batch") and row.job_id is not None}
    jobs: list[AbstractJob] = []
    for table in JOB_TABLES:
        found = table._base_manager.using(using).filter(process_instance_id=str(id)).order_by("pk")
        if batches and table is not DeadLetterJob:
            found = found.exclude(batch_id__in=batches)
        jobs += first(found)
    if batches:
        variables = variables.exclude(scope_id__in=batches.values(), name__startswith=MARK)
    suspension = None
    if instance.state in RUNNING:
        suspension = suspension_of(using, id, instance.definition_id, instance.tenant_id)
    return InstanceView(
        instance=instance,
        suspension=suspension,
        definition=ProcessDefinition.objects.using(using).filter(pk=instance.definition_id).first(),
        executions=executions,
        variables=first(variables),
        subscriptions=first(of_instance(EventSubscription)),
        tasks=first(of_instance(UserTask)),
        jobs=jobs,
        activities=first(ActivityInstance.objects.using(using).filter(instance_id=id).order_by("start_time", "pk")),
        called=first(
            ProcessInstance.objects.using(using).filter(root_id=instance.root_id).exclude(pk=id).order_by("start_time")
        ),
        cut=tuple(cut),
        items={token: _items(using, batch) for batch, token in batches.items()},
    )


def _items(using: str, batch: UUID) -> Items:
    figures = figures_of(using, batch)
    return Items(figures.completed, figures.open, figures.failed)
