"""A step: from one event until every token waits again."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any
from uuid import UUID

from ..definition import Kind, When
from . import arrivals, calls, cancel, compensation, errors, joins, modify, tasks, triggers
from .environment import Environment
from .events import starts_by_event
from .exceptions import BpmnError, NoStart, UncaughtError
from .inputs import (
    Assigned,
    Cancelled,
    Completed,
    Continue,
    ErrorThrown,
    EscalationThrown,
    Input,
    JobDone,
    JobFailed,
    Modified,
    Retried,
    Start,
    Triggered,
)
from .moves import Do, Moves
from .rows import AT_JOBS, RUNNING, Instance, InstanceState, Place, State, Token
from .tokens import Changes, Tokens


def step(rows: Tokens, event: Input, environment: Environment) -> Changes:
    """Move the tokens of a hierarchy as an event says, and return what changed.

    Raises StepError, and whatever an expression, a handler or a listener raises, except BpmnError; the rows are then
    of no use any more.
    """
    return step_with_all(rows, [event], environment)


def step_with_all(rows: Tokens, events: Iterable[Input], environment: Environment) -> Changes:
    """As :func:`step`, for events that come one after the other; it is accepted if one of them is."""
    steps = Steps(rows, environment)
    for event in events:
        steps.occur(event)
    return steps.end()


class Steps:
    """Events that come one after the other, before what has changed is collected.

    Raises what :func:`step` raises; the rows are then of no use any more.
    """

    def __init__(self, rows: Tokens, environment: Environment) -> None:
        self._rows, self._moves = rows, Moves(rows, environment)
        self._accepted = False

    def occur(self, event: Input, environment: Environment | None = None) -> None:
        """Move the tokens as an event says. From now on, ``environment`` is the one that is asked."""
        moves = self._moves
        if environment is not None:
            moves.environment = environment
        begin: Callable[[Moves, Any], bool] = _BEGIN[type(event)]
        moves.skip_listeners = isinstance(event, Cancelled | Modified) and event.skip_listeners
        with self._caught():
            if begin(moves, event):
                self._accepted = True
                moves.start_counting()
                _run(moves)

    def end(self) -> Changes:
        """Collect what has changed. Inclusive joins are asked now, once."""
        if not self._accepted:
            return Changes(accepted=False)
        with self._caught():
            while joins.settle(self._moves):
                _run(self._moves)
        return self._rows.collect()

    @contextmanager
    def _caught(self) -> Iterator[None]:
        """An error that is thrown where no token waits for an operator: by a modification, for example."""
        try:
            yield
        except BpmnError as error:
            root = next(row for row in self._rows.instances_at_hand if row.parent is None)
            raise UncaughtError(self._moves.process(root).key, error.uncaught) from error


def _run(moves: Moves) -> None:
    while moves.agenda:
        what, place, argument = moves.agenda.pop()
        if not isinstance(place, Token) or place.alive:
            _do(moves, what, place, argument)


def _do(moves: Moves, what: Do, place: Place, argument: Any) -> None:
    try:
        if what is Do.TRIGGER:
            triggers.deliver(moves, argument)
        elif what is Do.COMPENSATE:
            compensation.undo_next(moves, place)
        elif what is Do.DECIDE:
            assert isinstance(place, Token)
            triggers.decide(moves, place, *argument)
        else:
            assert isinstance(place, Token)
            _WITH_TOKEN[what](moves, place)
    except BpmnError as error:
        if not isinstance(place, Token) or not place.alive:
            raise  # nothing is left that could catch it
        errors.throw_error(moves, place, error, what)


_WITH_TOKEN: dict[Do, Callable[[Moves, Token], None]] = {
    Do.ENTER: arrivals.enter,
    Do.BEGIN: arrivals.begin,
    Do.COMPLETE: arrivals.complete,
    Do.DEPART: arrivals.depart,
}


# How each event begins. False: what it is about is not there any more.


def _start(moves: Moves, event: Start) -> bool:
    instance = moves.new_instance(event.instance, event.definition, business_key=event.business_key)
    process = moves.process(instance)
    if event.commands:
        _set_variables(moves, instance, event)
        calls.open_instance(moves, instance)
        modify.apply(moves, instance, event.commands)
        return True
    node = process.find(event.element) if event.element else process.start_event(None)
    if node is None or node.kind is not Kind.START_EVENT or node.parent is not None:
        raise NoStart(process.key, f"there is no start event {event.element or 'without an event definition'}.")
    _set_variables(moves, instance, event)
    calls.start(moves, instance, node)
    return True


def _set_variables(moves: Moves, instance: Instance, event: Start) -> None:
    for name, value in event.variables.items():
        moves.rows.set_local(instance, name, value)


def _token_with_job(moves: Moves, token: UUID, job: UUID, *states: State) -> Token | None:
    """A token that waits for this job; the job is about to be gone by itself."""
    found = moves.rows.token(token)
    if found is None or found.job != job or found.state not in states:
        return None
    return found


def _continue(moves: Moves, event: Continue) -> bool:
    token = _token_with_job(moves, event.token, event.job, State.BEFORE, State.AFTER)
    if token is None:
        return False
    token.job = None
    if token.state is State.BEFORE:
        token.ran = event.job
    moves.go(token, Do.BEGIN if token.state is State.BEFORE else Do.DEPART)
    return True


def _job_done(moves: Moves, event: JobDone) -> bool:
    token = _token_with_job(moves, event.token, event.job, State.OUTSIDE)
    if token is None:
        return False
    token.job, token.ran = None, event.job
    moves.bring(token, event.changed)
    tasks.take_result(moves, token, moves.node(token), event.result)
    moves.go(token, Do.COMPLETE)
    return True


def _job_failed(moves: Moves, event: JobFailed) -> bool:
    token = _token_with_job(moves, event.token, event.job, *AT_JOBS)
    return token is not None and errors.fail(moves, token)


def _working_token(moves: Moves, token: UUID, activity: UUID) -> Token | None:
    """A token whose work is in progress elsewhere: at a worker, in a handler outside the step, with a user.

    Elsewhere, a message that is thrown is work, too.
    """
    found = moves.rows.token(token)
    if found is None or found.activity != activity:
        return None
    is_working = found.state is State.OUTSIDE or (found.state is State.WAITING and moves.node(found).is_activity)
    return found if is_working else None


def _error_thrown(moves: Moves, event: ErrorThrown) -> bool:
    token = _working_token(moves, event.token, event.activity)
    if token is None:
        return False
    token.job, token.ran = None, token.job
    errors.throw_error(moves, token, BpmnError(event.code, event.message, event.variables))
    return True


def _escalation_thrown(moves: Moves, event: EscalationThrown) -> bool:
    token = _working_token(moves, event.token, event.activity)
    if token is None:
        return False
    errors.escalate(moves, token, event.code, event.variables)
    return True


def _triggered(moves: Moves, event: Triggered) -> bool:
    return triggers.trigger(moves, event.owner, event.element, event.activity, event.variables)


def _completed(moves: Moves, event: Completed) -> bool:
    token = moves.rows.token(event.token)
    if token is None or token.activity != event.activity or token.state is not State.WAITING:
        return False
    if moves.node(token).kind not in (Kind.USER_TASK, Kind.RECEIVE_TASK):
        return False
    moves.bring(token, event.variables)
    moves.go(token, Do.COMPLETE)
    return True


def _assigned(moves: Moves, event: Assigned) -> bool:
    token = moves.rows.token(event.token)
    if token is None or token.activity != event.activity or token.state is not State.WAITING:
        return False
    try:
        moves.notify(When.ASSIGNMENT, token, moves.node(token))
    except BpmnError as error:
        errors.throw_error(moves, token, error)
    return True


def _retried(moves: Moves, event: Retried) -> bool:
    token = moves.rows.token(event.token)
    if token is None or token.state is not State.FAILED:
        return False
    again = Do[token.data.get("again", Do.BEGIN.name)]
    if again is Do.BEGIN:
        cancel.begin_again(moves, token)
    else:
        moves.rows.changes.resolved.append(token.id)
    token.data = {name: value for name, value in token.data.items() if name not in ("again", "ended")}
    moves.go(token, again)
    return True


def _cancelled(moves: Moves, event: Cancelled) -> bool:
    instance = moves.rows.instances.get(event.instance)
    if instance is None or instance.state not in RUNNING or instance.parent is not None:
        return False
    undoes = instance.state is InstanceState.ACTIVE and moves.process(instance).compensates
    if not undoes:
        cancel.end_instance(moves, instance, InstanceState.CANCELLED, reason=event.reason)
        return True
    moves.rows.disarm(instance, stored=bool(starts_by_event(moves.process(instance), None)))
    instance.state, instance.reason = InstanceState.COMPENSATING, event.reason
    moves.rows.touch(instance)
    compensation.undo_all(moves, instance)
    return True


_BEGIN: dict[type, Callable[[Moves, Any], bool]] = {
    Start: _start,
    Continue: _continue,
    JobDone: _job_done,
    JobFailed: _job_failed,
    ErrorThrown: _error_thrown,
    EscalationThrown: _escalation_thrown,
    Triggered: _triggered,
    Completed: _completed,
    Assigned: _assigned,
    Retried: _retried,
    Cancelled: _cancelled,
    Modified: modify.modify,
}
