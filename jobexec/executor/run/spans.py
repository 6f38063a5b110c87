"""The attributes of a run's span."""

from __future__ import annotations

from typing import Any

from jobexec import tracing
from jobexec.operations.sql.errors import storable
from jobexec.operations.values.acquired_job import AcquiredJob
from jobexec.operations.values.failure import Failure

from .outcomes import Outcome


def begin_span(work: AcquiredJob, node_name: str) -> Any:
    """Start the span of a run; None if tracing is disabled."""
    attributes = {
        "messaging.system": "jobexec",
        "messaging.operation.name": "process",
        "messaging.operation.type": "process",
        "messaging.destination.name": work.category,
        "messaging.message.id": str(work.id),
        "messaging.client.id": node_name,
        "jobexec.handler_type": work.handler_type,
        "jobexec.attempt": work.attempts + 1,
        "jobexec.engine": work.using,
    }
    if work.tenant_id:
        attributes["jobexec.tenant_id"] = work.tenant_id
    if work.process_instance_id:
        attributes["jobexec.process_instance_id"] = work.process_instance_id
    return tracing.start(f"process {work.handler_type}", work.traceparent or "", attributes)


def end_span(outcome: Outcome) -> None:
    """End the run's span with its outcome, without sensitive values, as in the failure."""
    span, outcome.span = outcome.span, None
    if span is not None:
        failed = _exception(outcome.failure) if outcome.failure is not None else None
        tracing.finish(span, failed, {"jobexec.outcome": outcome.name})


def _exception(failure: Failure) -> dict[str, str] | None:
    if failure.kind in ("cancelled", "snoozed"):
        return None
    kind = type(failure.error) if failure.error is not None else None
    name = f"{kind.__module__}.{kind.__qualname__}".removeprefix("builtins.") if kind else failure.kind
    message = storable(failure.message)
    if kind:
        message = message.removeprefix(f"{kind.__name__}: ")
    return {"exception.type": name, "exception.message": message, "exception.stacktrace": storable(failure.stack)}
