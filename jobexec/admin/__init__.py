"""The tables in Django's admin: found by its autodiscovery, one file a table.

An entrance like any other: nothing here changes a job row, every action calls a verb of ``jobexec.operations``.
"""

from . import (
    audit_log,
    batch,
    dead_letter_job,
    deployment,
    exclusive_lock,
    executor_node,
    external_worker,
    external_worker_job,
    failure_group,
    gateway_client,
    history_job,
    incident,
    job,
    job_definition,
    job_key,
    job_log,
    schedule,
    suspended_job,
    suspension,
    task_result,
    timer_job,
)

__all__ = [
    "audit_log",
    "batch",
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
    "schedule",
    "suspended_job",
    "suspension",
    "task_result",
    "timer_job",
]
