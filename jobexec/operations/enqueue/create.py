"""Create jobs in the caller's transaction."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import copy
from datetime import datetime
from itertools import repeat
from types import MappingProxyType
from typing import Any
from uuid import UUID

from django.db import connections
from django.db.backends.base.base import BaseDatabaseWrapper
from django.views.decorators.debug import sensitive_variables

from jobexec import clock, signals, tracing
from jobexec.conf import get_settings
from jobexec.conf.messages import LENGTH, check_moment, check_name, check_text
from jobexec.conf.resources import is_name
from jobexec.encryption import envelope_of, seal, unseal
from jobexec.exceptions import InvalidJob
from jobexec.identifiers import OWN, uuid7, uuid7s
from jobexec.json_values import shown
from jobexec.models import SHARED_COLUMNS, Batch, BlockedJob, Job, JobType, LogState, TimerJob

from ..audit import authorize
from ..history import job_log
from ..notify.broker import announce_created
from ..notify.observers import tell_watchers
from ..notify.signals import announce
from ..notify.wake import wake_for_resources, wake_on_commit
from ..sql.insert import insert_row, insert_rows, json_text, parameters
from ..sql.locks import atomic
from ..sql.server_time import keep_time
from ..values.inserted_rows import CreatedJobs, NewJob, Own, Table, Wait, instance
from ..values.ranking import check_priority, rank
from .follow_ups import Hold, hold_for

_OPTIONS = frozenset(SHARED_COLUMNS) - {"revision", "lock_owner", "lock_expiration_time", "rank", "start_time"}
_NOTHING: Mapping[str, str] = MappingProxyType({})
#: A pattern keeps copies of itself for this number of resources.
_RESOURCES = 1000
#: Writes one row, whose values are parameters.
Insert = Callable[[BaseDatabaseWrapper, Table, Mapping[str, Any]], None]
_OF_EACH = ("handler_configuration", "due_date", "id", "create_time")
#: What a job belongs to: texts that are stored as they are, so that jobs of one pattern may differ in them.
_BELONGS = ("execution_id", "process_instance_id", "root_process_instance_id", "correlation_id")


@sensitive_variables("columns", "own")
def create_job(using: str, **columns: Any) -> NewJob:
    """Insert one job: executable, a timer if ``due_date`` lies in the future, blocked if it has a ``resource``.

    It is also blocked, whatever its date, if it waits for a message (``waits_for``, ``waits_for_key``).

    Returns the row as saved.

    One INSERT in the caller's transaction: it is rolled back with the caller's data and becomes visible with it. No
    lock row, suspension or definition is touched, and no Django model signal is sent. Executors are woken up after
    commit. Raises :class:`~jobexec.exceptions.InvalidJob` for unknown columns, a naive due date, an unknown category or
    a resource that RESOURCES does not cover.
    """
    return create_job_by(using, None, columns)


@sensitive_variables("columns", "own")
def create_job_by(using: str, insert: Insert | None, columns: dict[str, Any], ahead: Any = None) -> NewJob:
    """Create a job as :func:`create_job`; ``insert`` writes its row, together with others of the caller.

    ``ahead`` is what its handler would look up, if it runs at once and here.
    """
    own = _take(columns)
    pattern = Pattern(using, columns)
    pattern.authorize()
    return pattern.create(insert=insert, ahead=ahead, **_encrypted(columns, own))


@sensitive_variables("rows", "given", "columns", "own")
def create_jobs(using: str, rows: Iterable[dict[str, Any]], *, encrypts: bool = True) -> list[NewJob]:
    """Insert many jobs, each given as columns, in the given order, in one transaction and few statements.

    ``encrypts``: the setting ENCRYPT_ARGUMENTS applies to them; otherwise arguments are stored as they are given. All
    rows are built and thereby checked before the first is inserted.
    """
    jobs: list[NewJob] = []
    # One statement inserts rows of the same table with the same given columns.
    groups: dict[tuple[Table, tuple[str, ...]], list[tuple[Any, ...]]] = {}
    patterns = _Patterns(using)
    for given in rows:
        columns = dict(given)
        own = _take(columns)
        pattern, belongs = patterns.of(columns)
        pattern.authorize()
        own = _encrypted(columns, own) if encrypts else own
        table, columns, values = pattern.job(**own, belongs=belongs)
        jobs.append(instance(using, table, columns))
        groups.setdefault((table, tuple(values)), []).append(tuple(values.values()))
    with atomic(using):
        for (table, names), group in groups.items():
            insert_rows(connections[using], table, names, group)
        _log(using, jobs)
        for table in (Job, TimerJob, BlockedJob):
            _tell(using, table, [job for job in jobs if type(job) is table])
    tell_watchers(using, jobs)
    return jobs


def check_resource(name: str | None) -> None:
    """Raise :class:`~jobexec.exceptions.InvalidJob` for a resource that no entry of RESOURCES covers."""
    known = get_settings().resources
    if name is None or (is_name(name) and not name.endswith("*") and known.covering(name)):
        return
    entries = ", ".join(map(repr, known)) or "which is empty"
    raise InvalidJob(f"resource: expected a name that RESOURCES covers ({entries}), got {shown(name)}.")


def check_wait(columns: Mapping[str, Any]) -> None:
    """Raise :class:`~jobexec.exceptions.InvalidJob` for columns of a job that name half a message."""
    if columns.get("waits_for") is None:
        given = [name for name in ("waits_for_key", "waits_until") if columns.get(name) is not None]
        if given:
            raise InvalidJob(f"{given[0]}: only valid with waits_for, the name of a message.")
        return
    check_name("waits_for", columns["waits_for"])
    check_text("waits_for_key", columns.get("waits_for_key"), LENGTH)
    check_moment("waits_until", columns.get("waits_until"))


def _take(columns: dict[str, Any]) -> dict[str, Any]:
    return {name: columns.pop(name) for name in _OF_EACH if name in columns}


@sensitive_variables("columns", "own", "configuration")
def _encrypted(columns: Mapping[str, Any], own: dict[str, Any]) -> dict[str, Any]:
    """Encrypt the arguments of a job that is given as columns, if the setting ENCRYPT_ARGUMENTS is on.

    Raises InvalidJob for arguments that look as if they were encrypted for this job, and are not.
    """
    configuration, handler_type = own.get("handler_configuration"), str(columns.get("handler_type", ""))
    if envelope_of(configuration):
        if not isinstance(own.get("id"), UUID):
            raise InvalidJob("handler_configuration: expected an id with encrypted arguments, got none.")
        unseal(configuration, handler_type, own["id"])
    elif get_settings().encrypt_arguments and not handler_type.startswith(OWN):  # whose arguments are ids
        id = UUID(str(own.get("id") or uuid7()))
        own |= {"id": id, "handler_configuration": seal(configuration or {}, handler_type, id)}
    return own


class _Patterns:
    """The patterns of the rows of one call, most of which are alike: to check the columns takes longer than a row."""

    def __init__(self, using: str) -> None:
        self._using, self._made = using, dict[tuple[Any, ...], Pattern]()
        self._shares = get_settings().authorization is None  # a policy is asked about all columns of each job

    def of(self, columns: dict[str, Any]) -> tuple[Pattern, dict[str, Any]]:
        """The pattern of a row, and the columns that come to it."""
        if not self._shares:
            return Pattern(self._using, columns), {}
        belongs = {name: columns.pop(name) for name in _BELONGS if name in columns}
        key = (*columns, *columns.values())
        try:
            pattern = self._made.get(key)
        except TypeError:  # headers, for example, cannot be compared so
            return Pattern(self._using, columns), belongs
        if pattern is None:
            pattern = self._made[key] = Pattern(self._using, columns)
        return pattern, belongs


class Pattern:
    """The common columns of jobs that differ in arguments and times, checked and prepared once.

    A pattern belongs to one process and its settings; any number of threads may use it. ``columns`` are those of the
    jobs except ``handler_configuration``, ``due_date``, ``id`` and ``create_time``. Raises
    :class:`~jobexec.exceptions.InvalidJob`.
    """

    def __init__(self, using: str, columns: Mapping[str, Any], waits_until: datetime | None = None) -> None:
        """``waits_until`` is that of jobs whose message :meth:`of_wait` names."""
        if not _OPTIONS.issuperset(columns):
            raise InvalidJob(f"Unknown job columns: {', '.join(sorted(columns.keys() - _OPTIONS))}.")
        settings = get_settings()
        settings.engine(using)
        category = columns.get("category", "default")
        if category not in settings.categories:
            known = ", ".join(settings.categories)
            raise InvalidJob(f"category: expected one of {known} (setting CATEGORIES), got {category!r}.")
        check_priority(columns.get("priority", 0))
        check_resource(columns.get("resource"))
        check_wait(columns)
        check_moment("expires_at", columns.get("expires_at"))
        made: dict[str, Any] = {"job_definition_id": columns.get("handler_type", "")}
        if settings.deployment:
            made["deployment_id"] = settings.deployment
        if traceparent := tracing.of_headers(columns.get("custom_headers")):
            made["traceparent"] = traceparent
        self.using = using
        self._columns = made | dict(columns)
        self._waits_until = waits_until
        if columns.get("waits_for") is not None:
            self._columns["waits_until"] = self._end_of_wait(columns.get("waits_until"))
        self._traces = tracing.AVAILABLE and "traceparent" not in self._columns
        self._values = parameters(connections[using], Job, self._columns)
        self._of_resources: dict[str, Pattern] = {}
        self._is_asked = settings.authorization is not None

    @property
    def tenant_id(self) -> str:
        """The tenant of the jobs; '' for none."""
        return str(self._columns.get("tenant_id", ""))

    def authorize(self) -> None:
        """Ask the policy in AUTHORIZATION, before anything is written.

        Raises :class:`~jobexec.exceptions.NotAuthorized`.
        """
        if self._is_asked:
            handler_type = self._columns.get("handler_type", "")
            if not handler_type.startswith(OWN):
                authorize("enqueue", handler_type, self.using, self._columns)

    def of_resource(self, name: str | None) -> Pattern:
        """The same pattern for jobs of another resource, which was made from the arguments of a call."""
        if name is None:
            return self
        pattern = self._of_resources.get(name)
        if pattern is None:
            check_resource(name)
            pattern = copy(self)
            pattern._columns, pattern._values = self._columns | {"resource": name}, self._values | {"resource": name}
            if len(self._of_resources) < _RESOURCES:
                self._of_resources[name] = pattern
        return pattern

    def of_wait(self, wait: Wait | None) -> Pattern:
        """The same pattern for a job that waits for another message, whose name and key have been checked."""
        if wait is None:
            return self
        own: dict[str, Any] = {"waits_for": wait[0], "waits_for_key": wait[1]}
        own["waits_until"] = self._end_of_wait(self._waits_until)
        pattern = copy(self)
        pattern._columns = self._columns | own
        pattern._values = self._values | parameters(connections[self.using], BlockedJob, own)
        pattern._of_resources = {}
        return pattern

    def _end_of_wait(self, until: datetime | None) -> datetime | None:
        """The wait of a job also ends when it expires, so that it is cancelled."""
        return min(filter(None, (until, self._columns.get("expires_at"))), default=None)

    def of_call(self, own: Own) -> Pattern:
        """The same pattern with the values that the options compute from the arguments of a call."""
        return self.of_resource(own.resource).of_wait(own.wait)

    def of_batch(self, batch: Batch) -> Pattern:
        """The same pattern for children of a batch, which are of its tenant. Raises InvalidJob if it has another."""
        tenant = self.tenant_id or batch.tenant_id
        if tenant != batch.tenant_id:
            raise InvalidJob(f"tenant_id: expected that of the batch, {batch.tenant_id!r}, got {tenant!r}.")
        own = {"batch_id": batch.pk} | ({"tenant_id": tenant} if tenant else {})
        pattern = copy(self)
        pattern._columns = self._columns | own
        pattern._values = self._values | parameters(connections[self.using], Job, own)
        pattern._of_resources = {}
        return pattern

    def create(
        self,
        handler_configuration: Any = None,
        encoded: str | None = None,
        *,
        stays: bool = True,
        insert: Insert | None = None,
        ahead: Any = None,
        **own: Any,
    ) -> NewJob:
        """Insert one job like :func:`create_job`; see :meth:`job` and :func:`create_job_by` for the arguments.

        ``stays``: it may be locked by the node whose handler enqueues it.
        """
        using, connection = self.using, connections[self.using]
        table, columns, values = self.job(handler_configuration, encoded, **own)
        hold = hold_for(using, table, columns, 1) if stays else None
        if hold is not None:
            columns |= hold.columns
            values |= parameters(connection, table, hold.columns)
        row = instance(using, table, columns)
        if hold is not None:
            hold.expect([row], ahead)
        if job_log.wants(LogState.CREATED):
            with atomic(using):
                (insert or insert_row)(connection, table, values)
                _log(using, [row])
        else:
            (insert or insert_row)(connection, table, values)
        _tell(using, table, [row], hold)
        tell_watchers(using, [row])
        return row  # type: ignore[no-any-return]

    def create_many(
        self,
        encoded: Sequence[str],
        *,
        ids: Sequence[UUID] | None = None,
        waits: Sequence[Wait] | None = None,
        stays: bool = True,
        **own: Any,
    ) -> CreatedJobs:
        """Insert a job for each ``handler_configuration``, given as JSON texts, in this order, in one transaction.

        All other columns are equal, including ``create_time``. ``ids`` are generated if they are not given; ``waits``
        are the messages for which the jobs wait, if each has its own. ``stays``: the first ones may be locked by the
        node whose handler enqueues them.
        """
        using = self.using
        table, columns, values = (self if waits is None else self.of_wait(waits[0])).job(encoded="", **own)
        names: tuple[str, ...] = ("id", "handler_configuration")
        if waits is not None:
            names = (*names, "waits_for", "waits_for_key")
        for name in names:
            del columns[name], values[name]
        hold = hold_for(using, table, columns, len(encoded)) if encoded and stays else None
        held = (hold.columns, hold.count) if hold is not None else None
        jobs = CreatedJobs(using, table, columns, uuid7s(len(encoded)) if ids is None else ids, encoded, waits, held)
        if jobs:
            each = zip(jobs.ids, encoded, waits or repeat(()), strict=waits is not None)
            rows: list[tuple[Any, ...]] = [(id.hex, text, *wait) for id, text, wait in each]
            if hold is not None:
                hold.expect(jobs[: hold.count])
                lock = parameters(connections[using], table, hold.columns)
                names, free = (*names, *lock), (None,) * len(lock)
                rows = [(*row, *(lock.values() if n < hold.count else free)) for n, row in enumerate(rows)]
            with atomic(using):
                insert_rows(connections[using], table, names, rows, values)
                _log(using, jobs)
                _tell(using, table, jobs, hold)
        tell_watchers(using, jobs)
        return jobs

    def create_each(self, encoded: Sequence[str], ids: Sequence[UUID], calls: Sequence[Own], **own: Any) -> None:
        """Insert jobs as :meth:`create_many` does, with ``ids``, each with the values computed from its call."""
        groups: dict[tuple[str | None, bool], list[int]] = {}
        for number, call in enumerate(calls):
            groups.setdefault((call.resource, call.wait is not None), []).append(number)
        for (resource, _), numbers in groups.items():
            waits = [wait for number in numbers if (wait := calls[number].wait) is not None]
            texts = [encoded[number] for number in numbers]
            pattern = self.of_resource(resource)
            pattern.create_many(texts, ids=[ids[number] for number in numbers], waits=waits or None, **own)

    def job(
        self,
        handler_configuration: Any = None,
        encoded: str | None = None,
        *,
        due_date: datetime | None = None,
        id: Any = None,
        create_time: datetime | None = None,
        belongs: Mapping[str, str] = _NOTHING,
    ) -> tuple[Table, dict[str, Any], dict[str, Any]]:
        """Return the table of a job, its columns, and these as parameters, without columns that have their default.

        ``encoded`` is ``handler_configuration`` as JSON text, if the caller has it; ``id`` and ``create_time`` are
        generated if they are not given. ``belongs`` are further columns, which need no check.
        """
        using = self.using
        keep_time(using)
        now = clock.now(using)
        columns: dict[str, Any] = {"id": id or uuid7(), "create_time": create_time or now, **belongs}
        if due_date is not None:
            check_moment("due_date", due_date)
            columns["due_date"] = due_date
        if self._traces and (traceparent := tracing.current()):
            columns["traceparent"] = traceparent
        table: Table = Job
        if due_date is not None and due_date > now:
            table = TimerJob
            columns["type"] = JobType.TIMER
        else:
            if self._columns.get("resource") is not None:
                table = BlockedJob
            columns["rank"] = rank(using, due_date or now, self._columns.get("priority", 0))
        if self._columns.get("waits_for") is not None:
            table = BlockedJob
            columns["next_look"] = now
        values = parameters(connections[using], table, columns)
        columns["handler_configuration"] = {} if handler_configuration is None else handler_configuration
        values["handler_configuration"] = json_text(columns["handler_configuration"]) if encoded is None else encoded
        # In this order, as a timer may have been given another type.
        return table, columns | self._columns, values | self._values


def _log(using: str, jobs: Iterable[NewJob]) -> None:
    if job_log.wants(LogState.CREATED):
        job_log.write(using, LogState.CREATED, [job_log.entry(job, LogState.CREATED) for job in jobs])


def _tell(using: str, table: Table, jobs: Sequence[NewJob], hold: Hold | None = None) -> None:
    # In this order: otherwise an executor in this process may announce the acquisition of a job before its creation.
    if jobs:
        announce(signals.job_created, using, table, jobs=jobs)
        if table is BlockedJob:
            alike = isinstance(jobs, CreatedJobs)  # then all are of the same resource, and all wait or none
            some = jobs[:1] if alike else jobs
            wake_for_resources(using, {job.resource for job in some if job.waits_for is None})
            if any(job.waits_for is not None for job in some):
                wake_on_commit(using, messages=True)
            return
        if hold is not None:
            hold.hand_over(using)
            if hold.count == len(jobs):
                return
        wake_on_commit(using, timers=table is TimerJob)
        if table is Job:
            announce_created(using, jobs, hold.count if hold is not None else 0)
