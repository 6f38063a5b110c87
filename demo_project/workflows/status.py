"""How the instances stand: what the page and the table at the end show. Only reads."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from django.urls import reverse

from jobexec.models import DeadLetterJob
from jobexec.processes.models import Execution, ProcessInstance, UserTask, Variable

from .jobs import calls

KEYS = ("travel", "order", "approval", "offer")
SHOWN = 6
LANES = ("hotel", "flight", "concert")
_WIDTH = 160.0


@dataclass
class InstanceRow:
    """An instance as the page shows it."""

    row: ProcessInstance
    variables: dict[str, Any]
    waits_at: list[str]
    incident: str = ""
    task: UserTask | None = None
    lanes: list[dict[str, Any]] = field(default_factory=list)

    @property
    def link(self) -> str:
        return reverse("admin:jobexec_processes_processinstance_change", args=[self.row.pk])

    @property
    def state(self) -> str:
        """A class of the style sheet, too."""
        if self.incident:
            return "attention"
        return "requested" if self.row.state == "active" else "confirmed"


def latest(key: str) -> list[InstanceRow]:
    """The last instances of a process, the newest first, in a handful of statements."""
    rows = list(ProcessInstance.objects.filter(definition_key=key).order_by("-start_time", "-pk")[:SHOWN])
    ids = [row.pk for row in rows]
    found = {row.pk: InstanceRow(row, dict(row.final_variables or {}), []) for row in rows}
    for execution in Execution.objects.filter(instance_id__in=ids).exclude(state="scope").order_by("element_id"):
        found[execution.instance_id].waits_at.append(execution.element_id)
    for variable in Variable.objects.filter(instance_id__in=ids):
        found[variable.instance_id].variables[variable.name] = variable.value
    for task in UserTask.objects.filter(instance_id__in=ids):
        found[task.instance_id].task = task
    for dead in DeadLetterJob.objects.filter(process_instance_id__in=[str(pk) for pk in ids]):
        found[_instance(dead, ids)].incident = dead.exception_message
    if key == "travel":
        for each in found.values():
            each.lanes = lanes(each)
    return list(found.values())


def _instance(dead: DeadLetterJob, ids: list[Any]) -> Any:
    return next(pk for pk in ids if str(pk) == dead.process_instance_id)


def lanes(instance: InstanceRow) -> list[dict[str, Any]]:
    """Where the bars of the three services begin and end, and how often each was called."""
    times = {
        name: (datetime.fromisoformat(value["from"]), datetime.fromisoformat(value["to"]))
        for name in LANES
        if isinstance(value := instance.variables.get(name), dict)
    }
    if not times:
        return []
    first, last = min(begin for begin, _ in times.values()), max(end for _, end in times.values())
    scale = _WIDTH / max((last - first).total_seconds(), 0.001)
    return [
        {
            "name": name,
            "calls": len(calls(instance.row.pk, name)),
            "x": round((times[name][0] - first).total_seconds() * scale, 1),
            "width": max(round((times[name][1] - times[name][0]).total_seconds() * scale, 1), 2.0),
            "y": 10 * number,
        }
        for number, name in enumerate(LANES)
        if name in times
    ]


def processes() -> list[dict[str, Any]]:
    """One row for each process: how its instances have ended, or where they wait; the reckoning of `demo --once`."""
    return [_process(key) for key in KEYS]


def _process(key: str) -> dict[str, Any]:
    rows = ProcessInstance.objects.filter(definition_key=key)
    active = [str(pk) for pk in rows.filter(state="active").values_list("pk", flat=True)]
    incidents = DeadLetterJob.objects.filter(process_instance_id__in=active).values("process_instance_id").distinct()
    ended = rows.exclude(state="active").order_by("end_element").values_list("end_element", flat=True)
    return {
        "process": key,
        "instances": rows.count(),
        "ended": {element or "-": list(ended).count(element) for element in sorted(set(ended))},
        "waiting": len(active) - incidents.count(),
        "incidents": incidents.count(),
    }


def problems() -> list[str]:
    """What must not be: a service of a trip that was called twice, or a join that was passed without it."""
    found = []
    for row in ProcessInstance.objects.filter(definition_key="travel"):
        for name in LANES:
            count = len(calls(row.pk, name))
            if count > 1 or (row.state == "completed" and count != 1):
                found.append(f"{row.business_key}: the service of {name} was called {count} times")
    return found
