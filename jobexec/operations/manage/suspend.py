"""Suspend and activate single jobs, or all jobs in a scope including later ones; immediately, or at a date."""

from __future__ import annotations

from datetime import datetime
from typing import Any, NamedTuple

from django.utils.translation import gettext_noop

from jobexec import clock
from jobexec.conf.messages import check_moment
from jobexec.exceptions import InvalidJob
from jobexec.models import WAITING_TABLES, AbstractJob, SuspendedJob, Suspension, SuspensionScope
from jobexec.models.suspension import parts_of

from ..audit import audited, count_more, note
from ..rows.suspension_cover import lock_suspension, scope_of
from ..sql.delete import delete_rows
from ..sql.locks import atomic
from ..targets.for_each import OperationResult, Target, database_of, for_each
from .bulk import activate_page, suspend_page
from .suspension_sweep import activate_all, activate_rows, begin, end, one, suspend_for_good, suspend_row

_ALREADY = gettext_noop("it is already suspended individually")
_STILL = gettext_noop("still suspended by its process instance, process definition, job definition, category or tenant")


class Period(NamedTuple):
    """Start (None: now) and end (None: no end) of a suspension, and whether it includes jobs created before."""

    start: datetime | None
    end: datetime | None
    include_jobs: bool = True


@audited
def suspend(
    target: Target | None = None,
    *,
    using: str | None = None,
    at: datetime | None = None,
    until: datetime | None = None,
    include_jobs: bool = True,
    **scope: Any,
) -> OperationResult | int:
    """Suspend jobs or a scope: immediately or from ``at``, without an end or ``until`` a date (Camunda: executionDate).

    With a target: those jobs. A running job finishes, as does a job that an external worker holds; its retry goes to
    the suspended jobs. Returns an :class:`~jobexec.operations.targets.for_each.OperationResult`.

    With exactly one of ``process_instance_id``, ``process_definition_id`` (a version), ``process_definition_key``,
    ``job_definition_id``, ``category``, ``tenant_id``, or with ``process_definition_key`` and ``tenant_id`` ('': jobs
    without one):
    all jobs in it, including those created later. Existing jobs move in pages, running jobs finish. Returns how many
    moved now. The back-off of a waiting retry is kept in its due date.

    ``include_jobs=False`` excludes the jobs that exist when the suspension comes into force, and covers only those
    created afterwards (Camunda: suspendJobDefinitionById without includeJobs), by ``create_time``, which the enqueuing
    process sets. ``include_jobs=True`` widens an existing suspension, which is never narrowed. ``include_jobs=False``
    is not allowed with a target.

    Dates are aware and compared with the database's time; an ``at`` in the past means now. An existing suspension
    stays in force: ``at`` then has no effect, and ``until`` is the new end (None: no end). A planned suspension is
    replaced. Raises InvalidJob if a date is invalid or naive, or if ``until`` is not after the start.
    """
    database = database_of(target, using)
    period = _period(database, at, until, include_jobs)
    if target is not None:
        _only(scope if include_jobs else {**scope, "include_jobs": False})
        bulk = suspend_page if (period.start, period.end) == (None, None) else None
        return for_each(target, database, lambda row: _suspend_one(row, period), *WAITING_TABLES, bulk=bulk)
    suspension = _write(database, *scope_of(**scope), period)
    if suspension.in_force(clock.now(database)):
        moved = begin(suspension)
        count_more(database, moved)
        return moved
    # It may have been planned for an earlier date: jobs that other nodes have already moved by their clocks must not
    # stay suspended until its end.
    activate_all(database, parts_of(suspension.scope, suspension.value))
    return 0


def _only(scope: dict[str, Any]) -> None:
    if scope:
        raise ValueError(f"Expected jobs or a scope, got both: {', '.join(scope)}.")


def _period(using: str, at: Any, until: Any, include_jobs: Any = True) -> Period:
    if not isinstance(include_jobs, bool):
        raise InvalidJob(f"include_jobs: expected True or False, got {include_jobs!r}.")
    now, start, end_ = clock.now(using), check_moment("at", at), check_moment("until", until)
    if start is not None and start <= now:
        start = None
    if end_ is not None and end_ <= (start or now):
        raise InvalidJob(f"until: expected a time after {'at' if start else 'now'}, {start or now}; got {end_}.")
    if not include_jobs and start is None:
        start = now  # creation times are compared with it later
    return Period(start, end_, include_jobs)


def _write(using: str, column: str, value: str, period: Period) -> Suspension:
    """Create or change the live suspension of this scope; the caller moves its jobs."""
    while True:
        with atomic(using):
            found = lock_suspension(using, column, value)
            if found is not None and not found.over(clock.now(using)):
                changed = _changed(found, period)
                _note(using, column, value, **period._asdict())
                return changed
            if found is not None:
                one(found).update(live=None)  # the sweep ends it
            values = {"suspend_time": period.start, "activate_time": period.end, "swept": False}
            values["include_jobs"] = period.include_jobs
            table = Suspension.objects.using(using)
            made, created = table.get_or_create(scope=column, value=value, live=True, defaults=values)
            if created:
                _note(using, column, value, **period._asdict())
                return made
        # Another transaction has just created one.


def _note(using: str, column: str, value: str, **said: Any) -> None:
    if column != SuspensionScope.JOB:  # which the audit log records as the job
        parts, named = parts_of(column, value), Suspension(scope=column, value=value).audit_name
        note(using, "suspension", named, new=said, tenant=parts.get("tenant_id"), scope=parts, count=0)


def _changed(found: Suspension, period: Period) -> Suspension:
    found.activate_time = period.end
    if not found.begun(clock.now(found._state.db or "default")):
        found.suspend_time, found.swept, found.include_jobs = period.start, False, period.include_jobs
    elif period.include_jobs and not found.include_jobs:
        found.swept, found.include_jobs = False, True
    found.save(using=found._state.db, update_fields=["suspend_time", "activate_time", "swept", "include_jobs"])
    return found


def _suspend_one(row: AbstractJob, period: Period) -> str | None:
    using = row._state.db or "default"
    if row.suspend_requested:
        if period.end is None:
            # A job with a pending suspension that was given back before it began is not in the suspended table yet.
            return _ALREADY if row.locked or not row.runnable else suspend_for_good(row)
        _until(row, period.end)
        return None
    if (period.start, period.end) == (None, None):
        _drop(using, row)
        return suspend_for_good(row)
    suspension = _write(using, SuspensionScope.JOB, str(row.pk), period)
    if not suspension.in_force(clock.now(using)):
        return None
    if suspension.activate_time is None:
        _drop(using, row)
        return suspend_for_good(row)
    one(suspension).update(swept=True)
    return None if row.locked or not row.runnable else suspend_row(row)


def _until(row: AbstractJob, moment: datetime) -> None:
    """Replace the job's own suspension flag with a suspension that ends at this time."""
    using = row._state.db or "default"
    _drop(using, row)
    Suspension.objects.using(using).create(scope=SuspensionScope.JOB, value=str(row.pk), activate_time=moment)
    _request(row, False)


def _drop(using: str, row: AbstractJob) -> None:
    """Delete the suspension of this job, which the caller has locked."""
    found = lock_suspension(using, SuspensionScope.JOB, str(row.pk))
    if found is not None:
        delete_rows(one(found))


def _request(row: AbstractJob, suspended: bool) -> None:
    type(row)._base_manager.using(row._state.db or "default").filter(pk=row.pk).update(suspend_requested=suspended)
    row.suspend_requested = suspended


@audited
def activate(
    target: Target | None = None, *, using: str | None = None, at: datetime | None = None, **scope: Any
) -> OperationResult | int:
    """Undo :func:`suspend`, immediately or ``at`` a date; takes the same targets and scopes.

    A job becomes runnable only if no other suspension covers it: activating a process instance does not activate jobs
    that were suspended individually, activating a job does not override the suspension of its tenant. Immediate
    activation also withdraws planned suspensions. With a date, it sets the end of current or planned suspensions, if
    there are any. Raises InvalidJob if the date is invalid, naive, or not after the start.
    """
    database = database_of(target, using)
    moment = _period(database, at, None).start
    if target is not None:
        _only(scope)
        bulk = activate_page if moment is None else None
        return for_each(target, database, lambda row: _activate_one(row, moment), *WAITING_TABLES, bulk=bulk)
    return _activate_scope(database, *scope_of(**scope), moment)


@audited
def lift(suspension: Suspension, *, at: datetime | None = None) -> int:
    """Like :func:`activate`, for a Suspension row of any scope; return how many jobs moved now."""
    using = suspension._state.db or "default"
    return _activate_scope(using, suspension.scope, suspension.value, _period(using, at, None).start)


def _activate_scope(using: str, column: str, value: str, moment: datetime | None) -> int:
    with atomic(using):
        found = lock_suspension(using, column, value)
        refusal = None if found is None or moment is None else _end_at(found, moment)
        if found is not None and moment is None:
            one(found).update(live=None)
        if refusal is None:
            _note(using, column, value, end=moment)
    if refusal is not None:  # outside the block, so that the caller's transaction remains usable
        raise InvalidJob(refusal)
    if moment is not None:
        return 0
    moved = end(found) if found is not None else activate_all(using, parts_of(column, value))[0]
    count_more(using, moved)
    return moved


def _end_at(found: Suspension, moment: datetime) -> str | None:
    if found.suspend_time is not None and moment <= found.suspend_time:
        return f"at: expected a time after the suspension begins, {found.suspend_time}; got {moment}."
    if not found.over(clock.now(found._state.db or "default")):
        one(found).update(activate_time=moment)
    return None


def _activate_one(row: AbstractJob, moment: datetime | None) -> str | None:
    using = row._state.db or "default"
    if moment is not None:
        return _activate_one_at(row, moment)
    _drop(using, row)
    _request(row, False)
    if isinstance(row, SuspendedJob) and not activate_rows(using, [row]):
        return _STILL
    return None


def _activate_one_at(row: AbstractJob, moment: datetime) -> str | None:
    if row.suspend_requested:
        _until(row, moment)
        return None
    found = lock_suspension(row._state.db or "default", SuspensionScope.JOB, str(row.pk))
    if found is None:
        return gettext_noop("it is not suspended individually")
    return _end_at(found, moment)
