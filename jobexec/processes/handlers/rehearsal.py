"""The work of a step before its lock: tasks of one hierarchy do it beside each other, and nobody waits for it.

The step is rehearsed on rows that are not locked, up to the first call of a handler, which is made: it is in the
transaction of the job, as the step that follows. Then the hierarchy is locked and loaded again, and the step is taken
with what the handler returned. Nobody loses: only if another transaction has meanwhile changed a variable that the
handler changes, or one that sends the token past the handler, the job is rolled back and runs again, and spends no
retry.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from jobexec.exceptions import RetryIn

from ..engine.environment import HandlerCall, Notice
from ..engine.exceptions import BpmnError
from ..engine.inputs import Input
from ..engine.step import step
from ..engine.tokens import Tokens
from .environment import StepEnvironment, hide_variables

_MISSING = object()


class _Enough(Exception):
    """The rehearsal ends here."""


@dataclass(frozen=True)
class Done:
    """A call that was made, where, with which variables visible, and what it changed, returned or threw.

    ``ids`` are those that the step had made before: the step that takes the result makes the same ones, since a call
    may be that of a token which it begins.
    """

    execution: UUID
    element: str
    visible: dict[str, Any]
    changed: dict[str, Any]
    ids: tuple[UUID, ...] = ()
    result: Any = None
    error: BpmnError | None = None


def rehearse(using: str, tenant: str, tokens: Tokens, event: Input) -> Done | None:
    """Make the first call of a step; None if it makes none, or calls a listener before.

    Raises what the handler raises, except BpmnError. The rows are of no use any more.
    """
    environment = _Rehearsal(using, tenant)
    try:
        step(tokens, event, environment)
    except _Enough:
        pass
    except Exception as error:
        if environment.failed:
            hide_variables(error, tokens)
            raise
        return None  # the step itself says what is wrong
    return environment.done


class Recording(StepEnvironment):
    """The environment of a step whose first call is noted, so that :class:`Replay` can take it again."""

    done: Done | None = None
    failed = False

    def __init__(self, using: str, tenant: str) -> None:
        super().__init__(using, tenant)
        self.ids: list[UUID] = []

    def new_id(self) -> UUID:
        self.ids.append(super().new_id())
        return self.ids[-1]

    def call(self, call: HandlerCall) -> Any:
        if self.done is not None:
            return super().call(call)
        place = (call.scope.execution_id, call.node.id, dict(call.scope), call.changed, tuple(self.ids))
        self.failed = True
        try:
            result = super().call(call)
            self.done = Done(*place, result=result)
        except BpmnError as error:
            self.done = Done(*place, error=error)
            self.failed = False
            raise
        self.failed = False
        return result


class _Rehearsal(Recording):
    def call(self, call: HandlerCall) -> Any:
        with suppress(BpmnError):
            super().call(call)
        raise _Enough

    def notify(self, notice: Notice) -> None:
        raise _Enough


class Replay(StepEnvironment):
    """The environment of a step whose first call has been made."""

    def __init__(self, using: str, tenant: str, done: Done) -> None:
        super().__init__(using, tenant)
        self._done: Done | None = done
        self._ids = iter(done.ids)

    def new_id(self) -> UUID:
        return next(self._ids, None) or super().new_id()

    def call(self, call: HandlerCall) -> Any:
        done, self._done = self._done, None
        if done is None:
            return super().call(call)
        if (done.execution, done.element) != (call.scope.execution_id, call.node.id) or _collide(done, call):
            raise RetryIn(0, count=False)
        call.changed.update(done.changed)
        if done.error is not None:
            raise done.error
        return done.result

    def check_taken(self) -> None:
        """Raise RetryIn if the step has not come to the call: the effects of the handler belong to no step."""
        if self._done is not None:
            raise RetryIn(0, count=False)


def _collide(done: Done, call: HandlerCall) -> bool:
    """Another transaction has changed a variable that the handler changes, too."""
    changed = set(done.changed)
    if call.work.result_variable is not None:
        changed.add(call.work.result_variable)
    elif isinstance(done.result, Mapping):
        changed |= set(done.result)
    if done.error is not None:
        changed |= set(done.error.variables)
    return any(done.visible.get(name, _MISSING) != call.scope.get(name, _MISSING) for name in changed)
