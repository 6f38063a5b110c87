"""``jobexec.batch``: jobs of a project that are counted together, and calls when they are over."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping
from contextlib import suppress
from datetime import datetime, timedelta
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple, ParamSpec, TypeVar, Unpack
from uuid import UUID

from asgiref.sync import sync_to_async
from django.db import router, transaction

from jobexec.conf import get_settings
from jobexec.conf.messages import check_duration, check_moment
from jobexec.encryption import seal_text
from jobexec.exceptions import BatchNotFound, BatchOver, InvalidJob
from jobexec.identifiers import uuid7s
from jobexec.json_values import check_storable, shown

from .calls import JobCall, check_call
from .context import current_job
from .external import ExternalOptions, insert_external
from .many import LENGTH, PAGE, Page, insert_page
from .options import check_options

if TYPE_CHECKING:
    from types import TracebackType

    from jobexec.models import Batch
    from jobexec.operations.enqueue.create import Pattern
    from jobexec.operations.targets.for_each import OperationResult
    from jobexec.operations.values.acquired_job import AcquiredJob
    from jobexec.operations.values.inserted_rows import AnyJob

    from .function import JobFunction

P = ParamSpec("P")
T = TypeVar("T")

_INSTANCE = "batch:"  # the beginning of the process instances of batches
_LONGEST = 255
_EXTERNAL_PAGE = 500


class JobBatchProgress(NamedTuple):
    """The progress of a batch of jobs.

    ``total`` jobs have been added so far. ``completed`` ones succeeded, ``failed`` ones are dead letters, ``cancelled``
    ones were removed before they succeeded, and ``open`` ones may still run.
    """

    total: int
    completed: int
    failed: int
    cancelled: int
    open: int

    @property
    def percent(self) -> float:
        """The share of the jobs that are over, from 0 to 100; 0 without jobs."""
        return 100.0 * (self.total - self.open) / self.total if self.total else 0.0


def batch(
    *,
    name: str = "",
    on_success: JobCall | None = None,
    on_failure: JobCall | None = None,
    when: Mapping[str, JobCall] | None = None,
    deadline: datetime | timedelta | float | None = None,
    grows: bool = False,
    tenant_id: str | None = None,
    using: str | None = None,
) -> JobBatch:
    """Begin a batch of jobs in the current transaction. Add jobs to it, and seal it.

    ``with jobexec.batch(...) as batch:`` seals the batch at the end of the block; an exception cancels it.
    ``on_success`` is a call (``publish.s(2026)``) that is enqueued when the batch is sealed and all of its jobs have
    succeeded. ``on_failure`` is enqueued when all jobs are over and some have not succeeded, because they are dead
    letters or were removed. ``when`` maps conditions to further calls, for example ``{"failed_rate > 5%": alert.s()}``.
    A call is enqueued as soon as its condition holds. Each call is enqueued once.

    A batch that is not over at its ``deadline`` (aware, or from now) fails, and its other jobs are cancelled. With
    ``grows``, running jobs of the batch may add jobs to it even after it is sealed. The ``name`` is shown to operators.
    The jobs belong to the tenant ``tenant_id``, by default to the tenant of the running job. ``using`` is the database.

    Raises :class:`~jobexec.exceptions.InvalidJob`, with nothing inserted.
    """
    from jobexec.models import Batch
    from jobexec.operations.batches.of_jobs import begin_batch

    running = current_job()
    database = using or (running.using if running else router.db_for_write(Batch))
    if not isinstance(name, str) or len(name) > _LONGEST:
        raise InvalidJob(f"name: expected a string of at most {_LONGEST} characters, got {shown(name)}.")
    check_storable("name", name)
    if not isinstance(grows, bool):
        raise InvalidJob(f"grows: expected True or False, got {shown(grows)}.")
    if tenant_id is None:
        tenant_id = running.work.tenant_id if running else ""
    check_options({"tenant_id": tenant_id})
    arguments = _follow_ups(database, on_success, on_failure, when) | ({"grows": True} if grows else {})
    until = _deadline(deadline)
    row = begin_batch(database, name=name, arguments=arguments, deadline=until, tenant_id=tenant_id, user="")
    return JobBatch(row.pk, database)


def _follow_ups(using: str, on_success: Any, on_failure: Any, when: Any) -> dict[str, Any]:
    from jobexec.operations.values.batch_figures import Condition

    get_settings().engine(using)
    found: dict[str, Any] = {}
    for name, call in (("on_success", on_success), ("on_failure", on_failure)):
        if call is not None:
            found[name] = check_call(name, call).stored(name, using)
    if when is not None:
        if not isinstance(when, Mapping):
            raise InvalidJob(f"when: expected a mapping from conditions to calls, got {shown(when)}.")
        for text in when:
            Condition.parse(text)
        found["when"] = {text: check_call(f"when: {text!r}", call).stored("when", using) for text, call in when.items()}
    return found


def _deadline(value: Any) -> datetime | timedelta | None:
    if value is None or isinstance(value, datetime):
        return check_moment("deadline", value)
    return check_duration("deadline", value)


def get_batch(id: UUID | str, *, using: str | None = None) -> JobBatch:
    """The batch of jobs with this id. Raises :class:`~jobexec.exceptions.BatchNotFound`."""
    from jobexec.operations.batches.found import find_batch
    from jobexec.operations.targets.for_each import database_of

    database = database_of(None, using)
    return JobBatch(find_batch(id, database, of_jobs=True).pk, database)


async def abatch(**options: Any) -> JobBatch:
    """:func:`batch` for async callers: ``async with await jobexec.abatch(...) as batch:``."""
    return await _in_thread(batch)(**options)


async def aget_batch(id: UUID | str, *, using: str | None = None) -> JobBatch:
    """:func:`get_batch` for async callers."""
    return await _in_thread(get_batch)(id, using=using)


def _in_thread(function: Callable[P, T]) -> Callable[P, Coroutine[Any, Any, T]]:
    return sync_to_async(function, thread_sensitive=True)


def batch_of_job(work: AcquiredJob) -> JobBatch | None:
    """The batch of a running child, or of a job that a batch has made to follow it."""
    from jobexec.operations.rows.tallies import batches_of

    if batches_of([work]):
        return JobBatch(work.batch_id, work.using, is_child=True)  # type: ignore[arg-type]
    if work.batch_id is None and work.process_instance_id.startswith(_INSTANCE):
        try:
            return JobBatch(UUID(work.process_instance_id.removeprefix(_INSTANCE)), work.using)
        except ValueError:
            return None
    return None


class JobBatch:
    """A handle of a batch of jobs. It holds only the id, so any number of threads and processes can use it."""

    def __init__(self, id: UUID, using: str, *, is_child: bool = False) -> None:
        self.id, self.using = id, using
        self._is_child = is_child

    def __repr__(self) -> str:
        return f"<batch {self.id}>"

    def __eq__(self, other: object) -> bool:
        return (self.id, self.using) == (other.id, other.using) if isinstance(other, JobBatch) else NotImplemented

    def __hash__(self) -> int:
        return hash((self.id, self.using))

    def __enter__(self) -> JobBatch:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self.seal()
        elif not transaction.get_connection(self.using).needs_rollback:  # otherwise the batch goes with its transaction
            with suppress(BatchNotFound, BatchOver):  # the error of the block must be raised
                self.cancel()

    async def __aenter__(self) -> JobBatch:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await _in_thread(self.__exit__)(kind, error, trace)

    @property
    def row(self) -> Batch:
        """The row of the batch as it is now. Raises :class:`~jobexec.exceptions.BatchNotFound`."""
        from jobexec.operations.batches.found import find_batch

        return find_batch(self.id, self.using, of_jobs=True)

    @property
    def state(self) -> str:
        """The state now: "open", "running" (it is sealed), "completed", "failed" or "cancelled"."""
        return self.row.state

    def progress(self) -> JobBatchProgress:
        """Count the jobs of the batch, in one statement whatever their number is."""
        from jobexec.operations.batches.of_jobs import figures_of

        figures = figures_of(self.using, self.id)
        return JobBatchProgress(*figures, figures.open)

    def add(self, call: JobCall) -> AnyJob:
        """Insert one job of the batch in the current transaction. Returns the saved row.

        With the option ``unique``, the row may be that of an existing job, which does not belong to the batch. Raises
        :class:`~jobexec.exceptions.BatchSealed`, :class:`~jobexec.exceptions.BatchOver` and
        :class:`~jobexec.exceptions.InvalidJob`, with nothing inserted.
        """
        from jobexec.operations.batches.of_jobs import count_added, hold_open
        from jobexec.operations.notify.observers import told_afterwards

        job = self._checked(call).job
        with told_afterwards(), transaction.atomic(using=self.using):
            batch = hold_open(self.using, self.id, child=self._is_child)
            row = call.insert(_pattern(job, batch))
            count_added(self.using, batch, int(not row.is_duplicate))
        return row

    def add_many(self, calls: Iterable[JobCall]) -> int:
        """Insert any number of jobs of the batch, page by page. Returns their number.

        ``calls`` may be of any length, and is not kept in memory. Each page is a transaction, or part of the current
        one: jobs of the first pages run while the last ones are read. An error names the call that caused it. Jobs that
        were added before it stay, unless the current transaction is rolled back. Raises the errors of :meth:`add`.
        """
        done = added = 0
        left = iter(calls)
        while page := self._page(left, done):
            added += self._insert(page)
            done += len(page)
        return added

    def _page(self, calls: Iterator[JobCall], before: int) -> list[JobCall]:
        page: list[JobCall] = []
        length = 0
        for call in islice(calls, PAGE):
            try:
                page.append(self._checked(call))
            except InvalidJob as error:
                raise InvalidJob(f"Call {before + len(page) + 1} of add_many: {error}") from None
            length += len(call.encoded)
            if length > LENGTH:
                break
        return page

    def _checked(self, call: Any) -> JobCall:
        found = check_call("add", call)
        if found.job._database() != self.using:
            raise InvalidJob(
                f"{found.job.name}: expected a job of the batch's database {self.using!r}, got one of"
                f" {found.job._database()!r}."
            )
        return found

    def _insert(self, calls: list[JobCall]) -> int:
        from jobexec.operations.batches.of_jobs import count_added, hold_open
        from jobexec.operations.notify.observers import told_afterwards

        with told_afterwards(), transaction.atomic(using=self.using):
            batch = hold_open(self.using, self.id, child=self._is_child)
            added = sum(_insert_alike(job, _pattern(job, batch), those) for job, those in _by_job(calls))
            count_added(self.using, batch, added)
        return added

    def add_external(
        self, type: str, variables: Iterable[Mapping[str, Any]], **options: Unpack[ExternalOptions]
    ) -> int:
        """Insert jobs for external workers, one for each of ``variables``, page by page. Returns their number.

        The other arguments are those of :func:`~jobexec.external_job`. A job with ``on_complete`` is over when that has
        succeeded. Raises the errors of :meth:`add`.
        """
        from jobexec.operations.batches.of_jobs import count_added, hold_open

        if options.get("database", self.using) != self.using:
            raise InvalidJob(f"database: expected the batch's database {self.using!r}, got {options['database']!r}.")
        added, left = 0, iter(variables)
        while page := list(islice(left, _EXTERNAL_PAGE)):
            with transaction.atomic(using=self.using):
                batch = hold_open(self.using, self.id, child=self._is_child)
                tenant = options.get("tenant_id") or batch.tenant_id
                if tenant != batch.tenant_id:
                    raise InvalidJob(f"tenant_id: expected the batch's tenant {batch.tenant_id!r}, got {tenant!r}.")
                given: ExternalOptions = {**options, "database": self.using, "tenant_id": tenant}
                insert_external(type, page, given, {"batch_id": self.id})
                count_added(self.using, batch, len(page))
            added += len(page)
        return added

    def seal(self) -> None:
        """Accept no more jobs. The batch ends with the last of its jobs. Does nothing if the batch is sealed already.

        Waits for other transactions that are adding jobs. Raises :class:`~jobexec.exceptions.BatchOver`.
        """
        from jobexec.operations.batches.of_jobs import seal_batch

        seal_batch(self.id, using=self.using)

    def cancel(self) -> None:
        """End the batch: remove its waiting jobs, and ask running jobs to stop. No call of the batch is enqueued.

        Raises :class:`~jobexec.exceptions.BatchOver` if it has completed or failed.
        """
        from jobexec.operations.batches.control import cancel_batch

        cancel_batch(self.id, using=self.using)

    def retry_failed(self, retries: int | None = None) -> OperationResult:
        """Requeue the dead letters of the batch. A batch that has failed continues.

        ``on_failure`` is not called again; ``on_success`` is, once all jobs have succeeded. Raises
        :class:`~jobexec.exceptions.BatchOver` if it was cancelled.
        """
        from jobexec.operations.batches.of_jobs import retry_batch

        return retry_batch(self.id, retries, using=self.using)

    # For async callers. The calls of ``aadd_many`` are read in a thread, as an iterator may query the database.

    async def astate(self) -> str:
        """:attr:`state` for async callers."""
        return await _in_thread(lambda: self.state)()

    async def aprogress(self) -> JobBatchProgress:
        """:meth:`progress` for async callers."""
        return await _in_thread(self.progress)()

    async def aadd(self, call: JobCall) -> AnyJob:
        """:meth:`add` for async callers."""
        return await _in_thread(self.add)(call)

    async def aadd_many(self, calls: Iterable[JobCall]) -> int:
        """:meth:`add_many` for async callers."""
        return await _in_thread(self.add_many)(calls)

    async def aadd_external(
        self, type: str, variables: Iterable[Mapping[str, Any]], **options: Unpack[ExternalOptions]
    ) -> int:
        """:meth:`add_external` for async callers."""
        return await _in_thread(self.add_external)(type, variables, **options)

    async def aseal(self) -> None:
        """:meth:`seal` for async callers."""
        await _in_thread(self.seal)()

    async def acancel(self) -> None:
        """:meth:`cancel` for async callers."""
        await _in_thread(self.cancel)()

    async def aretry_failed(self, retries: int | None = None) -> OperationResult:
        """:meth:`retry_failed` for async callers."""
        return await _in_thread(self.retry_failed)(retries)


def _by_job(calls: list[JobCall]) -> Iterable[tuple[JobFunction[..., Any], list[JobCall]]]:
    """The calls in groups of the same function with the same options."""
    groups: dict[int, list[JobCall]] = {}
    for call in calls:
        groups.setdefault(id(call.job), []).append(call)
    return [(those[0].job, those) for those in groups.values()]


def _pattern(job: JobFunction[..., Any], batch: Batch) -> Pattern:
    """The common part of a function's jobs in a batch. Their resource is that of its tenant, unless they name one."""
    pattern = job._pattern().of_batch(batch)
    if "resource" in job.options:
        return pattern
    return pattern.of_resource(get_settings().resources.of_tenant(batch.tenant_id))


def _insert_alike(job: JobFunction[..., Any], pattern: Pattern, calls: list[JobCall]) -> int:
    made = [call.own for call in calls if call.own is not None]
    encoded, ids = [call.encoded for call in calls], []
    if job.encrypted:
        ids = uuid7s(len(encoded))
        encoded = [seal_text(text, job.name, id) for text, id in zip(encoded, ids, strict=True)]
    pattern.authorize()
    page = Page(encoded, [call.key or "" for call in calls], made, ids)
    _, duplicates = insert_page(job, pattern, page, job._due_date())
    return len(calls) - len(duplicates)
