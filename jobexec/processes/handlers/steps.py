"""Functions that run as steps in jobs of their own, in autocommit, without any lock.

The job has the name of the function after ``step:``, so that operators see what runs, and its arguments, options and
sensitive names. When the function has returned, a short step takes the result, once: the token names the job. If the
process is killed before that, the function runs again; after it, the job finds that its token has gone on, and ends.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from copy import copy
from inspect import iscoroutinefunction
from typing import Any, NamedTuple
from uuid import UUID

from asgiref.sync import sync_to_async
from django.db import transaction
from django.db.transaction import get_connection

from jobexec import clock, tracing
from jobexec.exceptions import DoNotRetry, JobTimeout, RetryIn
from jobexec.executor.run.execution import failure_of
from jobexec.handlers.base import JobHandler, NotBegun, SharedEnd
from jobexec.handlers.context import JobContext
from jobexec.handlers.function import JobFunction
from jobexec.handlers.registry import add_resolver, find_handler, registered
from jobexec.models import DeadLetterJob
from jobexec.operations.settle.verdict import decide
from jobexec.operations.sql.errors import is_conflict
from jobexec.operations.sql.session import is_of_connection
from jobexec.operations.values.acquired_job import AcquiredJob
from jobexec.retry import default_plan

from ..engine.environment import HandlerCall
from ..engine.exceptions import BpmnError
from ..engine.inputs import ErrorThrown, JobDone, JobFailed
from ..engine.tokens import Tokens
from ..store import definitions, load
from ..store.columns import place_of
from ..store.items import is_awaited, keep_item
from ..store.jobs import CONTINUE, ITEM, PLANNED, STEP, discard_job
from . import results
from .environment import noting_variables, run_coroutine, run_service
from .registry import has_coroutines, service
from .stepping import End, proceed, proceed_together

#: Seconds for which what was known before is good enough.
_JUST = 0.05
#: Seconds before another attempt to take the result of a function, which runs again.
_PAUSE = 1
#: Seconds for which the end of a run waits for its failure by a timeout to be committed.
_SETTLING = 30.0
#: How often the way for failures is tried in a conflict, after a function that must not run again.
_TRIES = 3


class StepFunction:
    """Runs a job function as a step; everything else is the function's."""

    def __init__(self, function: JobFunction[..., Any]) -> None:
        self.function = function
        self.name = f"{STEP}{function.name}"
        self.aliases = tuple(f"{STEP}{alias}" for alias in function.aliases)
        self.shown_call = function.shown_call

    def __repr__(self) -> str:
        return f"<step {self.function.name}>"

    @staticmethod
    def look_ahead(using: str, works: Sequence[AcquiredJob]) -> None:
        """Find the tokens that wait for several jobs (:data:`~jobexec.handlers.base.LookAhead`)."""
        found = load.all_waiting(using, [work.id for work in works])
        now = clock.monotonic()
        for work in works:
            if work.id in found:
                work.ahead = now, found[work.id]

    @property
    def retry_plan(self) -> Any:
        return self.function.retry_plan

    def definition(self) -> dict[str, Any]:
        return self.function.definition() | {"id": self.name, "handler_type": self.name}

    def read(self, configuration: str) -> Any:
        return self.function.read(configuration)

    def sensitive_names(self) -> Sequence[str]:
        return self.function.sensitive_names()

    def names_of(self, count: int) -> Sequence[str]:
        return self.function.names_of(count)

    @property
    def is_async(self) -> bool:
        return self.function.is_async

    def execute(self, context: JobContext, arguments: Any) -> Any:
        """Call the function and take its result.

        The job also succeeds after an error of the business, and if no token waits for it any more.
        """
        token = self._find(context)
        if token is None:
            return None
        try:
            result = self.function.execute(context, arguments)
        except NotBegun:
            raise
        except Exception as error:
            self._take_error(context, token, error)
        else:
            self._take(context, token, result)
        return None

    async def execute_async(self, context: JobContext, arguments: Any) -> Any:
        """The same on an event loop; a thread is needed only before and after the function."""
        token = await sync_to_async(self._find)(context)
        if token is None:
            return None
        try:
            result = await self.function.execute_async(context, arguments)
        except NotBegun:
            raise
        except Exception as error:
            await sync_to_async(self._take_error)(context, token, error)
        except asyncio.CancelledError:
            if context.timed_out:
                await sync_to_async(self._take_timeout)(context, token)
            raise
        else:
            await sync_to_async(self._take)(context, token, result)
        return None

    def _find(self, context: JobContext) -> _Waiting | None:
        return _looked_up(context)

    def _take_timeout(self, context: JobContext, token: _Waiting) -> None:
        take_timeout(context, token.root, token.id)

    def _take(self, context: JobContext, token: _Waiting, result: Any) -> None:
        if context.timed_out:
            self._take_timeout(context, token)
            return
        outcome = result if isinstance(result, _Outcome) else _Outcome(result, {})
        done = JobDone(token.id, context.id, results.checked(outcome.result, self.function.name), outcome.changed)
        if context.shares_end and token.definition and _works_in_jobs(context.using, token.definition):
            traceparent = tracing.current() if tracing.AVAILABLE else ""
            context.shared_end = SharedEnd(proceed_together, End(token.root, done, traceparent))
        else:
            _take_outcome(context.using, token.root, done)

    def _take_error(self, context: JobContext, token: _Waiting, error: Exception) -> None:
        """Raise the error again, unless it is one of the business. If it is the last one, it may be handled."""
        if context.timed_out:
            self._take_timeout(context, token)
        elif isinstance(error, BpmnError):
            thrown = ErrorThrown(token.id, token.activity, error.code, error.message, error.variables)
            _take_outcome(context.using, token.root, thrown)
        else:
            if is_last(context, error) and _is_over(context, token, error):
                context.work.handled = error
            raise error


def _is_over(context: JobContext, token: _Waiting, error: Exception, tries: int = _TRIES) -> bool:
    """Whether the last failure of a job leaves no dead letter: there is a way for failures, or nobody waits for it.

    If that cannot be found out, the function is called again, except after DoNotRetry, which then is raised.
    """
    try:
        with _if_away(_again):
            return fails(context, token.root, token.id, error) or _waiting(context) is None
    except RetryIn as postponed:
        if not isinstance(error, DoNotRetry):
            raise
        if tries > 1 and postponed.__cause__ is not None and is_conflict(postponed.__cause__):
            return _is_over(context, token, error, tries - 1)
        raise error from None


def take_timeout(context: JobContext, root: UUID, token: UUID) -> None:
    """The job has failed at its timeout, whatever its function did afterwards. If that was its last attempt, the token
    takes the way for failures, if there is one, and the dead letter goes, which must be there before."""
    settled, left = context.timeout_settled, context.work.retries > 1
    if (left and not _asks(find_handler(context.handler_type))) or (settled and not settled.wait(_SETTLING)):
        return
    if left and not DeadLetterJob.objects.using(context.using).filter(pk=context.id).exists():
        return
    with transaction.atomic(using=context.using):
        if fails(context, root, token, JobTimeout()):
            discard_job(context.using, context.work.process_instance_id, context.id)


def _take_outcome(using: str, root: UUID, outcome: JobDone | ErrorThrown) -> None:
    """The step that follows a function. What is wrong with it is no reason to run the function again."""
    with results.kept(), _if_away(_again):
        proceed(using, root, outcome)


@contextmanager
def _if_away(instead: Callable[[str], Exception]) -> Iterator[None]:
    """Raise something else if the database is away: NotBegun before a function is called, and after it _again."""
    try:
        yield
    except Exception as error:
        if is_of_connection(error):
            raise instead(str(error)) from error
        raise


def _again(problem: str) -> RetryIn:
    """The function has not failed: it runs again, and spends no retry."""
    return RetryIn(_PAUSE, "The database was not available when its result was recorded.", count=False)


def _works_in_jobs(using: str, definition: str) -> bool:
    with _if_away(_again):
        return definitions.process(using, definition).works_in_jobs


class _Outcome(NamedTuple):
    """What a service task returns, and the variables that it has changed before."""

    result: Any
    changed: dict[str, Any]


class _Waiting(NamedTuple):
    root: UUID
    id: UUID
    activity: UUID
    definition: str
    """That of the topmost instance; '' if the token is in one that was called."""
    element: str = ""


class ItemFunction(StepFunction):
    """Runs a job function for one item of a long list. Its result is kept beside the token that waits for all of them;
    the step that takes them all is that of the job that follows their batch."""

    def __init__(self, function: JobFunction[..., Any]) -> None:
        super().__init__(function)
        self.name = f"{ITEM}{function.name}"
        self.aliases = tuple(f"{ITEM}{alias}" for alias in function.aliases)

    def _find(self, context: JobContext) -> _Waiting | None:
        batch = context.work.batch_id
        return _looked_up(context, batch) if batch is not None else None

    def execute(self, context: JobContext, arguments: Any) -> Any:
        """In an atomic job, the function and its result are one transaction with the end of the job."""
        with transaction.atomic(using=context.using) if context.work.atomic else nullcontext():
            return super().execute(context, arguments)

    def _take(self, context: JobContext, token: _Waiting, result: Any) -> None:
        """Keep the result, once, however often the function runs. If its list is no longer waited for, what the
        function has done in the job's transaction is undone."""
        checked, batch = results.checked(result, self.function.name), context.work.batch_id
        assert batch is not None
        with _if_away(_again):
            if _is_kept(context.using, token):
                kept = keep_item(context.using, token.root, token.id, context.id, batch, checked)
            else:
                kept = not context.work.atomic or is_awaited(context.using, token.id, batch)
        if not kept and context.work.atomic:
            transaction.set_rollback(True, using=context.using)

    def _take_error(self, context: JobContext, token: _Waiting, error: Exception) -> None:
        raise error

    def _take_timeout(self, context: JobContext, token: _Waiting) -> None:
        """The step that follows the batch counts its failures."""


def _is_kept(using: str, token: _Waiting) -> bool:
    """Whether something reads the list of results."""
    loop = definitions.process(using, token.definition).node(token.element).loop if token.definition else None
    return loop is None or loop.results is not None


def _looked_up(context: JobContext, job: UUID | None = None) -> _Waiting | None:
    """As :func:`_waiting`, before the function."""
    with _if_away(NotBegun):
        return _waiting(context, job)


def _waiting(context: JobContext, job: UUID | None = None) -> _Waiting | None:
    """The token that waits for this job, or for that batch; None if it has gone on, or was cancelled.

    Once, it may be what was found just before for several jobs, or what the step that made the job has known; whether
    it still waits at the end, its lock will tell.
    """
    ahead, context.work.ahead = context.work.ahead, None
    if ahead is not None and clock.monotonic() - ahead[0] < _JUST:
        row = ahead[1]
    else:
        row = load.waiting(context.using, context.id, job or context.id)
    if row is None:
        return None
    root, id, activity, instance, definition, element = row
    return _Waiting(root, id, activity, definition if instance == root else "", element)


def is_last(context: JobContext, error: Exception) -> bool:
    """Whether this failure makes the job a dead letter, as will be decided when it is recorded.

    The row is read only if its numbers, or a plan that is a function, can make a difference.
    """
    handler, left = find_handler(context.handler_type), context.work.retries > 1
    failure = failure_of(error, context.using, handler, context.shutting_down)
    if failure.kind in ("fatal", "interrupted"):
        return failure.kind == "fatal"
    if (failure.kind == "error" or left) and (failure.retry_at is not None or not _asks(handler)):
        return not left
    if get_connection(context.using).needs_rollback:
        return False  # the transaction is over, and with it whatever would happen instead
    with _if_away(_again):
        row = context.work.held().first()
    return row is not None and decide(row, failure, clock.now(context.using)).due_date is None


def _asks(handler: JobHandler | None) -> bool:
    """Whether the plan for jobs without one of their own is a function, which may say that there is no other try."""
    plan = handler.retry_plan if handler is not None else None
    return (plan or default_plan()).function is not None


def fails(context: JobContext, root: UUID, token: UUID, error: Exception) -> bool:
    """Take the way for failures, if there is one."""
    try:
        return proceed(context.using, root, JobFailed(token, context.id)) is not None
    except results.NOT_KEPT as problem:  # as a failure, it would let a function run again that must not
        then = f"the process cannot continue after this failure: {type(problem).__name__}: {problem}"
        raise DoNotRetry(f"{type(error).__name__}: {error} ({then})") from error


def resolve(name: str) -> JobHandler | None:
    """The handler of a step, for jobexec's registry."""
    if name.startswith(ITEM):
        function = registered(name[len(ITEM) :])
        return ItemFunction(function) if isinstance(function, JobFunction) else None
    if name.startswith(PLANNED):
        function, step = registered(name[len(PLANNED) :]), registered(CONTINUE)
        return _planned(step, function) if isinstance(function, JobFunction) and isinstance(step, JobFunction) else None
    if not name.startswith(STEP):
        return None
    named = name[len(STEP) :]
    function = registered(named)
    if isinstance(function, JobFunction):
        return StepFunction(function)
    task = service(named)
    return None if task is None else StepFunction(_service_step(named, task))


def _planned(step: JobFunction[..., Any], function: JobFunction[..., Any]) -> JobFunction[..., Any]:
    """A step whose failures are those of the function that is called in it."""
    made = copy(step)
    made.retry_plan = function.retry_plan
    return made


def _service_step(name: str, task: Callable[..., Any]) -> JobFunction[..., Any]:
    """A service task that a file puts outside of the step, as a job function: its variables are read without a lock."""

    def run(context: JobContext, root: str, token: str, arguments: Any = None) -> Any:
        tokens, call = _call_of(context, root, token, arguments)
        with noting_variables(tokens):
            return None if call is None else _Outcome(run_service(task, call), call.changed)

    async def run_async(context: JobContext, root: str, token: str, arguments: Any = None) -> Any:
        tokens, call = await sync_to_async(_call_of)(context, root, token, arguments)
        with noting_variables(tokens):
            return None if call is None else _Outcome(await run_coroutine(task, call), call.changed)

    made: JobFunction[..., Any] = JobFunction(run_async if iscoroutinefunction(task) else run, name, (), True, {})
    made.shown_call = place_of
    return made


def _call_of(context: JobContext, root: str, token: str, arguments: Any) -> tuple[Tokens, HandlerCall | None]:
    """None if the token has gone on meanwhile: then no result is taken."""
    with _if_away(NotBegun):
        tokens = load.load_unlocked(context.using, UUID(root), UUID(token))
        place = tokens.token(UUID(token)) if tokens is not None else None
        if tokens is None or place is None:
            return Tokens(), None
        node = definitions.process(context.using, tokens.instance(place).definition).node(place.element)
    assert node.work is not None
    return tokens, HandlerCall(node, node.work, arguments, tokens.scope(place))


def use() -> None:
    """Let executors find the handlers of steps."""
    add_resolver(resolve, has_coroutines)
