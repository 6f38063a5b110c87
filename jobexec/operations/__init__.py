"""Operations on job rows: the only code that changes them (Camunda: the ManagementService).

Every function takes ``using`` (a database alias), rows, ids or a queryset, works in the caller's transaction or in
its own, and is independent of handlers and threads.
"""

from .acquire.acquire import acquire_jobs
from .audit import acting
from .batches.control import (
    BatchProgress,
    activate_batch,
    batch_progress,
    cancel_batch,
    delete_batch,
    start_batch,
    suspend_batch,
)
from .batches.definitions import clear_overriding_priority, override_priority, set_retries_by_definition
from .batches.of_jobs import retry_batch, seal_batch
from .enqueue.create import create_job, create_jobs
from .history.incidents import annotate_incident
from .history.job_log import job_log, stack_trace
from .maintenance.alert_delivery import send_test_alert
from .maintenance.cleanup import clean_up_history
from .maintenance.dead_letter_alerts import alert_dead_letters
from .maintenance.timers import next_due_date, trigger_due_timers
from .manage.adjust import delete_jobs, requeue, retry_now, set_due_date, set_priority, set_retries
from .manage.cancel import cancel
from .manage.dead_letters import move_to_dead_letter
from .manage.due_dates import recalculate_due_date
from .manage.failure_groups import (
    acknowledge_failure_groups,
    assign_failure_groups,
    reopen_failure_groups,
    snooze_failure_groups,
)
from .manage.nodes import drain_nodes, pause_nodes, resume_nodes
from .manage.reencrypt import reencrypt
from .manage.resources import hold_resource, release_resource, set_resource_limits
from .manage.suspend import activate, lift, suspend
from .manage.suspension_sweep import next_suspension_date, sweep_suspensions
from .manage.unlock import unlock
from .manage.waits import end_wait
from .messages.publish import publish_message
from .nodes.deployments import (
    deploy,
    register_deployment,
    register_own_deployment,
    registered_deployments,
    retire_deployments,
    retire_registrations,
    unregister_deployment,
)
from .settle.complete import complete_jobs
from .settle.fail import fail_job, fail_jobs
from .settle.recover import recover_expired_locks, recover_node
from .settle.release import release_jobs
from .targets.for_each import OperationResult
from .targets.lookup import find_job, find_states
from .values.operator import AuthorizationRequest, Operator

__all__ = [
    "AuthorizationRequest",
    "BatchProgress",
    "OperationResult",
    "Operator",
    "acknowledge_failure_groups",
    "acquire_jobs",
    "acting",
    "activate",
    "activate_batch",
    "alert_dead_letters",
    "annotate_incident",
    "assign_failure_groups",
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
    "drain_nodes",
    "end_wait",
    "fail_job",
    "fail_jobs",
    "find_job",
    "find_states",
    "hold_resource",
    "job_log",
    "lift",
    "move_to_dead_letter",
    "next_due_date",
    "next_suspension_date",
    "override_priority",
    "pause_nodes",
    "publish_message",
    "recalculate_due_date",
    "recover_expired_locks",
    "recover_node",
    "reencrypt",
    "register_deployment",
    "register_own_deployment",
    "registered_deployments",
    "release_jobs",
    "release_resource",
    "reopen_failure_groups",
    "requeue",
    "resume_nodes",
    "retire_deployments",
    "retire_registrations",
    "retry_batch",
    "retry_now",
    "seal_batch",
    "send_test_alert",
    "set_due_date",
    "set_priority",
    "set_resource_limits",
    "set_retries",
    "set_retries_by_definition",
    "snooze_failure_groups",
    "stack_trace",
    "start_batch",
    "suspend",
    "suspend_batch",
    "sweep_suspensions",
    "trigger_due_timers",
    "unlock",
    "unregister_deployment",
]
