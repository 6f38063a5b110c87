"""The tables in Django's admin, found by its autodiscovery: one module per table.

Nothing here changes a job row directly: every action calls a verb of ``jobexec.operations``.
"""

from .batches import batch
from .definitions import job_definition, suspension
from .gateway_clients import external_worker, gateway_client
from .history import audit_log, failure_group, history_job, incident, job_log, task_result
from .jobs import (
    blocked_job,
    dead_letter_job,
    exclusive_lock,
    external_worker_job,
    job,
    job_key,
    resource,
    suspended_job,
    timer_job,
)
from .messages import message
from .nodes import deployment, executor_node
from .schedules import schedule

__all__ = [
    "audit_log",
    "batch",
    "blocked_job",
    "dead_letter_job",
    "deployment",
    "exclusive_lock",
    "executor_node",
    "external_worker",
    "external_worker_job",
    "failure_group",
    "gateway_client",
    "history_job",
    "incident",
    "job",
    "job_definition",
    "job_key",
    "job_log",
    "message",
    "resource",
    "schedule",
    "suspended_job",
    "suspension",
    "task_result",
    "timer_job",
]
