"""The verbs on job rows: the only code that changes them (Camunda: the ManagementService).

Every function takes ``using`` (a database alias), rows, ids or a queryset, works in the caller's transaction or in one
of its own, and knows nothing of handlers or threads.
"""

from .acquire import acquire_jobs
from .adjust import delete_jobs, requeue, retry_now, set_due_date, set_priority, set_retries
from .audit import Operator, acting
from .batches import (
    BatchProgress,
    activate_batch,
    batch_progress,
    cancel_batch,
    delete_batch,
    start_batch,
    suspend_batch,
)
from .cancel import cancel
from .cleanup import clean_up_history
from .complete import complete_jobs
from .create import create_job, create_jobs
from .dead_letters import move_to_dead_letter
from .definitions import clear_overriding_priority, override_priority, set_retries_by_definition
from .deployments import (
    deploy,
    register_deployment,
    register_own_deployment,
    registered_deployments,
    retire_deployments,
    retire_registrations,
    unregister_deployment,
)
from .due_dates import recalculate_due_date
from .history import job_log, stack_trace
from .incidents import annotate_incident
from .lookup import find_job, find_states
from .recover import recover_expired_locks, recover_node
from .release import release_jobs
from .selection import OperationResult
from .settle import fail_job, fail_jobs
from .suspend import activate, lift, suspend
from .sweep import next_suspension_date, sweep_suspensions
from .timers import next_due_date, trigger_due_timers
from .unlock import unlock

__all__ = [
    "BatchProgress",
    "OperationResult",
    "Operator",
    "acquire_jobs",
    "acting",
    "activate",
    "activate_batch",
    "annotate_incident",
    "batch_progress",
    "cancel",
    "cancel_batch",
    "clean_up_history",
    "clear_overriding_priority",
    "complete_jobs",
    "create_job",
    "create_jobs",
    "delete_batch",
    "delete_jobs",
    "deploy",
    "fail_job",
    "fail_jobs",
    "find_job",
    "find_states",
    "job_log",
    "lift",
    "move_to_dead_letter",
    "next_due_date",
    "next_suspension_date",
    "override_priority",
    "recalculate_due_date",
    "recover_expired_locks",
    "recover_node",
    "register_deployment",
    "register_own_deployment",
    "registered_deployments",
    "release_jobs",
    "requeue",
    "retire_deployments",
    "retire_registrations",
    "retry_now",
    "set_due_date",
    "set_priority",
    "set_retries",
    "set_retries_by_definition",
    "stack_trace",
    "start_batch",
    "suspend",
    "suspend_batch",
    "sweep_suspensions",
    "trigger_due_timers",
    "unlock",
    "unregister_deployment",
]
