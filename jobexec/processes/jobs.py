"""The jobs that carry processes on; found like those of every app."""

from __future__ import annotations

from datetime import datetime
from typing import Any
from uuid import UUID

from jobexec import clock
from jobexec.handlers.context import JobContext
from jobexec.handlers.decorator import job
from jobexec.operations.enqueue.create import create_jobs
from jobexec.retry import RetryPlan

from .engine.inputs import Continue, ErrorThrown, JobDone, JobFailed, Retried, Triggered
from .exceptions import Suspended
from .handlers.deliver import deliver
from .handlers.environment import is_quick
from .handlers.messages import receive
from .handlers.results import kept
from .handlers.signals import DELIVER
from .handlers.starting import start_instance
from .handlers.stepping import proceed, proceed_beside, proceed_or_fail
from .handlers.steps import is_last, take_timeout
from .handlers.together import StepGroup, begin_steps
from .operations.many import cancel_page
from .store.columns import place_of
from .store.incidents import RETRY
from .store.items import gathered
from .store.jobs import CONTINUE, GATHERED, NOT_GATHERED, RECEIVE, THREW, TIMER, WORKED
from .store.starts import START, is_replaced
from .store.suspensions import refusal_of_start
from .store.timers import following, of_cycle

__all__ = ["cancel_page"]


@job(name=CONTINUE, atomic=True)
def continue_token(context: JobContext, root: str, token: str, call: str = "") -> None:
    """Begin or leave an element. The step, and the end of this job, are one transaction. ``call`` is the handler that
    it begins with."""
    event = Continue(UUID(token), context.id)

    last: Exception | None = None

    def failed(error: Exception) -> JobFailed | None:
        nonlocal last
        if not is_last(context, error):
            return None
        last = error
        return JobFailed(event.token, event.job)

    group = context.group
    if isinstance(group, StepGroup):
        group.take(UUID(root), event)
    elif context.work.exclusive and (not call or is_quick(call)):  # nothing waits for long
        proceed_or_fail(context.using, UUID(root), event, failed)
    else:
        proceed_beside(context.using, UUID(root), event, context.work.tenant_id, failed)
    context.work.handled = last  # it has gone the way for failures, or had nowhere to go and was raised


def _end_of_timeout(context: JobContext, arguments: Any) -> None:
    """What a function has done in the transaction of its step is undone; what is left is the way for failures."""
    _, kwargs = arguments
    take_timeout(context, UUID(kwargs["root"]), UUID(kwargs["token"]))


continue_token.begin_group = begin_steps
continue_token.after_timeout = _end_of_timeout


@job(name=TIMER, atomic=True)
def fire_timer(
    context: JobContext,
    root: str,
    owner: str,
    element: str,
    activity: str | None = None,
    repeat: str = "",
    planned: str = "",
) -> None:
    """Let a timer fire; a cycle goes on if what it belongs to is still there."""
    event = Triggered(UUID(owner), element, UUID(activity) if activity else None)
    changes = proceed(context.using, UUID(root), event, savepoint=False)
    if repeat and changes is not None and changes.leave_armed(event.owner, element):
        kwargs = {"root": root, "owner": owner, "element": element, "activity": activity}
        _arm_again(context, kwargs, repeat, planned)


def _arm_again(context: JobContext, kwargs: dict[str, Any], repeat: str, planned: str) -> None:
    """The next job of a cycle. One that was made by an earlier version does not say for when it was planned."""
    now = clock.now(context.using)
    due = following(repeat, datetime.fromisoformat(planned) if planned else context.job.due_date or now, now)
    if due is not None:
        configuration = {"args": [], "kwargs": kwargs | of_cycle(repeat, due)}
        _make_again(context, {"handler_configuration": configuration, "due_date": due})


def _make_again(context: JobContext, changes: dict[str, Any]) -> None:
    """A new job like this one."""
    row = context.job
    kept = (
        "handler_type", "execution_id", "process_instance_id", "root_process_instance_id",
        "process_definition_id", "process_definition_key", "job_definition_id", "failed_activity_id", "tenant_id",
        "correlation_id", "exclusive", "atomic", "priority", "category", "retry_plan", "deployment_id",
    )  # fmt: skip
    columns: dict[str, Any] = {name: getattr(row, name) for name in kept}
    if row.retry_plan:  # those that are left of this one may be fewer
        columns["retries"] = RetryPlan.parse(row.retry_plan).attempts
    create_jobs(context.using, [columns | changes])


def _hold(context: JobContext, error: Suspended) -> None:
    """Make a job anew that cannot start an instance of a suspended process: the suspension holds it from now on.

    Also one that leaves alone what was there before it came into force. Raises the error if it is that of a process
    which is called.
    """
    row = context.job
    if refusal_of_start(context.using, row.process_definition_id, row.tenant_id) is None:
        raise error
    _make_again(context, {"handler_configuration": row.handler_configuration, "message": row.message})


@job(name=WORKED, atomic=True)
def take_work(context: JobContext, root: str, token: str, variables: dict[str, Any]) -> None:
    """Continue the token after an external worker has completed its job, with the variables that it sent."""
    proceed(context.using, UUID(root), JobDone(UUID(token), context.id, variables), savepoint=False)


@job(name=THREW, atomic=True)
def take_error(
    context: JobContext,
    root: str,
    token: str,
    activity: str,
    variables: dict[str, Any],
    error_code: str,
    error_message: str = "",
) -> None:
    """An external worker has ended its job with an error of the business."""
    thrown = ErrorThrown(UUID(token), UUID(activity), error_code, error_message, variables)
    proceed(context.using, UUID(root), thrown, savepoint=False)


@job(name=GATHERED, atomic=True)
def take_items(context: JobContext, root: str, token: str, batch: str) -> None:
    """All items of a long list have their results."""
    with kept():
        proceed(
            context.using,
            UUID(root),
            lambda tokens: gathered(tokens, UUID(token), UUID(batch)),
            UUID(token),
            savepoint=False,
        )


@job(name=NOT_GATHERED, atomic=True)
def fail_items(context: JobContext, root: str, token: str, batch: str) -> None:
    """Some items have failed for good. If no event catches that, their dead letters wait for an operator."""
    with kept():
        event = JobFailed(UUID(token), UUID(batch))
        proceed(context.using, UUID(root), event, savepoint=False)


@job(name=RETRY, atomic=True)
def retry_token(context: JobContext, root: str, token: str) -> None:
    """Retry the failed step of an element with an incident."""
    proceed(context.using, UUID(root), Retried(UUID(token)), savepoint=False)


@job(name=START, atomic=True, exclusive=False)
def start_by_timer(context: JobContext, definition: str, element: str, repeat: str = "", planned: str = "") -> None:
    """Start an instance at the time of a timer start event; a cycle goes on. In a suspended process it waits."""
    try:
        start_instance(context.using, definition, element=element, tenant_id=context.work.tenant_id)
    except Suspended as error:
        _hold(context, error)
        return
    if repeat and not is_replaced(context.using, definition):
        _arm_again(context, {"definition": definition, "element": element}, repeat, planned)


@job(name=RECEIVE, atomic=True)
def receive_message(context: JobContext, subscription: str) -> None:
    """A message that was published has come for a subscription."""
    if context.message is not None:
        receive(context.using, UUID(subscription), context.message)


@job(name=DELIVER, atomic=True)
def deliver_event(
    context: JobContext, subscription: str, variables: dict[str, Any] | None = None, noted: bool = False
) -> None:
    """Deliver a signal, or a message that was published, to one receiver; ``noted``: it has it among its messages.

    In a suspended process, one that starts an instance waits.
    """
    message = context.message
    try:
        if message is None:
            deliver(context.using, UUID(subscription), variables or {})
        else:
            number = None if noted else message.number
            deliver(context.using, UUID(subscription), message.payload, number=number)
    except Suspended as error:
        if context.work.process_instance_id:
            raise
        _hold(context, error)


for each in (
    *(continue_token, fire_timer, take_work, take_error, take_items, fail_items),
    *(retry_token, start_by_timer, receive_message, deliver_event),
):
    each.shown_call = place_of  # their arguments are ids
