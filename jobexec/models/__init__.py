"""The tables: a table is a state."""

from .acquisition_lock import AcquisitionLock
from .base import SHARED_COLUMNS, AbstractJob, JobType
from .dead_letter_job import DeadLetterJob
from .deployment import Deployment, DeploymentRegistration
from .exclusive_lock import ExclusiveLock
from .executor_node import ExecutorNode, NodeState
from .job import Job
from .job_definition import JobDefinition
from .job_log import JobLog, LogState
from .job_progress import JobProgress
from .suspended_job import SuspendedJob
from .suspension import Scope, Suspension
from .timer_job import TimerJob

JOB_TABLES: tuple[type[AbstractJob], ...] = (Job, TimerJob, SuspendedJob, DeadLetterJob)

__all__ = [
    "JOB_TABLES",
    "SHARED_COLUMNS",
    "AbstractJob",
    "AcquisitionLock",
    "DeadLetterJob",
    "Deployment",
    "DeploymentRegistration",
    "ExclusiveLock",
    "ExecutorNode",
    "Job",
    "JobDefinition",
    "JobLog",
    "JobProgress",
    "JobType",
    "LogState",
    "NodeState",
    "Scope",
    "SuspendedJob",
    "Suspension",
    "TimerJob",
]
