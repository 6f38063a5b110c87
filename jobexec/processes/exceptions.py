"""The exceptions of processes, in addition to InvalidProcess (of a definition) and BpmnError (of the business)."""

from __future__ import annotations

from django.core.exceptions import PermissionDenied

from jobexec.exceptions import JobExecError, NotAllowed

from .engine.exceptions import StepError as StepError
from .engine.exceptions import UncaughtError as UncaughtError


class UnknownProcess(JobExecError):
    """No process is deployed under this key."""


class MismatchingMessage(JobExecError):
    """A message must match exactly one instance that waits for it, but matches none or several."""


class TaskOver(JobExecError):
    """The user task is done, or another user has it."""


class NotCandidate(NotAllowed, PermissionDenied):
    """The user is none of the candidates of the user task. In a Django view, a response with status 403."""


class InstanceOver(JobExecError):
    """The process instance has ended or does not exist."""


class InstanceRunning(JobExecError):
    """The process instance has not ended yet."""


class InstanceBusy(JobExecError):
    """Another step of the process instance takes longer than LOCK_TIMEOUT; nothing has happened."""


class Suspended(JobExecError):
    """The process definition, the instance or its tenant is suspended (Camunda: SuspendedEntityInteraction)."""
