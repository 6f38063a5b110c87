"""Explain why an instance waits, from its current rows alone: one reason for each execution at an element."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime
from functools import cached_property
from typing import Any
from uuid import UUID

from django.db.models import Model
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from jobexec.models import (
    JOB_TABLES,
    AbstractJob,
    BlockedJob,
    DeadLetterJob,
    ExternalWorkerJob,
    Job,
    SuspendedJob,
    TimerJob,
)
from jobexec.operations.values.humanize import both
from jobexec.operations.why.facts import Reason, iso

from ..definition import Kind, Process
from ..engine.rows import State
from ..models import EventSubscription, Execution, TaskCandidate, UserTask, Variable
from ..models.instance import RUNNING
from ..store.jobs import TIMER
from .query import MOST_ROWS, InstanceView

#: Reasons with these codes come first: nothing goes on without an operator.
_GRAVE = ("suspended_instance", "dead_letter", "no_job", "nothing")
#: Like reasons are listed up to this number, then counted.
_TOLD = 3


def why(view: InstanceView, process: Process | None, now: datetime) -> list[Reason]:
    """Why the instance waits, what needs an operator first. The texts are in the active language.

    ``details`` has ``element`` and ``since``, and the ids ``job``, ``batch``, ``task`` or ``instance`` of what it waits
    for.
    ``process`` is the definition, None if it is gone. One statement, for the candidates of its tasks.
    """
    instance = view.instance
    if instance.state not in RUNNING:
        return [_over(view, now), *_cut(view)]
    found = [*_suspended(view, now), *_Explanation(view, process, now).reasons()]
    if not found:
        text = _("It is running, but none of its elements waits. Run manage.py processes check to find out more.")
        found = [Reason("nothing", text)]
    return [*sorted(found, key=lambda reason: reason.code not in _GRAVE), *_cut(view)]


def shortened(reasons: Iterable[Reason]) -> list[Reason]:
    """The first of the reasons that are alike, of the same kind at the same element, and the number of the others."""
    found: list[Reason] = []
    for alike in _grouped((_kind(reason), reason) for reason in reasons).values():
        found += alike[:_TOLD]
        rest = len(alike) - _TOLD
        if rest > 0:
            text = ngettext("%(count)d more like this.", "%(count)d more like this.", rest) % {"count": rest}
            found.append(Reason("more", text, {"count": rest}))
    return found


def _kind(reason: Reason) -> tuple[str, str]:
    return reason.code, str(reason.details.get("element", ""))


def _over(view: InstanceView, now: datetime) -> Reason:
    instance = view.instance
    ended = both(instance.end_time, now) if instance.end_time else "?"
    values = {"state": instance.get_state_display(), "when": ended, "element": instance.end_element}
    if instance.end_element:
        text = _("It has ended (%(state)s, %(when)s), at %(element)s.") % values
    else:
        text = _("It has ended (%(state)s, %(when)s).") % values
    return Reason("over", text, {"state": instance.state, "end_time": iso(instance.end_time)})


def _suspended(view: InstanceView, now: datetime) -> Iterator[Reason]:
    found = view.suspension
    if found is None:
        return
    values = {"what": str(found), "until": both(found.activate_time, now) if found.activate_time else ""}
    if found.activate_time:
        text = _("Suspended until %(until)s: %(what)s.") % values
    else:
        text = _("Suspended: %(what)s.") % values
    yield Reason("suspended_instance", text, {"until": iso(found.activate_time)})


def _cut(view: InstanceView) -> Iterator[Reason]:
    if view.cut:
        text = _("It has more rows than are read, %(count)d of each table, of these: %(tables)s.")
        yield Reason("cut", text % {"count": MOST_ROWS, "tables": ", ".join(view.cut)}, {"tables": list(view.cut)})


class _Explanation:
    """The rows of one instance, by what they belong to."""

    def __init__(self, view: InstanceView, process: Process | None, now: datetime) -> None:
        self.view, self.process, self.now = view, process, now
        self.jobs = {job.pk: job for job in view.jobs}
        self.timers = _grouped((job.execution_id, job) for job in view.jobs if job.handler_type == TIMER)
        self.failed = {job.execution_id: job for job in view.jobs if isinstance(job, DeadLetterJob)}
        self.subscriptions = _grouped((row.owner_id, row) for row in view.subscriptions)
        self.tasks = {row.owner_id: row for row in view.tasks}

    def reasons(self) -> Iterator[Reason]:
        joins = set()
        for execution in self.view.executions:
            if execution.state == State.COMPENSABLE.value:
                continue
            if execution.state == State.JOINED.value:
                if (execution.parent_id, execution.element_id) in joins:
                    continue  # all that have arrived wait for the same
                joins.add((execution.parent_id, execution.element_id))
            yield from self._at(execution)
            yield from self._items(execution)
        yield from self._events(self.view.instance.pk, "")

    def _at(self, execution: Execution) -> Iterator[Reason]:
        state = State(execution.state)
        task = self.tasks.get(execution.pk)
        if state is State.SCOPE:
            pass
        elif state is State.FAILED:
            yield self._incident(execution, self.failed.get(str(execution.pk)))
        elif execution.job_id is not None:
            yield self._job(execution, self.jobs.get(execution.job_id))
        elif state is State.JOINED:
            yield self._join(execution)
        elif execution.called_instance_id is not None:
            yield self._called(execution)
        elif task is not None:
            yield self._task(execution, task)
        elif not self._waits_for_events(execution):
            yield self._waits(execution)
        yield from self._events(execution.pk, execution.element_id)

    def _reason(
        self, code: str, text: str, execution: Execution, row: Model | None = None, plain: str = "", **values: Any
    ) -> Reason:
        """A reason. If it repeats a row, users who may not view its table get ``plain``, or only that it waits."""
        since = both(execution.entered_at, self.now) if execution.entered_at else "?"
        told = {"element": self._name(execution.element_id), "since": since, **values}
        details = {"element": execution.element_id, "since": iso(execution.entered_at)}
        details |= {name: str(value) for name, value in values.items() if isinstance(value, UUID)}
        table = None if row is None else type(row)
        return Reason(code, text % told, details, table, (plain or _waiting()) % told if table else "")

    def _waits(self, execution: Execution, **values: Any) -> Reason:
        return self._reason("waits", _waiting(), execution, **values)

    @cached_property
    def _jobs_are_cut(self) -> bool:
        """Whether the job of an element may be among those that were not read."""
        return any(str(table._meta.verbose_name_plural) in self.view.cut for table in JOB_TABLES)

    def _name(self, element: str) -> str:
        node = self.process.find(element) if self.process else None
        return f"{node.name} ({element})" if node is not None and node.name else element

    # What an execution waits for.

    def _waits_for_events(self, execution: Execution) -> bool:
        return bool(self.subscriptions.get(execution.pk) or self.timers.get(str(execution.pk)))

    def _incident(self, execution: Execution, job: AbstractJob | None) -> Reason:
        if job is None and self._jobs_are_cut:
            return self._waits(execution)
        if job is None:
            return self._reason("no_job", _("%(element)s has failed, and its dead letter no longer exists."), execution)
        values = {"job": job.pk, "exception": _sentence(job.exception_message)}
        return self._reason("dead_letter", _with_incident(), execution, job, _incident(), **values)

    def _job(self, execution: Execution, job: AbstractJob | None) -> Reason:
        if job is None and execution.data.get("batch"):
            failed = self.failed.get(str(execution.pk))
            return self._incident(execution, failed) if failed else self._waits(execution, batch=execution.job_id)
        if job is None and self._jobs_are_cut:
            return self._waits(execution)
        if job is None:
            text = _("%(element)s waits for a job that does not exist. The job may have ended a moment ago.")
            return self._reason("no_job", text, execution)
        if isinstance(job, DeadLetterJob):
            return self._incident(execution, job)
        code, text, values = _told_of(job, self.now)
        return self._reason(code, text, execution, job, job=job.pk, **values)

    def _items(self, execution: Execution) -> Iterator[Reason]:
        """How far a long list is."""
        items = self.view.items.get(execution.pk)
        if items is not None:
            text = _("%(element)s, the items of its list: %(done)d done, %(left)d left, %(failed)d failed.")
            yield self._reason("items", text, execution, batch=execution.job_id, **items._asdict())

    def _join(self, execution: Execution) -> Reason:
        missing = ", ".join(self._name(id) for id in self._missing(execution))
        if not missing:
            return self._reason("join", _("%(element)s waits for the other paths that lead to it."), execution)
        text = _("%(element)s joins several paths and waits for: %(missing)s.")
        return self._reason("join", text, execution, missing=missing)

    def _missing(self, execution: Execution) -> list[str]:
        """From where a join still waits for tokens."""
        node = self.process.find(execution.element_id) if self.process else None
        if node is None or self.process is None:
            return []
        here = [other for other in self.view.executions if other.parent_id == execution.parent_id]
        arrived = {other.flow_id for other in here if other.element_id == node.id and other.state == State.JOINED.value}
        flows = [flow for flow in self.process.incoming(node.id) if flow.id not in arrived]
        if node.kind is Kind.PARALLEL_GATEWAY:
            return [flow.source for flow in flows]
        others = dict.fromkeys(other.element_id for other in here if other.element_id != node.id)
        return [id for id in others if any(self.process.can_reach(id, flow.id) for flow in flows)]

    def _called(self, execution: Execution) -> Reason:
        called = next((row for row in self.view.called if row.pk == execution.called_instance_id), None)
        text = _("%(element)s has been waiting for the called instance %(called)s since %(since)s.")
        named = called or execution.called_instance_id
        return self._reason("called", text, execution, called=str(named), instance=execution.called_instance_id)

    def _task(self, execution: Execution, task: UserTask) -> Reason:
        values: dict[str, Any] = {"task": task.pk, "assignee": task.assignee}
        if task.assignee:
            text = _("%(element)s is a task of %(assignee)s, created on %(since)s.")
        elif candidates := self._candidates.get(task.pk):
            text = _("%(element)s is an unclaimed task, created on %(since)s. Candidates: %(candidates)s.")
            values["candidates"] = ", ".join(candidates)
        else:
            text = _("%(element)s is an unclaimed task, created on %(since)s.")
        return self._reason("task", text, execution, task, **values)

    @cached_property
    def _candidates(self) -> dict[UUID, list[str]]:
        using = self.view.instance._state.db or "default"
        rows = TaskCandidate.objects.using(using).filter(task_id__in=[task.pk for task in self.view.tasks])
        return _grouped((row.task_id, row.name) for row in rows.order_by("kind", "name"))

    # What can happen to it meanwhile.

    def _events(self, owner: UUID, element: str) -> Iterator[Reason]:
        for row in self.subscriptions.get(owner, []):
            yield self._subscription(row, row.element_id == element)
        for job in self.timers.get(str(owner), []):
            yield self._timer(job, job.failed_activity_id == element)

    def _subscription(self, row: EventSubscription, own: bool) -> Reason:
        values = {"element": self._name(row.element_id), "name": row.name, "key": row.key}
        values["since"] = both(row.create_time, self.now)
        if row.kind == "signal":
            text = _("%(element)s has been waiting for the signal %(name)s since %(since)s.")
        else:
            text = _("%(element)s has been waiting for the message %(name)s since %(since)s.")
        plain, table = text, None
        if row.key and row.kind != "signal":  # it is mostly the value of a variable
            table = Variable
            text = _("%(element)s has been waiting for the message %(name)s with the key %(key)s since %(since)s.")
        details = {"element": row.element_id, "name": row.name, "key": row.key, "since": iso(row.create_time)}
        return Reason(row.kind if own else f"{row.kind}_beside", text % values, details, table, plain % values)

    def _timer(self, job: AbstractJob, own: bool) -> Reason:
        element = job.failed_activity_id
        details = {"element": element, "job": str(job.pk), "due_date": iso(job.due_date)}
        if isinstance(job, DeadLetterJob):
            values = {"element": self._name(element), "exception": _sentence(job.exception_message)}
            return Reason("dead_letter", _with_incident() % values, details, type(job), _incident() % values)
        due = both(job.due_date or job.create_time, self.now)
        text = _("%(element)s fires on %(due)s.") % {"element": self._name(element), "due": due}
        plain = _("%(element)s waits for a timer.") % {"element": self._name(element)}
        return Reason("timer" if own else "timer_beside", text, details, type(job), plain)


def _waiting() -> str:
    return _("%(element)s has been waiting since %(since)s.")


def _incident() -> str:
    return _("%(element)s has an incident.")


def _with_incident() -> str:
    return _("%(element)s has an incident: %(exception)s Requeue its dead letter to try again.")


def _told_of(job: AbstractJob, now: datetime) -> tuple[str, str, dict[str, Any]]:
    """What is with a job that is no dead letter: a code, a text, and the values in it."""
    due = both(job.due_date, now) if job.due_date else "?"
    if isinstance(job, ExternalWorkerJob):
        if job.lock_owner is not None:
            return "worker", _("%(element)s: the worker %(worker)s holds its job."), {"worker": job.lock_owner}
        return (
            "worker",
            _("%(element)s waits for a worker that fetches jobs of type %(type)s."),
            {"type": job.handler_type},
        )
    if isinstance(job, SuspendedJob):
        return "suspended", _("%(element)s: its job is suspended."), {}
    if isinstance(job, BlockedJob):
        return "blocked", _("%(element)s: its job waits for the resource %(resource)s."), {"resource": job.resource}
    if isinstance(job, TimerJob) and job.attempts:
        text = _("%(element)s: attempt %(made)d of its job failed; the next one is due on %(due)s: %(exception)s")
        return "retry", text, {"made": job.attempts, "due": due, "exception": job.exception_message}
    if isinstance(job, TimerJob):
        return "due", _("%(element)s: its job is due on %(due)s."), {"due": due}
    if isinstance(job, Job) and job.locked:
        return "running", _("%(element)s: its job is in progress."), {}
    return "executable", _("%(element)s: its job waits for an executor."), {}


def _sentence(text: str) -> str:
    line = text.strip().partition("\n")[0][:300] or "?"
    return line if line.endswith((".", "!", "?")) else f"{line}."


def _grouped(pairs: Iterable[tuple[Any, Any]]) -> dict[Any, list[Any]]:
    groups: dict[Any, list[Any]] = {}
    for key, value in pairs:
        groups.setdefault(key, []).append(value)
    return groups
