"""Flows as expressions: ``chain`` and ``parallel``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from ..definition import InvalidProcess, Problem
from .builder import After, Flow
from .calls import arguments_of, is_call
from .terms import terms_in, with_previous

if TYPE_CHECKING:
    from ..models import ProcessInstance

#: A job function, a call made by ``.s()``, ``chain(…)`` or ``parallel(…)``.
Part: TypeAlias = Any


@dataclass(frozen=True)
class Canvas:
    """Parts that run after each other, or beside each other; an immutable value, and itself a part of others."""

    parts: tuple[Part, ...]

    def flow(self, key: str = "", **options: Any) -> Flow:
        """Return it as a flow, which can get more steps before it is started."""
        flow = Flow(key or type(self).__name__.lower(), **options)
        self.add_to(flow, (), None)
        return flow

    def start(self, key: str = "", *, using: str | None = None, user: str = "", **options: Any) -> ProcessInstance:
        """Start it in the caller's transaction; ``options`` are those of ``flow``, such as ``business_key``."""
        return self.flow(key, **options).start(using=using, user=user)

    async def astart(
        self, key: str = "", *, using: str | None = None, user: str = "", **options: Any
    ) -> ProcessInstance:
        """:meth:`start` for async callers, in a transaction of its own."""
        return await self.flow(key, **options).astart(using=using, user=user)

    def add_to(self, flow: Flow, after: After, before: Any) -> tuple[After, Any]:
        """Add its steps; ``before`` is the result of what comes before. Returns its ends and its result."""
        raise NotImplementedError


class Chain(Canvas):
    """Each part begins when the one before has succeeded."""

    def add_to(self, flow: Flow, after: After, before: Any) -> tuple[After, Any]:
        for part in self.parts:
            after, before = _add(flow, part, after, before)
        return after, before


class Parallel(Canvas):
    """All parts begin together; what follows waits for all of them."""

    def add_to(self, flow: Flow, after: After, before: Any) -> tuple[After, Any]:
        added = [_add(flow, part, after, before) for part in self.parts]
        return [end for end, _ in added], [result for _, result in added]


def chain(*parts: Part) -> Chain:
    """Run parts one after the other. In the arguments of a part, :data:`previous` is the result of the part before."""
    return Chain(_checked("chain", parts))


def parallel(*parts: Part) -> Parallel:
    """Run parts in parallel. In the part that comes next, :data:`previous` is the list of their results."""
    return Parallel(_checked("parallel", parts))


def _checked(name: str, parts: tuple[Part, ...]) -> tuple[Part, ...]:
    if not parts:
        raise InvalidProcess([Problem(name, "Expected at least one part.")])
    return parts


def _add(flow: Flow, part: Part, after: After, before: Any) -> tuple[After, Any]:
    if isinstance(part, Canvas):
        return part.add_to(flow, after, before)

    args: Sequence[Any] = ()
    kwargs: dict[str, Any] = {}
    if is_call(part):
        own_args, own_kwargs = arguments_of(part)
        given: Any = {"args": own_args, "kwargs": dict(own_kwargs)}
        if before is not None:
            given = with_previous(given, before)
        elif any("previous" in term.sources for term in terms_in(given)):
            raise InvalidProcess([Problem(flow.key, "Nothing comes before the step that uses previous.")])
        args, kwargs, part = given["args"], given["kwargs"], part.job
    step = flow.add_call(part, args, kwargs, after, None, None, None, over=None)
    return step, step.result
