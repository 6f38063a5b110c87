"""A flow as a definition: every rule of flows becomes elements of BPMN, so the engine has no rules for flows."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from functools import partial
from typing import Any

from ..definition import (
    TERMINATES,
    Event,
    Expression,
    Flow,
    InvalidProcess,
    Kind,
    Loop,
    Mapping,
    Mode,
    Node,
    Problem,
    Process,
    TimerKind,
    Trigger,
    Value,
    Work,
    validate,
)
from ..engine.tokens import Together
from ..store.definitions import CALLS, FLOW, MISSED
from . import builder
from .builder import Choice, Edge, Element, Step, Wait
from .durations import duration
from .terms import Term, item, replaced

#: The code of the error that a timeout throws if no step comes after it.
TIMEOUT = "TIMEOUT"
#: Lists that are longer become one batch of jobs, without a token for each item.
BATCH_FROM = 1_000
_MOST = 5_000


def compiled(flow: builder.Flow) -> tuple[Process, dict[str, Any]]:
    """The definition of a flow, and the variables that this one starts with.

    Two flows of the same shape have equal definitions: what differs between them, such as arguments, is in the
    variables. Raises InvalidProcess.
    """
    if not flow.elements:
        raise InvalidProcess([Problem(flow.key, "It has no steps.")])
    if len(flow.elements) > _MOST:
        raise InvalidProcess([Problem(flow.key, f"It has {len(flow.elements)} steps; at most {_MOST} are allowed.")])
    shape = _Shape(flow)
    process = Process(
        key=flow.key,
        nodes=tuple(shape.nodes),
        flows=tuple(shape.flows),
        properties={FLOW: True},
        compensates=any(isinstance(each, Step) and each.undo for each in flow.elements),
    )
    validate(process)
    return process, {**flow.variables, CALLS: Together(shape.values)} if shape.values else dict(flow.variables)


class _Shape:
    def __init__(self, flow: builder.Flow) -> None:
        self.nodes: list[Node] = []
        self.flows: list[Flow] = []
        #: The arguments that are known, by the ids of their elements.
        self.values: dict[str, list[Any]] = {}
        self._uses = Counter(edge for each in flow.elements for edge in each.after)
        self._read = {id for each in flow.elements for term in each.sources() for id in term.sources}
        #: What has happened to elements before a join if it is not to be left, by the id of the element behind it.
        self._misses = self._misses_of(flow)
        #: The joins that are not to be left once a way was taken.
        self._stops: dict[Edge, list[str]] = {}
        for id, edges in self._misses.items():
            for edge in edges:
                self._stops.setdefault(edge, []).append(id)
        self._add("start", Kind.START_EVENT)
        known: set[Element] = set()
        for element in flow.elements:
            _check_order(element, known)
            known.add(element)
            self._add_element(element)
        if flow.deadline is not None:
            self._add_deadline(flow)

    # Elements.

    def _add_element(self, element: Element) -> None:
        self._enter(element)
        if isinstance(element, Step):
            self._add_step(element)
        elif isinstance(element, Wait):
            self._add_wait(element)
        elif isinstance(element, Choice):
            self._add_choice(element)

    def _enter(self, element: Element) -> None:
        """The flows that lead to an element: all ways are joined first, then its condition decides."""
        target, condition = element.id, self._condition(element)
        if condition is not None:
            target = f"if.{element.id}"
        sources = [self._way_out(edge) for edge in element.after] or [("start", None)]
        if len(sources) > 1:
            join = f"join.{element.id}"
            self._add(join, Kind.INCLUSIVE_GATEWAY)
            self._connect(join, target)
            target = join
        for source, way in sources:
            self._connect(source, target, way)
        if condition is not None:
            self._decide(f"if.{element.id}", element, condition)

    def _condition(self, element: Element) -> Term | None:
        """Of what has failed before a join, no token comes: that is no reason to go on without it."""
        if element.id not in self._misses:
            return element.condition
        none = Term(f"(empty {_missed(element.id)})")
        return none if element.condition is None else none & element.condition

    def _misses_of(self, flow: builder.Flow) -> dict[str, set[Edge]]:
        """The failures, and timeouts, without which all that a join comes after could be over.

        Not those that have a way to it, as what comes after a failure may do what has failed in another way.
        """
        joins: dict[str, set[Edge]] = {}
        if not any(edge.way in _MISSES for edge in self._uses):
            return joins
        before: dict[Element, tuple[set[Edge], set[Edge]]] = {}
        for element in flow.elements:
            found: set[Edge] = set()
            ways: set[Edge] = set()
            for edge in element.after:
                known = before.get(edge.element, ((), ()))
                found.update(known[0])
                ways.update(known[1])
                if edge.way in _MISSES:
                    ways.add(edge)
                elif edge.way == "done":
                    found.update(each for way in _MISSES if self._uses[each := Edge(edge.element, way)])
            before[element] = found, ways
            if len(element.after) > 1 and (missing := found - ways):
                joins[element.id] = missing
        return joins

    def _decide(self, gateway: str, element: Element, condition: Term) -> None:
        skipped = f"skip.{element.id}"
        self._add(skipped, Kind.END_EVENT)
        self._connect(gateway, element.id, condition.expression)
        self._add(gateway, Kind.EXCLUSIVE_GATEWAY, default=self._connect(gateway, skipped))

    def _add_step(self, step: Step) -> None:
        keep = partial(self._kept, step.id)
        work = Work(
            handler=step.work.handler,
            result_variable=step.id if not step.is_map else None,
            mode=Mode.OUTSIDE if step.outside else Mode.STEP,
            arguments=keep(step.work.arguments),
        )
        jobs = step.jobs if step.outside else replace(step.jobs, before=True)
        more: dict[str, Any] = {"work": work, "jobs": jobs}
        if step.is_map:
            more |= self._loop(step, work)
        if step.undo is not None:
            more["compensated_by"] = f"undo.{step.id}"
        self._add(step.id, Kind.SERVICE_TASK, **more)
        if step.undo is not None:
            self._add_undo(step)
        if self._is_used(step, "failed"):
            self._add_boundary(step, "failed", Event(Trigger.FAILURE))

    def _loop(self, step: Step, work: Work) -> dict[str, Any]:
        """A list of results that nobody reads is not made: only a loop of a flow has a result, but no list of them."""
        over, is_read = step.over, step.collects or step.id in self._read
        is_short = is_read and isinstance(over, list | tuple) and len(over) <= BATCH_FROM
        loop = Loop(
            collection=self._kept(step.id, over),
            item=item.text,
            result=Expression(f"${{{_RETURNED}}}"),
            results=step.id if is_read else None,
            batch=None if is_short else BATCH_FROM,
            jobs=step.jobs if step.outside else replace(step.jobs, before=True),
        )
        return {
            "loop": loop,
            "jobs": replace(step.jobs, before=False),
            "work": replace(work, result_variable=_RETURNED),
        }

    def _add_undo(self, step: Step) -> None:
        assert step.undo is not None
        id = f"undo.{step.id}"
        work = Work(
            handler=step.undo.handler,
            result_variable=f"undone_{step.id}",
            mode=Mode.STEP if step.undo.atomic else Mode.OUTSIDE,
            arguments=self._kept(id, step.undo.arguments),
        )
        jobs = replace(step.undo.jobs, before=step.undo.atomic)
        self._add(id, Kind.SERVICE_TASK, work=work, jobs=jobs, for_compensation=True)

    def _add_wait(self, wait: Wait) -> None:
        if wait.message is None:
            event = Event(Trigger.TIMER, timer=TimerKind.DURATION, when=self._kept(wait.id, wait.timeout, shape=True))
            self._add(wait.id, Kind.CATCH_EVENT, event=event)
            return
        event = Event(Trigger.MESSAGE, name=wait.message, key=self._kept(wait.id, wait.key))
        self._add(wait.id, Kind.RECEIVE_TASK, event=event, properties={"payload": wait.id})
        if wait.timeout is None:
            return
        when = self._kept(wait.id, wait.timeout, shape=True)
        self._add_boundary(wait, "timed_out", Event(Trigger.TIMER, timer=TimerKind.DURATION, when=when))
        if not self._is_used(wait, "timed_out"):
            late = f"late.{wait.id}"
            text = f"No message {wait.message} arrived in time."
            self._add(late, Kind.END_EVENT, event=Event(Trigger.ERROR, code=TIMEOUT, text=text))
            self._connect(f"timed_out.{wait.id}", late)

    def _add_choice(self, choice: Choice) -> None:
        for number, condition in enumerate(choice.conditions):
            self._add_branch(choice, number, condition.expression)
        if self._is_used(choice, "otherwise"):
            default = self._add_branch(choice, "otherwise", None)
        else:
            end = f"end.{choice.id}"
            self._add(end, Kind.END_EVENT)
            default = self._connect(choice.id, end)
        self._add(choice.id, Kind.EXCLUSIVE_GATEWAY, default=default)

    def _add_branch(self, choice: Choice, way: str | int, condition: Expression | None) -> str:
        """A branch is a gateway of its own, for any number of steps may come after it."""
        branch = f"way.{choice.id}.{way}"
        used = self._is_used(choice, way)
        self._add(branch, Kind.PARALLEL_GATEWAY if used else Kind.END_EVENT)
        return self._connect(choice.id, branch, condition)

    def _add_deadline(self, flow: builder.Flow) -> None:
        """An event sub-process that interrupts all, undoes what is done, and ends the instance."""
        try:
            when = duration(flow.deadline)  # type: ignore[arg-type]
        except ValueError as error:
            raise InvalidProcess([Problem("deadline", str(error))]) from None
        add = partial(self._add, parent="deadline")
        told = {TERMINATES: "The deadline has passed."}
        self._add("deadline", Kind.SUB_PROCESS, by_event=True, properties=told)
        add("deadline.passed", Kind.START_EVENT, event=Event(Trigger.TIMER, timer=TimerKind.DURATION, when=when))
        add("deadline.undo", Kind.THROW_EVENT, event=Event(Trigger.COMPENSATION))
        add("deadline.end", Kind.END_EVENT, event=Event(Trigger.TERMINATE))
        self._connect("deadline.passed", "deadline.undo")
        self._connect("deadline.undo", "deadline.end")

    # Nodes and flows.

    def _add(self, id: str, kind: Kind, **more: Any) -> None:
        self.nodes.append(Node(id=id, kind=kind, **more))

    def _add_boundary(self, element: Element, way: str, event: Event) -> None:
        stops = self._stops.get(Edge(element, way), ())
        outputs = tuple(Mapping(_missed(join), True) for join in stops)
        self._add(f"{way}.{element.id}", Kind.BOUNDARY_EVENT, attached_to=element.id, event=event, outputs=outputs)

    def _connect(self, source: str, target: str, condition: Expression | None = None) -> str:
        id = f"{source}-{target}"
        self.flows.append(Flow(id, source, target, condition=condition))
        return id

    def _way_out(self, edge: Edge) -> tuple[str, Expression | None]:
        if isinstance(edge.element, Choice):
            return f"way.{edge.element.id}.{edge.way}", None
        return (edge.element.id if edge.way == "done" else f"{edge.way}.{edge.element.id}"), None

    def _is_used(self, element: Element, way: str | int) -> bool:
        return self._uses[Edge(element, way)] > 0

    # Values: what is computed stays in the definition, and what is known goes to the variables.

    def _kept(self, id: str, value: Value, *, shape: bool = False) -> Value:
        """``value`` for the definition. ``shape``: constants are a part of the shape, as those in conditions."""
        if isinstance(value, Term):
            return value.expression
        if shape:
            return value
        if isinstance(value, dict) and value.keys() == {"args", "kwargs"}:
            return {
                "args": [self._kept(id, each) for each in value["args"]],
                "kwargs": {name: self._kept(id, each) for name, each in value["kwargs"].items()},
            }
        if _has_terms(value):
            if isinstance(value, dict):
                return {name: self._kept(id, each) for name, each in value.items()}
            return [self._kept(id, each) for each in value]
        known = self.values.setdefault(id, [])
        known.append(value)
        return Expression(f'${{{CALLS}["{id}"][{len(known) - 1}]}}')


_RETURNED = "returned"
#: Ways on which nothing comes to what is after the element itself.
_MISSES = ("failed", "timed_out")


def _missed(join: str) -> str:
    """The variable that keeps a join from going on. No step, and no variable of a flow, can have its name."""
    return f"{join}{MISSED}"


def _check_order(element: Element, known: set[Element]) -> None:
    """Whoever changes ``after`` of an element that exists could make a circle, which no token would ever enter."""
    for edge in element.after:
        if edge.element not in known:
            message = f"after: {edge.element.id!r} does not come before it: a flow has no cycles."
            raise InvalidProcess([Problem(element.id, message)])


def _has_terms(value: Value) -> bool:
    found: list[Term] = []
    replaced(value, found.append)
    return bool(found)
