"""Claim and complete user tasks."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any
from uuid import UUID

from django.db import transaction

from jobexec.operations.audit import audited, note
from jobexec.operations.sql.locks import lock_rows

from ..definition import When
from ..engine.inputs import Assigned, Completed, ErrorThrown, Input
from ..engine.tokens import Tokens
from ..exceptions import NotCandidate, TaskOver
from ..handlers.results import check_variables
from ..handlers.stepping import proceed
from ..models import TaskCandidate, UserTask
from ..store import definitions
from ..store.suspensions import refuse_step
from .named import which

Task = UserTask | UUID
#: The type of a task in the audit log.
TASK = "usertask"


@audited
def claim(task: Task, user: Any, *, override: bool = False, using: str | None = None) -> UserTask:
    """Assign a task to a user; with ``override``, even if another user has it, or this one is no candidate.

    Raises TaskOver if it is not free, and NotCandidate for a user who may not take it (:func:`may_take`). The name of a
    user, which may be one that this project does not know, is not checked.
    """
    database, id = which(task, UserTask, using)
    name = _name(user)

    def may(row: UserTask) -> bool:
        if override:
            return True
        if not row.assignee:
            _check_candidate(database, row, user)
        return row.assignee in ("", name)

    found = _assign(database, id, name, may)
    if found is None:
        raise TaskOver(f"The task {id} is done, or another user has it.")
    return found


@audited
def release(task: Task, *, using: str | None = None) -> None:
    """Remove the assignee of a task. Its candidates can claim it again."""
    database, id = which(task, UserTask, using)
    if _assign(database, id, "", lambda row: True) is None:
        raise TaskOver(f"The task {id} is done.")


def _assign(using: str, id: UUID, name: str, may: Callable[[UserTask], bool]) -> UserTask | None:
    """Change the assignee, if the task is open and ``may`` says so; returns its row.

    If the model has listeners to that, they are called in a step of the hierarchy, whose lock comes before any other.
    """
    known = UserTask.objects.using(using).filter(pk=id).first()
    if known is None:
        return None
    assigned: list[UserTask] = []

    def change(tokens: Tokens | None = None) -> Input | None:
        row = lock_rows(UserTask.objects.using(using).filter(pk=id)).first()
        if row is None or not may(row):
            return None
        refuse_step(using, row.instance_id)
        before, row.assignee = row.assignee, name
        row.save(using=using, update_fields=["assignee"])
        note(using, TASK, id, new={"assignee": name}, tenant=row.tenant_id)
        assigned.append(row)
        return None if before == name else Assigned(row.owner_id, row.activity_id)  # type: ignore[arg-type]

    node = definitions.process(using, known.definition_id).find(known.element_id)
    with transaction.atomic(using=using):
        if node is not None and any(listener.when is When.ASSIGNMENT for listener in node.listeners):
            proceed(using, known.root_id, change, known.owner_id, savepoint=False)
        else:
            change()
    return assigned[0] if assigned else None


@audited
def complete(
    task: Task, variables: Mapping[str, Any] | None = None, *, user: Any = None, using: str | None = None
) -> None:
    """Complete a task. The process takes its next step in the caller's transaction.

    With a ``user``, the task must be assigned to this user, or be one that the user may claim. Raises TaskOver,
    NotCandidate, and what the step raises.
    """
    given = dict(variables or {})
    check_variables(given)
    _end(task, user, using, lambda row: Completed(row.owner_id, row.activity_id, given), given)  # type: ignore[arg-type]


@audited
def throw_error(
    task: Task, code: str, message: str = "", variables: Mapping[str, Any] | None = None, *, using: str | None = None
) -> None:
    """End a task with a business error, which an error event catches. Raises UncaughtError if no event catches it."""
    given = dict(variables or {})
    check_variables(given)
    event = partial(ErrorThrown, code=code, message=message, variables=given)
    _end(task, None, using, lambda row: event(row.owner_id, row.activity_id), {"code": code, **given})  # type: ignore[arg-type]


def _end(task: Task, user: Any, using: str | None, event: Callable[[UserTask], Input], told: Mapping[str, Any]) -> None:
    """Who may end a task is decided under the locks of its hierarchy and its row: another may be claiming it."""
    database, id = which(task, UserTask, using)
    rows = UserTask.objects.using(database).filter(pk=id)
    known = rows.first()

    def change(tokens: Tokens) -> Input | None:
        row = lock_rows(rows).first()
        if row is None or (user is not None and row.assignee not in ("", _name(user))):
            return None
        if user is not None and not row.assignee:
            _check_candidate(database, row, user)
        refuse_step(database, row.instance_id)
        return event(row)

    with transaction.atomic(using=database):
        done = None if known is None else proceed(database, known.root_id, change, known.owner_id, savepoint=False)
        if known is not None and done is not None:
            note(database, TASK, id, new=told, tenant=known.tenant_id)
    if done is None:
        raise TaskOver(f"The task {id} is done, or another user has it.")


def may_take(using: str, task: UserTask, user: Any) -> bool:
    """Whether a user may take a task that nobody has: it has no candidates, or the user is one of them.

    So may superusers, and users with the permission ``change_usertask``.
    """
    candidates = TaskCandidate.objects.using(using).filter(task_id=task.pk)
    found = set(candidates.values_list("kind", "name"))
    if not found or (TaskCandidate.USER, user.get_username()) in found:
        return True
    groups = [name for kind, name in found if kind == TaskCandidate.GROUP]
    return user.groups.filter(name__in=groups).exists() or bool(user.has_perm("jobexec_processes.change_usertask"))


def _check_candidate(using: str, task: UserTask, user: Any) -> None:
    if not isinstance(user, str) and not may_take(using, task, user):
        raise NotCandidate(f"{user.get_username()} is none of the candidates of the task {task.pk}.")


def _name(user: Any) -> str:
    return user if isinstance(user, str) else str(user.get_username())
