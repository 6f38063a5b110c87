"""Changes to recurring schedules by operators and programs: save, delete, enable, fire now.

:mod:`~.firing` fires them, :mod:`~.sync` saves those that the code declares.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from django.db import IntegrityError, transaction

from jobexec import clock
from jobexec.exceptions import InvalidSchedule, JobExecError, ScheduleNotFound
from jobexec.json_values import shown
from jobexec.models import Schedule, ScheduleFiring
from jobexec.recurrence.cycle import with_start

from ..audit import audited, is_on, note, part
from ..notify.wake import wake_on_commit
from ..rows.redaction_by_definition import hide_as_known, known_by_definitions
from ..sql.delete import delete_rows
from ..sql.locks import lock_rows
from .fields import check_job, checked_boolean, checked_text, checked_values
from .jobs import scheduled_jobs
from .times import recurrence_of, upcoming

__all__ = [
    "delete_schedule",
    "fire_now",
    "save_schedule",
    "schedule_problem",
    "scheduled_for",
    "set_enabled",
    "upcoming",
]

_PAGE = 1000


@audited
def save_schedule(
    using: str,
    *,
    name: str,
    handler_type: str,
    expression: str,
    timezone: str | None = None,
    misfire: str = "once",
    args: Sequence[Any] = (),
    kwargs: Mapping[str, Any] | None = None,
    options: Mapping[str, Any] | None = None,
    enabled: bool = True,
    replace: bool = True,
) -> Schedule:
    """Insert a schedule, or with ``replace`` change all fields of the one with this name. Returns the saved row.

    ``expression`` is cron or an ISO 8601 cycle (:mod:`jobexec.recurrence`) in ``timezone`` (default: the setting
    TIME_ZONE). ``options`` are those of ``using()``, as JSON, except the time and the database. The times begin with
    the first after now; if expression and time zone are unchanged, the next time is kept. If the code declares the
    schedule, its declaration is applied again only when the code changes; a schedule that the code has withdrawn
    becomes the operator's.

    Raises :class:`~jobexec.exceptions.InvalidSchedule`, whose ``field`` names the invalid field, for example for a
    handler that neither this process nor a node knows, arguments that do not match, or an expression that never fires
    again.
    """
    values = checked_values(
        handler_type=handler_type,
        expression=expression,
        timezone=timezone,
        misfire=misfire,
        args=args,
        kwargs=kwargs,
        options=options,
        enabled=enabled,
    )
    check_job(using, values)
    checked_text("name", name)
    try:
        with part(using):
            return _save(using, name, values, replace)
    except IntegrityError:  # another transaction has just inserted a schedule with this name
        with part(using):
            return _save(using, name, values, replace)


def _save(using: str, name: str, values: Mapping[str, Any], replace: bool) -> Schedule:
    row, new = _locked_or_new(using, name)
    if not (new or replace):
        raise InvalidSchedule(f"name: there is a schedule {shown(name)} already.", "name")
    if row.withdrawn:
        row.declared, row.next_time = "", None
    changed = new or (row.expression, row.timezone) != (values["expression"], values["timezone"])
    moved = changed or row.enabled != values["enabled"] or row.next_time is None
    old = None if new else _told(using, row, {name: getattr(row, name) for name in values})
    for column, value in values.items():
        setattr(row, column, value)
    if changed:
        begin(row, clock.now(using), new=new)
    elif moved:
        row.next_time = next_time(row, clock.now(using))
    row.save(using=using)
    _note(using, row, old, _told(using, row, values))
    wake_on_commit(using, schedules=True)
    return row


def _note(using: str, row: Schedule, old: Mapping[str, Any] | None, new: Mapping[str, Any] | None) -> None:
    said = new if old is None or new is None else {name: each for name, each in new.items() if each != old[name]}
    before = None if old is None else {name: each for name, each in old.items() if name in (said or old)}
    options = row.options if isinstance(row.options, dict) else {}
    note(using, "schedule", row.name, old=before, new=said, tenant=str(options.get("tenant_id") or ""))


def _told(using: str, row: Schedule, values: Mapping[str, Any]) -> dict[str, Any] | None:
    """The values without what the handler declares sensitive; None if the change is not recorded."""
    if not is_on():
        return None
    name = str(values.get("handler_type", row.handler_type))
    known, declared = known_by_definitions({name}, using)[name], scheduled_jobs().sensitive_names(name)
    known = known._replace(named=[*known.named, *declared])
    return {**values, "handler_configuration": hide_as_known(values["handler_configuration"], known)}


def begin(row: Schedule, now: datetime, *, new: bool) -> None:
    """Set the next time of a row with a new expression. Raises InvalidSchedule if it never fires again."""
    if not new:
        # The cycle starts now, and not at the creation of the row, which may be long ago.
        row.expression = with_start(row.expression, now)
    following = _following(row, now)
    if following is None:
        raise InvalidSchedule(f"expression: {row.expression!r} never fires again: all its times have passed.")
    row.next_time = following if row.enabled else None


def next_time(row: Schedule, now: datetime) -> datetime | None:
    """When a schedule fires next after now; None if it is disabled, or withdrawn by the code."""
    return _following(row, now) if row.enabled and not row.withdrawn else None


def _following(row: Schedule, now: datetime) -> datetime | None:
    # Do not fire a time again, even if clocks differ.
    return recurrence_of(row).next_after(now if row.last_time is None else max(now, row.last_time))


@audited
def delete_schedule(using: str, name: str) -> None:
    """Delete a schedule and the records of its firings; its jobs stay. Raises ScheduleNotFound.

    A schedule that the code declares returns when the next executor starts; disable it instead.
    """
    with transaction.atomic(using=using):
        row = _locked(using, name)
        if row.enabled:  # it must not fire while its firings are deleted
            Schedule.objects.using(using).filter(pk=row.pk).update(enabled=False, next_time=None)
    firings = ScheduleFiring.objects.using(using).filter(schedule_id=row.pk)
    while page := list(firings.values_list("pk", flat=True)[:_PAGE]):
        delete_rows(ScheduleFiring.objects.using(using).filter(pk__in=page))
    with transaction.atomic(using=using):
        locked = lock_rows(Schedule.objects.using(using).filter(pk=row.pk)).first()
        if locked is not None:
            delete_rows(ScheduleFiring.objects.using(using).filter(schedule_id=row.pk))
            delete_rows(Schedule.objects.using(using).filter(pk=row.pk))
            _note(using, row, None, None)


@audited
def set_enabled(using: str, name: str, enabled: bool) -> Schedule:
    """Enable or disable a schedule; return the row. Raises ScheduleNotFound.

    Times that pass while it is disabled do not count as missed: it continues with the first time after it was enabled.
    Without effect if it already has that state. Raises :class:`~jobexec.exceptions.InvalidSchedule` if it cannot be
    read.
    """
    with transaction.atomic(using=using):
        row = _locked(using, name)
        if row.enabled != checked_boolean(enabled):
            row.enabled = enabled
            row.next_time = next_time(row, clock.now(using))
            row.save(using=using, update_fields=["enabled", "next_time"])
            _note(using, row, {"enabled": not enabled}, {"enabled": enabled})
            wake_on_commit(using, schedules=True)
    return row


@audited
def fire_now(using: str, name: str) -> Any:
    """Create a job of a schedule now, in addition to its times; also if it is disabled. Returns the job.

    Raises ScheduleNotFound, :class:`~jobexec.exceptions.HandlerNotFound` if this process does not know its handler, and
    :class:`~jobexec.exceptions.InvalidJob` if the handler refuses its arguments or options.
    """
    with transaction.atomic(using=using):
        row = _locked(using, name)
        moment = _free_moment(using, row, clock.now(using))
        job = scheduled_jobs().enqueue(using, row.handler_type, row.handler_configuration, row.options, moment)
        ScheduleFiring.objects.using(using).create(
            schedule_id=row.pk, fire_time=moment, job_id=job.pk, create_time=clock.now(using)
        )
        row.fired += not getattr(job, "is_duplicate", False)  # an existing job with the unique key does the work
        row.save(using=using, update_fields=["fired"])
        _note(using, row, None, {"job": str(job.pk)})
    return job


def _free_moment(using: str, row: Schedule, moment: datetime) -> datetime:
    """A time at which this schedule has not fired; never one of its regular times, which are whole seconds."""
    taken = ScheduleFiring.objects.using(using).filter(schedule_id=row.pk)
    while not moment.microsecond or taken.filter(fire_time=moment).exists():
        moment -= timedelta(microseconds=1)
    return moment


def scheduled_for(using: str, job_id: UUID) -> datetime | None:
    """The time for which a schedule created this job; None for other jobs."""
    firings = ScheduleFiring.objects.using(using).filter(job_id=job_id)
    return firings.order_by("fire_time").values_list("fire_time", flat=True).first()


def schedule_problem(schedule: Schedule) -> str:
    """Why this process could not fire a schedule, as a message for users; '' if it could.

    An executor that meets such a schedule logs the same text, leaves it to others, and tries again every minute.
    """
    configuration = schedule.handler_configuration
    try:
        recurrence_of(schedule)
        args, kwargs = configuration["args"], configuration["kwargs"]
        scheduled_jobs().check(schedule.handler_type, args, kwargs, schedule.options)
    except JobExecError as error:
        return str(error)
    except (KeyError, TypeError) as error:
        return f"The arguments in its row cannot be read: {error!r}."
    return ""


def _locked(using: str, name: str) -> Schedule:
    row = lock_rows(Schedule.objects.using(using).filter(name=name)).first()
    if row is None:
        raise ScheduleNotFound(f"There is no schedule {shown(name)}.")
    return row


def _locked_or_new(using: str, name: str) -> tuple[Schedule, bool]:
    row = lock_rows(Schedule.objects.using(using).filter(name=name)).first()
    return (Schedule(name=name, create_time=clock.now(using)), True) if row is None else (row, False)
