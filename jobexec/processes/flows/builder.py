"""Describes a flow step by step: what runs after what, and on which condition."""

from __future__ import annotations

import keyword
import re
from collections import defaultdict, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from asgiref.sync import sync_to_async
from django.db import router

from ..definition import InvalidProcess, JobOptions, Problem, Value
from .calls import Work, named, work_of
from .durations import duration
from .terms import WHERE, Term, item, terms_in, with_previous

if TYPE_CHECKING:
    from ..models import ProcessInstance

#: What a step comes after: steps, or ways out of them, or lists of these.
After: TypeAlias = "Element | Edge | Iterable[After]"

_ID = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
#: Words of the expression language, and names of the flow's own.
_RESERVED = frozenset(
    [
        "and",
        "or",
        "not",
        "eq",
        "ne",
        "lt",
        "gt",
        "le",
        "ge",
        "div",
        "mod",
        "empty",
        "instanceof",
        "true",
        "false",
        "null",
        "execution",
        "task",
        "item",
        "loopCounter",
        "previous",
        "returned",
        "calls",
        "start",
        "deadline",
    ]
)
_LONGEST = 64


@dataclass(frozen=True)
class Edge:
    """One way out of an element: ``way`` is ``done``, ``failed``, ``timed_out``, or the number of a branch."""

    element: Element
    way: str | int = "done"


E = TypeVar("E", bound="Element")


class Element:
    """A part of a flow, before it becomes nodes of a definition."""

    def __init__(self, flow: Flow, id: str, after: Sequence[Edge], when: Term | None) -> None:
        self.flow, self.id, self.after, self.condition = flow, id, tuple(after), when

    def __repr__(self) -> str:
        return f"<{type(self).__name__.lower()} {self.id} of {self.flow.key}>"

    def sources(self) -> Iterable[Term]:
        """The terms that must be known before it begins."""
        return () if self.condition is None else (self.condition,)


class Step(Element):
    """A step of a flow: one call of a job function. In ``after=`` it means that the call succeeded."""

    def __init__(self, *of: Any, work: Work, undo: Work | None, over: Value, outside: bool, jobs: JobOptions) -> None:
        super().__init__(*of)
        self.work, self.undo, self.over, self.outside, self.jobs = work, undo, over, outside, jobs
        self.is_map, self.collects = over is not None, False

    @property
    def result(self) -> Term:
        """A placeholder for what the function returns. For ``map``: the list of what it returns for each item."""
        return Term(self.id, frozenset([self.id]), self.flow)

    @property
    def failed(self) -> Edge:
        """For ``after=``: the step has used up its retries. Without a step after ``failed`` it becomes an incident."""
        return Edge(self, "failed")

    @property
    def finished(self) -> tuple[Edge, Edge]:
        """For ``after=``: the step succeeded, or has used up its retries."""
        return Edge(self), Edge(self, "failed")

    def sources(self) -> Iterable[Term]:
        """The call that undoes it knows its result; the calls of a map know their items."""
        calls = [(self.work, ["item", "loopCounter"] if self.is_map else []), (self.undo, [self.id])]
        within = [term.without(known) for work, known in calls if work for term in terms_in(work.arguments)]
        return (*super().sources(), *within, *terms_in(self.over))


class Wait(Element):
    """A wait for a message or a time. In ``after=`` it means that the message has come, or that the time has passed."""

    def __init__(self, *of: Any, message: str | None, key: Value, timeout: Value) -> None:
        super().__init__(*of)
        self.message, self.key, self.timeout = message, key, timeout

    @property
    def result(self) -> Term:
        """A placeholder for the payload of the message."""
        return Term(self.id, frozenset([self.id]), self.flow)

    @property
    def timed_out(self) -> Edge:
        """For ``after=``: no message came in time. Without a step after ``timed_out`` it becomes an incident."""
        if self.message is None or self.timeout is None:
            raise _problem(self.id, "It has no timeout.")
        return Edge(self, "timed_out")

    def sources(self) -> Iterable[Term]:
        return (*super().sources(), *terms_in(self.key), *terms_in(self.timeout))


class Choice(Element):
    """A choice: it takes the first branch whose condition is true, or ``otherwise``, which may have no steps."""

    def __init__(self, *of: Any) -> None:
        super().__init__(*of)
        self.conditions: list[Term] = []

    def when(self, condition: Term) -> Edge:
        """For ``after=``: this condition is true, and none of the earlier conditions of this choice is."""
        self.flow._check_not_started(self.id)
        self.conditions.append(self.flow._condition(self.id, condition))
        self.flow._check_known(self)
        return Edge(self, len(self.conditions) - 1)

    @property
    def otherwise(self) -> Edge:
        """For ``after=``: none of the conditions of this choice is true."""
        return Edge(self, "otherwise")

    def sources(self) -> Iterable[Term]:
        return (*super().sources(), *self.conditions)


@dataclass(eq=False)
class Flow:
    """A process that is described in Python. See :func:`flow`."""

    key: str
    business_key: str = ""
    tenant_id: str = ""
    variables: dict[str, Any] = field(default_factory=dict)
    deadline: str | timedelta | None = None
    elements: list[Element] = field(default_factory=list)
    #: The row of its instance, when it has been started.
    instance: ProcessInstance | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.key, str) or not 0 < len(self.key) <= _LONGEST:
            raise _problem("flow", f"Its name is a string of 1 to {_LONGEST} characters, not {self.key!r}.")
        for name in self.variables:
            self._check_name(name)
        self._ids = {*_RESERVED, *self.variables}
        self._numbers: dict[str, int] = defaultdict(lambda: 1)

    # What a flow consists of.

    def step(
        self,
        job: Any,
        /,
        *args: Any,
        after: After = (),
        when: Term | None = None,
        compensate: Any = None,
        name: str | None = None,
        **kwargs: Any,
    ) -> Step:
        """Add a step that calls a function: a ``@job``, a task of django.tasks, or a call made by ``.s()``.

        The step begins when all steps in ``after`` are over or skipped, and at least one of them was not skipped. If
        one of them has failed, or comes after one that has, the step is skipped, unless something in ``after`` comes
        after that failure. Without ``after``, it begins with the flow. If the condition ``when`` is false, the engine
        skips the step, and the steps that come only after it. The call ``compensate`` undoes the step if the flow is
        cancelled; in its arguments, :data:`previous` is the result of the step. Arguments may contain results of
        earlier steps. ``name`` is the id of the step, by default the name of the function.
        """
        return self.add_call(job, args, kwargs, after, when, compensate, name, over=None)

    def map(
        self,
        job: Any,
        /,
        *args: Any,
        over: Any,
        after: After = (),
        when: Term | None = None,
        name: str | None = None,
        collect: bool = False,
        **kwargs: Any,
    ) -> Step:
        """Add a step that calls a function for each item of the list ``over``, in parallel. Its result is a list.

        Without other arguments, the function gets the item. Otherwise, put :data:`item` in the arguments where you want
        the item, and :data:`index` where you want its number. If no other step uses the result, it is not stored.
        ``collect`` stores it in any case, as a variable of the ended instance.
        """
        if not isinstance(over, Term | list | tuple):
            raise _problem("map", f"over: expected a list or the result of a step, got {over!r}.")
        if not args and not kwargs:
            args = (item,)
        step = self.add_call(job, args, kwargs, after, when, None, name, over=over)
        step.collects = collect
        return step

    def wait(
        self,
        message: str,
        key: Any,
        *,
        timeout: str | timedelta | None = None,
        after: After = (),
        when: Term | None = None,
        name: str | None = None,
    ) -> Wait:
        """Add a wait for the message of this name and key. ``timeout`` is a duration."""
        if not isinstance(message, str) or not message:
            raise _problem("wait", f"Expected the name of a message, got {message!r}.")
        if not isinstance(key, Term) and (not isinstance(key, str | int) or isinstance(key, bool) or key == ""):
            raise _problem("wait", f"key: expected a string, a number or the result of a step, got {key!r}.")
        key = key if isinstance(key, Term) else str(key)
        of = self._new(name, message, after, when)
        return self._added(Wait(*of, message=message, key=key, timeout=_duration("wait", timeout)))

    def sleep(
        self,
        duration: str | timedelta,
        *,
        after: After = (),
        when: Term | None = None,
        name: str | None = None,
    ) -> Wait:
        """Add a wait for a time: a timedelta, or a duration such as ``"PT5M"``."""
        of = self._new(name, "sleep", after, when)
        return self._added(Wait(*of, message=None, key=None, timeout=_duration("sleep", duration)))

    def choose(self, *, after: After = (), when: Term | None = None, name: str | None = None) -> Choice:
        """Add a choice: ``way = f.choose(after=a)``, and then ``after=way.when(…)`` or ``after=way.otherwise``."""
        return self._added(Choice(*self._new(name, "choice", after, when)))

    # How its parts are made.

    def add_call(
        self,
        job: Any,
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
        after: After,
        when: Term | None,
        compensate: Any,
        name: str | None,
        over: Any,
    ) -> Step:
        """A step whose arguments may have any names."""
        work = work_of(job, args, kwargs)
        undo = work_of(compensate, (), {}) if compensate is not None else None
        of = self._new(name, named(work.handler), after, when)
        if undo is not None:
            result = Term(of[1], frozenset([of[1]]), self)
            undo = replace(undo, arguments=with_previous(undo.arguments, result))
        return self._added(Step(*of, work=work, undo=undo, over=over, outside=not work.atomic, jobs=work.jobs))

    def _added(self, element: E) -> E:
        for term in element.sources():
            self._check_term(element.id, term)
        self._check_known(element)
        self.elements.append(element)
        self._ids.add(element.id)
        return element

    def _new(
        self, name: str | None, default: str, after: After, when: Term | None
    ) -> tuple[Flow, str, tuple[Edge, ...], Term | None]:
        id = self._id(name, default)
        self._check_not_started(id)
        return self, id, self._edges(id, after), None if when is None else self._condition(id, when)

    def _id(self, name: str | None, default: str) -> str:
        if name is not None:
            self._check_name(name)
            if name in self._ids:
                raise _problem(name, "Another step, or a variable, has this name.")
            return name
        base = re.sub(r"\W", "_", default, flags=re.ASCII)[: _LONGEST - 8]
        base = base if _ID.fullmatch(base) else f"step_{base}"
        id = base
        while id in self._ids:
            self._numbers[base] += 1
            id = f"{base}_{self._numbers[base]}"
        return id

    def _check_not_started(self, id: str) -> None:
        if self.instance is not None:
            raise _problem(id, f"The flow has been started, as {self.instance.pk}: what is added now would never run.")

    def _check_name(self, name: Any) -> None:
        if not isinstance(name, str) or not _ID.fullmatch(name) or len(name) > _LONGEST:
            message = f"A name is a letter or _ and then letters, digits or _, {_LONGEST} at most; got {name!r}."
            raise _problem("flow", message)
        if name in _RESERVED or keyword.iskeyword(name):
            raise _problem(name, "This name is reserved; choose another one.")

    def _edges(self, id: str, after: After) -> tuple[Edge, ...]:
        edges: list[Edge] = []
        for each in _flat(after):
            edge = Edge(each) if isinstance(each, Element) else each
            if not isinstance(edge, Edge):
                raise _problem(id, f"after: expected a step, or steps, of this flow, got {each!r}.")
            if edge.element.flow is not self:
                raise _problem(id, f"after: {edge.element!r} belongs to another flow.")
            if isinstance(edge.element, Choice) and edge.way == "done":
                raise _problem(id, f"after: expected one of the ways out of {edge.element.id!r}: .when(…), .otherwise.")
            if edge not in edges:
                edges.append(edge)
        return tuple(edges)

    def _condition(self, id: str, condition: Any) -> Term:
        if not isinstance(condition, Term):
            message = f"when: expected a condition on results of steps, got {condition!r}."
            raise _problem(id, f"{message} If the answer is already known, use an if statement of Python.")
        self._check_term(id, condition)
        return condition

    def _check_term(self, id: str, term: Term) -> None:
        if term.flow is not None and term.flow is not self:
            raise _problem(id, f"{term!r} belongs to another flow.")

    def _check_known(self, element: Element) -> None:
        """A result is there if its step comes before, by whatever way."""
        for term in element.sources():
            for source in sorted(term.sources):
                if source in WHERE:
                    raise _problem(element.id, f"{term!r} can be used only {WHERE[source]}.")
                if not self._comes_before(source, element):
                    message = f"It uses the result of {source!r}, which does not come before it: add it to after=."
                    raise _problem(element.id, message)

    def _comes_before(self, source: str, element: Element) -> bool:
        """Looks at the nearest first, for it is mostly one of these."""
        found: set[str] = set()
        waiting = deque(edge.element for edge in element.after)
        while waiting:
            each = waiting.popleft()
            if each.id == source:
                return True
            if each.id not in found:
                found.add(each.id)
                waiting += [edge.element for edge in each.after]
        return False

    # The start.

    def start(self, *, using: str | None = None, user: str = "") -> ProcessInstance:
        """Start the flow in the caller's transaction, and return the row of its instance. A flow starts only once.

        Raises InvalidProcess. Raises InvalidJob if arguments or variables are not JSON, or are too large.
        """
        from ..operations.flows import start_flow  # models load later than modules that describe flows
        from .compiling import compiled

        if self.instance is not None:
            raise _problem("flow", f"It has already been started, as {self.instance.pk}.")
        process, variables = compiled(self)
        database = using or router.db_for_write(_instances())
        self.instance = start_flow(
            database, process, variables, business_key=self.business_key, tenant_id=self.tenant_id, user=user
        )
        return self.instance

    async def astart(self, *, using: str | None = None, user: str = "") -> ProcessInstance:
        """:meth:`start` for async callers, in a transaction of its own."""
        return await sync_to_async(self.start, thread_sensitive=True)(using=using, user=user)

    async def __aenter__(self) -> Flow:
        return self

    async def __aexit__(self, kind: object, error: object, traceback: object) -> None:
        """Start it at the end of the block, unless the block raises."""
        if kind is None:
            await self.astart()

    def __enter__(self) -> Flow:
        return self

    def __exit__(self, kind: object, error: object, traceback: object) -> None:
        """Start it at the end of the block, unless the block raises."""
        if kind is None:
            self.start()

    def variable(self, name: str) -> Term:
        """A placeholder for a variable of the flow. Raises InvalidProcess if ``variables`` does not contain it."""
        if name not in self.variables:
            raise _problem("flow", f"It has no variable {name!r}.")
        return Term(name, flow=self)


def _instances() -> type[ProcessInstance]:
    from ..models import ProcessInstance

    return ProcessInstance


def _flat(after: Any) -> Iterator[Any]:
    """What is in lists in lists: ``[a.finished, b]``, for example."""
    if isinstance(after, Iterable) and not isinstance(after, str | Term):
        for each in after:
            yield from _flat(each)
    else:
        yield after


def _duration(id: str, value: Any) -> Value:
    if value is None or isinstance(value, Term):
        return value
    try:
        return duration(value)
    except ValueError as error:
        raise _problem(id, str(error)) from None


def _problem(element: str, message: str) -> InvalidProcess:
    return InvalidProcess([Problem(element, message)])
