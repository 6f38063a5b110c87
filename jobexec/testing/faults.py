"""Failures on demand: each happens where it would happen in production, with the same consequences.

All are context managers for a block in which a :class:`~jobexec.testing.ManualExecutor` runs jobs. If the fault has not
happened by the end of the block, AssertionError is raised: a test must not pass because nothing went wrong.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Literal, TypeAlias
from uuid import UUID

from django.db import OperationalError, connections

from jobexec.conf import get_settings
from jobexec.identifiers import uuid7
from jobexec.models import AbstractJob, Job
from jobexec.operations.rows.exclusive import lock_instances
from jobexec.operations.settle.recover import lock_for, recover_job, release_owned
from jobexec.operations.values.acquired_job import AcquiredJob

from .commits import own_transaction
from .targets import Target, handler_name

#: When a fault happens: just before the handler is called, or when it has ended and nothing is written yet.
Moment: TypeAlias = Literal["begins", "ends"]


class NodeKilled(BaseException):
    """Raised by :func:`kill_node` to end the run as a killed process would, and caught by it."""


class Fault(ABC):
    """A fault of the selected jobs, a given number of times."""

    def __init__(self, name: str, which: Target | AbstractJob | UUID | None, moment: Moment, times: int = 1) -> None:
        if times < 1:
            raise ValueError(f"{name}: times: expected a whole number of at least 1, got {times!r}.")
        self.name, self.moment, self.left = name, moment, times
        self.id = which.pk if isinstance(which, AbstractJob) else which if isinstance(which, UUID) else None
        self.handler = None if which is None or self.id is not None else handler_name(which)  # type: ignore[arg-type]

    def concerns(self, moment: Moment, work: AcquiredJob) -> bool:
        if moment != self.moment or not self.left:
            return False
        if self.id is not None:
            return work.id == self.id
        return self.handler in (None, work.handler_type)

    @abstractmethod
    def happen(self, work: AcquiredJob) -> None:
        """Cause the fault for this job, now."""

    def repeat(self, work: AcquiredJob) -> None:  # noqa: B027 - most faults leave nothing in the database
        """Cause it again: the transaction in which it happened was rolled back."""

    @contextmanager
    def active(self) -> Iterator[None]:
        _active.append(self)
        try:
            yield
        finally:
            _active.remove(self)
        if self.left:
            of = self.handler or self.id
            raise AssertionError(
                f"{self.name}: no job{f' {of}' if of else ''} reached that point; {self.left} times left."
            )


_active: list[Fault] = []


def strike(moment: Moment, work: AcquiredJob) -> None:
    """A job has reached this moment; raises the fault's error."""
    for fault in tuple(_active):
        if fault.concerns(moment, work):
            fault.left -= 1
            fault.happen(work)


def repeat(work: AcquiredJob) -> None:
    """An atomic job was rolled back, and with it the effects of faults in the same transaction."""
    for fault in tuple(_active):
        fault.repeat(work)


class _Failing(Fault):
    exception: BaseException | type[BaseException]

    def happen(self, work: AcquiredJob) -> None:
        raise self.exception


@contextmanager
def fail(which: Target | AbstractJob | UUID | None, exception: Any, times: int = 1) -> Iterator[None]:
    """Let a handler raise ``exception`` (an instance or a class) instead of running, ``times`` times.

    ``which`` is the function of a job, a task, the name of a handler, a row or an id; None is any job that runs next. A
    manual executor does not raise the exception again: the result contains it.
    """
    fault = _Failing("fail", which, "begins", times)
    fault.exception = exception
    with fault.active():
        yield


def _serialisation_failure() -> OperationalError:
    cause = Exception("could not serialize access")
    cause.sqlstate = "40001"  # type: ignore[attr-defined]
    error = OperationalError("could not serialize access due to concurrent update (injected by the test)")
    error.__cause__ = cause
    return error


@contextmanager
def conflict(which: Target | AbstractJob | UUID | None = None, times: int = 1) -> Iterator[None]:
    """Let the database refuse a handler's work with a serialisation conflict: retried soon, without costing a retry."""
    with fail(which, _serialisation_failure(), times):
        yield


class OtherNode(Fault):
    """A node that takes over jobs which other nodes still run."""

    def __init__(self, which: Target | AbstractJob | UUID | None, times: int) -> None:
        super().__init__("lose_lock", which, "ends", times)
        self.owner = f"another node:{uuid7()}"
        #: The jobs that it has taken over.
        self.taken: list[UUID] = []
        self._using: set[str] = set()

    def happen(self, work: AcquiredJob) -> None:
        self.taken.append(work.id)
        self._using.add(work.using)
        self._take(work)

    def repeat(self, work: AcquiredJob) -> None:
        if work.id in self.taken:
            self._take(work)

    def _take(self, work: AcquiredJob) -> None:
        """As if the lease had expired: recovery releases the job, and this node is the first to acquire it."""
        using = work.using
        row = Job.objects.using(using).filter(pk=work.id, lock_owner=work.lock_owner, revision=work.revision).first()
        if row is None:
            return
        recover_job(using, row, work.lock_owner)
        free = Job.objects.using(using).filter(pk=work.id, lock_owner=None).first()
        if free is not None and lock_for(using, free, self.owner, get_settings().engine(using).lock_time):
            lock_instances(using, self.owner, {work.serial_key} - {""})

    def give_back(self) -> None:
        """Unlock the jobs taken over, as if they had not started."""
        for using in self._using:
            with own_transaction(using):
                release_owned(using, self.owner)


@contextmanager
def lose_lock(which: Target | AbstractJob | UUID | None = None, times: int = 1) -> Iterator[OtherNode]:
    """Let another node take a job between the end of its handler and the writing of its outcome, which does not count.

    An ``atomic`` job is rolled back. Yields the other node, which keeps the jobs in :attr:`~OtherNode.taken` until
    :meth:`~OtherNode.give_back`.
    """
    other = OtherNode(which, times)
    with other.active():
        yield other


class _Killing(Fault):
    def happen(self, work: AcquiredJob) -> None:
        raise NodeKilled


@contextmanager
def kill_node(which: Target | AbstractJob | UUID | None = None, *, when: Moment = "ends") -> Iterator[None]:
    """Let the process die with a job, ``when`` its handler "begins", or "ends" and its outcome is not written yet.

    The block ends there. The jobs that the node acquired stay locked by it, and its lease has expired. The manual
    executor continues as another node; its ``recover()`` finds them.
    """
    try:
        with _Killing("kill_node", which, when).active():
            yield
    except NodeKilled:
        pass


class Away:
    """A database that is unavailable: ``refused`` counts the statements that it has refused."""

    def __init__(self, using: str, times: int | None) -> None:
        self.using, self.left, self.refused = using, times, 0

    @property
    def is_away(self) -> bool:
        return self.left is None or self.left > 0

    def __call__(self, execute: Any, sql: str, params: Any, many: bool, context: Any) -> Any:
        # The savepoints belong to the test, and not to the code under test.
        if not self.is_away or sql.startswith(("SAVEPOINT", "RELEASE SAVEPOINT", "ROLLBACK TO SAVEPOINT")):
            return execute(sql, params, many, context)
        self.refused += 1
        if self.left is not None:
            self.left -= 1
        raise OperationalError(f"The database {self.using!r} is unavailable (injected by the test).")


@contextmanager
def database_away(using: str = "default", *, times: int | None = None) -> Iterator[Away]:
    """Let statements of this thread on a database raise OperationalError: all in the block, or the next ``times``."""
    connection, away = connections[using], Away(using, times)
    usable = connection.is_usable
    connection.is_usable = lambda: not away.is_away and usable()  # type: ignore[method-assign]
    try:
        with connection.execute_wrapper(away):
            yield away
    finally:
        del connection.is_usable
    if times is None and not away.refused:
        raise AssertionError(f"database_away: no statement was sent to {using!r}.")
    if times is not None and away.left:
        raise AssertionError(f"database_away: {times - away.left} of {times} statements were sent to {using!r}.")
