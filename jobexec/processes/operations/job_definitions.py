"""The job definitions of a process: one for each kind of job that one of its elements has (ACT_RU_JOBDEF).

Their ids are ``key#element#kind``, the same in all versions of a deployed process, and in all shapes of a flow. The
latest version that is deployed decides what they say, of a flow the latest shape that was new.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from jobexec.handlers.function import JobFunction
from jobexec.handlers.registry import registered
from jobexec.operations.nodes.deployments import write_job_definitions
from jobexec.retry import RetryPlan

from ..definition import JobOptions, Kind, Mode, Node, Process, Trigger, Value, Work
from ..engine.rows import JobKind
from ..handlers.registry import declared
from ..store.columns import INNER, MESSAGE, job_definition_id
from ..store.jobs import CONTINUE, RECEIVE, STEP, TIMER, step_columns
from ..store.starts import START


def record(using: str, process: Process, *, update: bool = True) -> None:
    """Write the rows of a process that is being deployed, in its transaction; what operators have set stays.

    Without ``update``, rows that are there stay as they are, and no other start waits for them.
    """
    write_job_definitions(job_definitions(process), using=using, update=update)


def job_definitions(process: Process) -> list[dict[str, Any]]:
    """The columns of each, in the order of the file."""
    return [row for node in process.nodes for row in _of_node(process, node)]


def _of_node(process: Process, node: Node) -> Iterator[dict[str, Any]]:
    inner = node.loop.jobs if node.loop is not None else node.jobs
    function = _function_of(node.work)
    if node.jobs.before or node.jobs.after:
        row = _row(process, node, JobKind.CONTINUE, CONTINUE, node.jobs)
        yield row if function is None or node.loop is not None else row | _of_function(function, node.jobs)
    if node.loop is not None and (inner.before or inner.after):
        row = _row(process, node, INNER, CONTINUE, inner)
        yield row if function is None else row | _of_function(function, inner)
    if node.trigger is Trigger.TIMER:
        starts = node.kind is Kind.START_EVENT and node.parent is None
        yield _row(process, node, JobKind.TIMER, START if starts else TIMER, node.jobs)
    if node.trigger is Trigger.MESSAGE and node.event is not None and node.event.key is not None:
        yield _row(process, node, MESSAGE, RECEIVE, node.jobs)
    if node.work is not None and node.work.handler is not None:
        handler, outside = node.work.handler, is_outside(node.work)
        kinds = [*([JobKind.RUN] if outside else []), *([JobKind.BATCH] if node.loop and node.loop.batch else [])]
        for kind in kinds:
            row = _row(process, node, kind, f"{STEP}{handler}", inner, atomic=not outside)
            yield row | _of_function(handler, inner)
    if node.work is not None and node.work.mode is Mode.EXTERNAL:
        topic = node.work.topic if isinstance(node.work.topic, str) else ""
        yield _row(process, node, JobKind.EXTERNAL, topic, inner, atomic=False)


def _function_of(work: Work | None) -> str | None:
    """The ``@job`` function that is called in the steps of an element, whose jobs have its options."""
    handler = work.called_in_step if work is not None else None
    return handler if handler is not None and isinstance(registered(handler), JobFunction) else None


def is_outside(work: Work) -> bool:
    """By the file, or by the function, as it is registered in the process that deploys."""
    handler = work.called_in_step
    return work.mode is Mode.OUTSIDE or (handler is not None and declared(handler).outside)


def _of_function(name: str, options: JobOptions) -> dict[str, Any]:
    """What a ``@job`` function says of its jobs, where the step does not."""
    columns = step_columns(name)
    given = {"priority": options.priority, "category": options.category, "retry_plan": options.retry_plan}
    return {column: columns[column] for column, value in given.items() if value is None and column in columns}


def _row(
    process: Process, node: Node, kind: str, handler: str, options: JobOptions, *, atomic: bool = True
) -> dict[str, Any]:
    """An expression has no value before there is a job, so its column has the default."""
    return {
        "id": job_definition_id(process.key, node.id, kind),
        "handler_type": handler,
        "process_definition_key": process.key,
        "category": options.category if isinstance(options.category, str) else "default",
        "priority": _number(options.priority if options.priority is not None else process.priority),
        "retry_plan": _plan(options.retry_plan if options.retry_plan is not None else process.retry_plan),
        "exclusive": options.exclusive and kind != JobKind.EXTERNAL,
        "atomic": atomic,
        "sensitive": [],
    }


def _number(value: Value) -> int:
    text = str(value).strip()
    return int(text) if text.removeprefix("-").isdecimal() else 0


def _plan(value: Value) -> str:
    return str(RetryPlan.parse(value)) if isinstance(value, str) and value else ""
