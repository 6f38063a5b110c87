"""The tables. A table of jobs is a state."""

from .audit_log import AuditLog, OperatorType
from .base import SHARED_COLUMNS, AbstractJob, JobType
from .batch import BATCH_HANDLERS, Batch, BatchFailure, BatchPart, BatchState, BatchTally
from .dead_letter_job import DeadLetterJob
from .definitions import Deployment, DeploymentRegistration, JobDefinition
from .executor_node import ExecutorNode, NodeState
from .external_worker_job import ExternalWorkerJob, KeyBlock
from .figures import AlertedGroup, FailureGroup, MeterLog
from .gateway_client import ExternalWorker, GatewayClient
from .history_job import HistoryJob
from .incident import Incident, IncidentState
from .job import Job
from .job_key import JobKey
from .job_log import JobLog, LogState
from .job_progress import JobProgress
from .locks import AcquisitionLock, ExclusiveLock
from .message import Message
from .resource import BreakerState, Resource
from .schedule import WITHDRAWN, Misfire, Schedule, ScheduleFiring
from .suspension import Suspension, SuspensionScope
from .task_result import KEPT_BY_JOB, ResultStatus, TaskResult
from .waiting_jobs import BlockedJob, SuspendedJob, TimerJob

#: The tables of jobs whose handler is in Django, in whatever state.
HANDLER_TABLES: tuple[type[AbstractJob], ...] = (Job, TimerJob, BlockedJob, SuspendedJob, DeadLetterJob)
JOB_TABLES: tuple[type[AbstractJob], ...] = (*HANDLER_TABLES, ExternalWorkerJob)
RUNNABLE_TABLES = tuple(table for table in JOB_TABLES if table.runnable)
#: The tables of jobs that wait or run, also of those that are held back.
WAITING_TABLES = tuple(table for table in JOB_TABLES if not table.dead)
#: The tables with jobs that workers know by a key: the one from which they fetch, and those in which they wait.
EXTERNAL_TABLES = tuple(table for table in reversed(JOB_TABLES) if table is not Job)

__all__ = [
    "BATCH_HANDLERS",
    "EXTERNAL_TABLES",
    "HANDLER_TABLES",
    "JOB_TABLES",
    "KEPT_BY_JOB",
    "RUNNABLE_TABLES",
    "SHARED_COLUMNS",
    "WAITING_TABLES",
    "WITHDRAWN",
    "AbstractJob",
    "AcquisitionLock",
    "AlertedGroup",
    "AuditLog",
    "Batch",
    "BatchFailure",
    "BatchPart",
    "BatchState",
    "BatchTally",
    "BlockedJob",
    "BreakerState",
    "DeadLetterJob",
    "Deployment",
    "DeploymentRegistration",
    "ExclusiveLock",
    "ExecutorNode",
    "ExternalWorker",
    "ExternalWorkerJob",
    "FailureGroup",
    "GatewayClient",
    "HistoryJob",
    "Incident",
    "IncidentState",
    "Job",
    "JobDefinition",
    "JobKey",
    "JobLog",
    "JobProgress",
    "JobType",
    "KeyBlock",
    "LogState",
    "Message",
    "MeterLog",
    "Misfire",
    "NodeState",
    "OperatorType",
    "Resource",
    "ResultStatus",
    "Schedule",
    "ScheduleFiring",
    "SuspendedJob",
    "Suspension",
    "SuspensionScope",
    "TaskResult",
    "TimerJob",
]
