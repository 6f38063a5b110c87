"""All exceptions of jobexec, including those that a handler may raise to control its retries.

One small tree. The first paragraph of a class's docstring is the message of an instance created without one, so that
``raise LockLost`` already explains itself.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterable
from datetime import datetime, timedelta
from functools import partial
from typing import Any
from uuid import UUID

from django.core.exceptions import ImproperlyConfigured, PermissionDenied


class JobExecError(Exception):
    """Something in the job executor went wrong."""

    def __init__(self, *args: object) -> None:
        super().__init__(*(args or (self.default_message(),)))

    @classmethod
    def default_message(cls) -> str:
        """The first paragraph of the docstring (or of the nearest ancestor's) on one line."""
        paragraph = (inspect.getdoc(cls) or cls.__name__).split("\n\n")[0]
        return " ".join(paragraph.split())


class InvalidSettings(JobExecError, ImproperlyConfigured):
    """The JOBEXEC setting is not valid."""

    def __init__(self, *args: object, problems: Iterable[object] = ()) -> None:
        super().__init__(*args)
        #: What the message lists, if it lists anything.
        self.problems = tuple(map(str, problems))


class InvalidJob(JobExecError, ValueError):
    """A job cannot be created from these arguments and options.

    Raised at enqueue, before anything is written: arguments that are not JSON, a naive datetime, an unknown option or
    category.
    """


class DuplicateJob(JobExecError):
    """A job with this unique key exists already.

    Raised with ``on_conflict="raise"``, and for a dead letter that cannot be requeued because another job has its key.
    ``handler_type`` and ``key`` are the key, ``job_id`` is the job that has it. Nothing was inserted or moved, and the
    transaction remains usable.
    """

    handler_type: str
    key: str
    job_id: UUID

    def __init__(self, handler_type: str, key: str, job_id: UUID) -> None:
        self.handler_type, self.key, self.job_id = handler_type, key, job_id
        super().__init__(f"{handler_type}: the key {key!r} is taken by the job {job_id}.")

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.handler_type, self.key, self.job_id)


class UnreadableJob(InvalidJob):
    """The row of a job cannot be read.

    It becomes a dead letter at once: another try would not change the row.
    """


class DecryptionFailed(UnreadableJob):
    """Encrypted data cannot be read: its key is missing, or it was changed.

    ``key`` is the id of the key, in ENCRYPTION_KEYS or not.
    """

    key: str

    def __init__(self, message: str = "", key: str = "") -> None:
        self.key = key
        super().__init__(*([message] if message else []))

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (str(self), self.key)


class NotDecryptableYet(JobExecError):
    """Encrypted data cannot be read by this process yet.

    It is from a later release, or its key cannot be loaded at the moment. A job waits for 30 seconds and loses nothing.
    ``key`` is the id of its key.
    """

    key: str

    def __init__(self, message: str = "", key: str = "") -> None:
        self.key = key
        super().__init__(*([message] if message else []))

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (str(self), self.key)


class InvalidSchedule(InvalidJob):
    """A recurring schedule cannot be saved.

    ``field`` is the invalid field: ``name``, ``handler_type``, ``expression``, ``timezone``, ``misfire``, ``args`` or
    ``options``. The message begins with it.
    """

    def __init__(self, message: str = "", field: str = "expression") -> None:
        self.field = field
        super().__init__(*([message] if message else []))


class InvalidQuery(JobExecError, ValueError):
    """A query for jobs cannot be understood."""


class InvalidRetryPlan(JobExecError, ValueError):
    """A retry plan or delay cannot be understood."""


class HandlerNotFound(JobExecError, LookupError):
    """No handler of this type is registered in this process."""


class DuplicateHandler(JobExecError):
    """Two handlers are registered under the same name."""


class JobNotFound(JobExecError, LookupError):
    """There is no such job in any of the job tables."""


class AlertFailed(JobExecError):
    """An alert about dead letters was not accepted."""


class ResultDoesNotExist(JobExecError, LookupError):
    """There is no result: the job does not exist or does not keep its result, or the result has expired."""


class JobStateError(JobExecError):
    """Refused because of the state of the job."""


class StaleLease(JobStateError):
    """Refused because the job is leased to another fetch, and the lease token is not that of the last one."""


class WrongWorker(JobExecError):
    """Refused because the job was last fetched by another worker."""


class NotAllowed(JobExecError):
    """Refused because the client has no permission to do that."""


class NotAuthorized(NotAllowed, PermissionDenied):
    """The policy in AUTHORIZATION refuses this.

    Nothing was written, except a line in the audit log. In a Django view, it results in a response with status 403.
    """


class InvalidClient(JobExecError, ValueError):
    """A client of the gateways cannot be saved.

    ``field`` is the invalid field: ``name``, ``types``, ``tenants``, ``permissions``, ``max_requests_per_second``,
    ``expiration_time`` or ``enabled``. The message begins with it.
    """

    def __init__(self, message: str = "", field: str = "name") -> None:
        self.field = field
        super().__init__(*([message] if message else []))


class ClientNotFound(JobExecError, LookupError):
    """There is no client with this name."""


class Unauthenticated(JobExecError):
    """The credentials are missing or not valid."""


class TooManyRequests(JobExecError):
    """The client sends more requests than allowed.

    ``retry_after``: in how many seconds the next request will be accepted.
    """

    retry_after: float

    def __init__(self, message: str = "", retry_after: float = 1.0) -> None:
        self.retry_after = retry_after
        super().__init__(*([message] if message else []))


class MessageExists(JobExecError):
    """A client of a gateway has published a message whose message id exists already."""


class TooManyMessages(TooManyRequests):
    """As many messages are kept as MESSAGE_MAX_KEPT allows; the message was not published."""


class IncidentNotFound(JobExecError, LookupError):
    """There is no such incident."""


class ScheduleNotFound(JobExecError, LookupError):
    """There is no schedule with this name."""


class BatchNotFound(JobExecError, LookupError):
    """There is no such batch."""


class BatchOver(JobExecError):
    """Refused because the batch is over."""


class BatchSealed(JobExecError):
    """Refused because the batch is sealed: it takes no more jobs."""


class JobLocked(JobExecError):
    """Refused because the job is running."""


class LockLost(JobExecError):
    """The job is no longer locked by this node, so this outcome is discarded."""


class NodeRefused(JobExecError):
    """The executor cannot start: an option, a port or a database prevents it."""


class WorkerLost(JobExecError):
    """The process died while it ran this job."""


class WorkerFailed(JobExecError):
    """An external worker has reported a failure.

    Never raised: it is the ``error`` of the signals that report it.
    """


class ErrorThrown(JobExecError):
    """An external worker has thrown an error.

    ``code`` identifies it. Never raised: it is the ``error`` of the signals that report it.
    """

    code: str
    #: The type of the external job, which differs from that of the job that runs its ``on_error``.
    job_type: str = ""

    def __init__(self, code: str = "", message: str = "") -> None:
        self.code, self.message = code, message
        super().__init__(*filter(None, [": ".join(filter(None, (code, message)))]))

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.code, self.message)


class JobTimeout(JobExecError):
    """The job ran longer than its timeout."""


class JobCancelled(JobExecError):
    """The job was cancelled.

    A handler may raise it: the job is then removed, without a failure and whatever retries it has left. (Own decision;
    Ratchet discards the result of a job that was cancelled while it ran.)
    """


class DoNotRetry(JobExecError):
    """The job must not be tried again.

    Raised by a handler: the job becomes a dead letter at once, whatever retries it has left. (Own decision; in Flowable
    and Camunda only setting retries to 0 has this effect.)
    """


class JobExpired(JobCancelled):
    """The job had not started by the time of its option ``expires``, so it was cancelled."""


class RetryIn(JobExecError):
    """The job asks to be tried again after a delay.

    Raised by a handler. It counts as a failure and costs a retry; only the time of the next attempt is set by the
    handler instead of the retry plan. (Zeebe: ``retryBackOff`` of the fail command.) With ``count=False`` it is not a
    failure and costs no retry: the job only waits for something that is not available yet. (Oban: snooze.) After
    MAX_SNOOZES times, it counts anyway.

    ``delay`` is a timedelta or a number of seconds, at least 0. Raises InvalidRetryPlan for anything else.
    """

    delay: timedelta
    reason: str
    count: bool

    def __init__(self, delay: timedelta | float, reason: str = "", *, count: bool = True) -> None:
        self.delay = _delay(delay)
        self.reason = reason
        self.count = count
        super().__init__(reason or f"Try again in {self.delay}.")

    def __reduce__(self) -> tuple[Any, ...]:
        # Exception rebuilds itself from args, which here is the message instead of __init__'s arguments.
        return partial(type(self), count=self.count), (self.delay, self.reason)


class RetryAt(JobExecError):
    """The job asks to be tried again at a given time.

    Like :class:`RetryIn`, with an aware datetime ``when``; a time in the past means immediately. Raises
    InvalidRetryPlan for a naive datetime, because it would mean a different moment on nodes in different time zones.
    """

    when: datetime
    reason: str
    count: bool

    def __init__(self, when: datetime, reason: str = "", *, count: bool = True) -> None:
        if not isinstance(when, datetime) or when.utcoffset() is None:
            raise InvalidRetryPlan(f"RetryAt expects an aware datetime, got {when!r}.")
        self.when = when
        self.reason = reason
        self.count = count
        super().__init__(reason or f"Try again at {when.isoformat()}.")

    def __reduce__(self) -> tuple[Any, ...]:
        return partial(type(self), count=self.count), (self.when, self.reason)


def _delay(value: timedelta | float) -> timedelta:
    message = f"RetryIn expects a timedelta or a number of seconds, at least 0, got {value!r}."
    if isinstance(value, bool) or not isinstance(value, (timedelta, int, float)):
        raise InvalidRetryPlan(message)
    try:
        delay = value if isinstance(value, timedelta) else timedelta(seconds=value)
    except (OverflowError, ValueError) as error:
        raise InvalidRetryPlan(message) from error
    if delay < timedelta(0):
        raise InvalidRetryPlan(message)
    return delay
