"""Start events that wait for something: those of the latest version of a process."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, TypeAlias
from uuid import UUID

from jobexec import clock
from jobexec.exceptions import InvalidJob
from jobexec.models import JOB_TABLES
from jobexec.operations.enqueue.create import create_jobs
from jobexec.operations.rows.remove import remove_cancelled
from jobexec.operations.sql.delete import delete_rows
from jobexec.operations.sql.locks import lock_rows

from ..definition import Event, Expression, InvalidProcess, Node, Problem, Process, TimerKind, Trigger
from ..engine.exceptions import StepError
from ..engine.rows import Timer
from ..expressions import EvaluationContext, EvaluationError, parse
from ..models import EventSubscription, ProcessDefinition
from .columns import job_definition_id, option_columns
from .timers import first, local_now, of_cycle

_Functions: TypeAlias = Mapping[str, Callable[..., Any]]
#: Starts an instance at a time.
START = "jobexec.processes.start"
_SUBSCRIBED = {Trigger.MESSAGE: "message", Trigger.SIGNAL: "signal"}


def arm_starts(using: str, row: ProcessDefinition, process: Process, functions: _Functions) -> None:
    """Let the start events of a new version wait instead of those of the version before.

    ``functions`` are those that their expressions may call.
    """
    context = EvaluationContext(functions, now=partial(local_now, using))
    waiting = _disarm(using, row, process, context)
    now = clock.now(using)
    for node in process.start_events(None):
        event = node.event
        if event is None:
            continue
        if event.trigger is Trigger.TIMER:
            try:
                _arm_timer(using, row, node, event, process, context)
            except (StepError, InvalidJob) as error:  # what an expression has given
                message = error.message if isinstance(error, StepError) else str(error)
                raise InvalidProcess([Problem(node.id, message, node.line)]) from error
        elif event.trigger in _SUBSCRIBED:
            columns = {"element_id": node.id, "definition_id": row.pk, "create_time": now}
            kind, name = _subscribed(node, event, context)
            kept = waiting.pop((kind, name), None)
            if kept is not None:
                EventSubscription.objects.using(using).filter(pk=kept).update(**columns)
                continue
            made = EventSubscription(kind=kind, name=name, tenant_id=row.tenant_id, **columns)
            made.save(using=using, force_insert=True)


def _subscribed(node: Node, event: Event, context: EvaluationContext) -> tuple[str, str]:
    return _SUBSCRIBED[event.trigger], str(_constant(node, event.name, context))


def _disarm(
    using: str, row: ProcessDefinition, process: Process, context: EvaluationContext
) -> dict[tuple[str, str], UUID]:
    """Let no other version of one key and tenant wait for anything.

    Returns the subscriptions, by kind and name, that the new version takes over: jobs may have to deliver to them what
    has come while the process was suspended.
    """
    rows = ProcessDefinition.objects.using(using).filter(key=row.key, tenant_id=row.tenant_id).exclude(pk=row.pk)
    ids = list(rows.values_list("pk", flat=True))
    wanted = {
        _subscribed(node, node.event, context)
        for node in process.start_events(None)
        if node.event is not None and node.event.trigger in _SUBSCRIBED
    }
    before = EventSubscription.objects.using(using).filter(definition_id__in=ids, instance_id__isnull=True)
    found = {(kind, name): pk for pk, kind, name in before.values_list("pk", "kind", "name")}
    taken = {which: pk for which, pk in found.items() if which in wanted}
    delete_rows(before.exclude(pk__in=taken.values()))
    for table in JOB_TABLES:
        jobs = table._base_manager.using(using).filter(
            process_definition_key=row.key, tenant_id=row.tenant_id, handler_type=START, lock_owner=None
        )
        if timers := list(lock_rows(jobs.order_by("pk"), skip_locked=True)):
            remove_cancelled(using, timers)
    return taken


def is_replaced(using: str, definition: str) -> bool:
    """Whether a later version has its own timers: who deployed it could not remove that of a job which ran then."""
    rows = ProcessDefinition.objects.using(using)
    row = rows.get(pk=definition)
    return rows.filter(key=row.key, tenant_id=row.tenant_id, version__gt=row.version).exists()


def _arm_timer(
    using: str, row: ProcessDefinition, node: Node, event: Event, process: Process, context: EvaluationContext
) -> None:
    kind = event.timer or TimerKind.DURATION
    timer = Timer(kind, _constant(node, event.when, context), repeats=kind is TimerKind.CYCLE)
    due, repeat = first(node.id, timer, clock.now(using))
    kwargs = {"definition": row.pk, "element": node.id, **of_cycle(repeat, due)}
    columns = {
        "handler_type": START,
        "handler_configuration": {"args": [], "kwargs": kwargs},
        "process_definition_id": row.pk,
        "process_definition_key": row.key,
        "job_definition_id": job_definition_id(row.key, node.id, "timer"),
        "failed_activity_id": node.id,
        "tenant_id": row.tenant_id,
        "atomic": True,
        "exclusive": False,
        "due_date": due,
        **({"deployment_id": row.code_deployment} if row.code_deployment else {}),
        **_options(node, process, context),
    }
    create_jobs(using, [columns])


def _options(node: Node, process: Process, context: EvaluationContext) -> dict[str, Any]:
    plan = node.jobs.retry_plan if node.jobs.retry_plan is not None else process.retry_plan
    priority = node.jobs.priority if node.jobs.priority is not None else process.priority
    given = (_constant(node, value, context) for value in (plan, priority, node.jobs.category))
    return option_columns(node.id, *given)


def _constant(node: Node, value: object, context: EvaluationContext) -> object:
    """No variables are there before an instance is: an expression may only call functions."""
    if not isinstance(value, Expression):
        return value
    parsed = parse(value.text, value.language.value)
    try:
        return parsed.evaluate({}, context)
    except EvaluationError as error:
        why = "Before an instance there are no variables: " if parsed.needs_instance else ""
        raise InvalidProcess([Problem(node.id, f"{why}{error}", node.line)]) from None
