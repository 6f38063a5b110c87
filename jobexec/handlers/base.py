"""The interface between the executor and handlers."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, runtime_checkable

from jobexec.exceptions import JobExecError
from jobexec.retry import RetryPlan

from .context import JobContext

if TYPE_CHECKING:
    from uuid import UUID

    from jobexec.operations.values.acquired_job import AcquiredJob
    from jobexec.operations.values.failure import Failure


class NotBegun(JobExecError):
    """The database was away before the function was called.

    For handlers that look something up first: the job is released and loses no retry. No code of the project that must
    not run again may have run.
    """


#: Called with the database and what ended: each job, and the ``value`` of its :class:`SharedEnd`. Its transaction then
#: deletes these jobs. Returns the ids of those that have to wait, because others hold rows that they need.
WriteEnds: TypeAlias = "Callable[[str, Sequence[tuple[AcquiredJob, Any]]], Collection[UUID]]"


@dataclass(frozen=True, slots=True)
class SharedEnd:
    """What a handler may set as :attr:`.JobContext.shared_end`: what remains to be written, with that of other runs.

    ``write`` must wait for no lock, and call no code of the project: meanwhile nothing else that ends so is written. If
    it raises, it is called again for each run alone, and what it then raises is the failure of that run.
    """

    write: WriteEnds
    value: Any


#: An attribute ``look_ahead`` of a handler. For several jobs of a database at once, it looks up what the handler needs
#: before each run, and sets ``ahead`` of those for which it has found it. The others look it up themselves.
LookAhead: TypeAlias = "Callable[[str, Sequence[AcquiredJob]], None]"


class RunGroup(Protocol):
    """Runs of one handler in one transaction, one after the other, each of which has this as its ``context.group``.

    All waits for others come before the first run. After an error in :meth:`undo` or :meth:`end`, everything is rolled
    back, and each job runs alone.
    """

    def takes(self, arguments: Any) -> bool:
        """Whether the job with these arguments runs in the group; the others run alone after it."""
        ...

    def undo(self) -> None:
        """The present run has failed, and what it has written is undone. Its failure counts, and so do the others."""
        ...

    def end(self) -> None:
        """Write what the runs have left to be written together."""
        ...


#: Begins a group in a transaction of a database; None if these jobs, with their arguments, have to run alone.
BeginGroup: TypeAlias = "Callable[[str, Sequence[tuple[AcquiredJob, Any]]], RunGroup | None]"


class JobHandler(Protocol):
    """Runs the jobs of one ``handler_type``.

    ``name`` is stored in rows; ``aliases`` are its earlier names. ``retry_plan`` is used for a row without its own plan
    (a callable plan cannot be stored).
    """

    @property
    def name(self) -> str: ...

    @property
    def aliases(self) -> Sequence[str]: ...

    @property
    def retry_plan(self) -> RetryPlan | None: ...

    def definition(self) -> dict[str, Any]:
        """The columns of this handler's JobDefinition."""
        ...

    def read(self, configuration: str) -> Any:
        """The arguments in the JSON text of a row. Raises :class:`~jobexec.exceptions.UnreadableJob`."""
        ...

    def execute(self, context: JobContext, arguments: Any) -> Any:
        """Do the work; returns what the function returns, raises what it raises."""
        ...


@runtime_checkable
class NamesArguments(Protocol):
    """A handler that knows the names of its arguments, and which of them are sensitive."""

    def sensitive_names(self) -> Sequence[str]:
        """Names of arguments whose values are never shown."""
        ...

    def names_of(self, count: int) -> Sequence[str]:
        """The names of ``count`` positional arguments."""
        ...


@runtime_checkable
class AsyncJobHandler(JobHandler, Protocol):
    """A handler that can run on an event loop beside others, without its own thread.

    ``is_async`` is whether this one can. ``execute`` must do the same in a thread: it is used for an ``atomic`` job, a
    job whose process died while running it, and "execute now".
    """

    is_async: bool

    def execute_async(self, context: JobContext, arguments: Any) -> Awaitable[Any]:
        """Do the work; awaiting it returns and raises what :meth:`execute` would."""
        ...


@runtime_checkable
class ResultHandler(JobHandler, Protocol):
    """A handler whose return value is kept: a row of TaskResult is written with the end of each attempt.

    ``keeps_result`` is whether this one's is kept, ``keep_for`` how long, if not for RESULT_TTL. The rows of its jobs
    name a ``task_backend``.
    """

    keeps_result: bool
    keep_for: timedelta | None

    def encode_result(self, value: Any) -> str:
        """The JSON of the return value; called in the thread that ran the function, before anything is committed.

        Raises :class:`~jobexec.exceptions.DoNotRetry` if it cannot be stored: another run would only repeat the
        function's effects. See :func:`jobexec.operations.tasks.return_values.encode_return_value`.
        """
        ...

    def finished(self, work: Any, using: str, failure: Failure | None) -> None:
        """Called by the executor after the commit of a success or of the last failure; an error in it is logged.

        ``work`` has the ``id`` and the ``handler_type`` of the job; ``failure`` is None after a success. Jobs ended by
        an operation, without a run, are reported by :data:`jobexec.operations.history.task_attempts.task_ended`.
        """
        ...
