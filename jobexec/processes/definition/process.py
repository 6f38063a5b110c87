"""A process: nodes, the flows between them, and queries about them."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from .flow import Flow
from .node import Kind, Node
from .parts import Listener, Trigger
from .values import Value


@dataclass(frozen=True)
class Process:
    """One ``<process>`` of a file, or a flow written in Python.

    The order of nodes and flows is that of the file: an exclusive gateway takes the first flow whose condition holds.

    ====================  ==============================================================================
    field                 in BPMN
    ====================  ==============================================================================
    ``key``               ``id``
    ``executable``        ``isExecutable``: others are read for the drawing and cannot be started
    ``version_tag``       ``camunda:versionTag``, ``zeebe:versionTag``
    ``history_ttl``       ``camunda:historyTimeToLive``, as text
    ``startable``         ``camunda:isStartableInTasklist``
    ``starter_users``     ``camunda:candidateStarterUsers``
    ``starter_groups``    ``camunda:candidateStarterGroups``
    ``priority``          ``camunda:jobPriority``; that of an activity wins
    ``retry_plan``        ``failedJobRetryTimeCycle`` of the process
    ``compensates``       flows: cancelling the instance first undoes what is done, backwards. Not in BPMN
    ====================  ==============================================================================

    **How a flow in Python becomes a process.** All of its rules are elements of BPMN, so that the engine has no rules
    for flows:

    ==================================  ================================================================
    in the flow                         in the process
    ==================================  ================================================================
    a step                              a service task whose work has mode OUTSIDE, its arguments, and
                                        ``result_variable`` = the step's own id
    ``charged.result["amount"]``        an expression on that variable
    ``after=`` one step                 a flow from it
    ``after=`` several                  an inclusive gateway before the step. A flow has no circles, so "no token can
                                        reach it any more by a flow that has none" is "all before are over". A step
                                        that is skipped gets no token, and so on downstream
    ``after=step.failed``               a flow from a boundary event with FAILURE on it
    ``after=step.finished``             flows from both to the inclusive gateway before the next step
    ``when=``                           a condition on the flow into the step, and a default flow of its source to an
                                        end event, where a token that may go nowhere ends
    ``f.choose(...)``                   an exclusive gateway with a default
    ``f.wait(..., timeout=)``           a receive task with a name and a key; a boundary timer
    ``f.map(...)``                      a multi-instance with a collection (long lists: ``batch``)
    ``compensate=``                     ``compensated_by``, and ``compensates`` of the process
    a deadline                          an interrupting event sub-process with a timer, which throws a compensation
                                        and then terminates
    ==================================  ================================================================
    """

    key: str
    nodes: tuple[Node, ...]
    flows: tuple[Flow, ...]
    name: str | None = None
    executable: bool = True
    version_tag: str | None = None
    history_ttl: str | None = None
    startable: bool = True
    starter_users: tuple[str, ...] = ()
    starter_groups: tuple[str, ...] = ()
    priority: Value = None
    retry_plan: Value = None
    compensates: bool = False
    listeners: tuple[Listener, ...] = ()
    documentation: str | None = None
    properties: dict[str, Any] = field(default_factory=dict)
    line: int | None = field(default=None, compare=False)

    @property
    def elements(self) -> tuple[Node | Flow, ...]:
        return (*self.nodes, *self.flows)

    @cached_property
    def _by_id(self) -> dict[str, Node]:
        return {node.id: node for node in self.nodes}

    @cached_property
    def _flows_by_id(self) -> dict[str, Flow]:
        return {flow.id: flow for flow in self.flows}

    @cached_property
    def _outgoing(self) -> dict[str, tuple[Flow, ...]]:
        return _grouped((flow.source, flow) for flow in self.flows)

    @cached_property
    def _incoming(self) -> dict[str, tuple[Flow, ...]]:
        return _grouped((flow.target, flow) for flow in self.flows)

    @cached_property
    def _children(self) -> dict[str | None, tuple[Node, ...]]:
        return _grouped((node.parent, node) for node in self.nodes)

    @cached_property
    def _boundary(self) -> dict[str | None, tuple[Node, ...]]:
        return _grouped((node.attached_to, node) for node in self.nodes if node.attached_to)

    def node(self, id: str) -> Node:
        """The node with this id. Raises KeyError."""
        return self._by_id[id]

    def find(self, id: str | None) -> Node | None:
        return self._by_id.get(id) if id is not None else None

    def flow(self, id: str) -> Flow:
        """The flow with this id. Raises KeyError."""
        return self._flows_by_id[id]

    def outgoing(self, id: str) -> tuple[Flow, ...]:
        return self._outgoing.get(id, ())

    def incoming(self, id: str) -> tuple[Flow, ...]:
        return self._incoming.get(id, ())

    def children(self, scope: str | None) -> tuple[Node, ...]:
        """The nodes directly in a sub-process; of None, those of the process."""
        return self._children.get(scope, ())

    def boundary_events(self, activity: str) -> tuple[Node, ...]:
        return self._boundary.get(activity, ())

    def start_events(self, scope: str | None) -> tuple[Node, ...]:
        return tuple(node for node in self.children(scope) if node.kind is Kind.START_EVENT)

    def start_event(self, scope: str | None) -> Node | None:
        """The plain start event of a scope; None if all of them wait for something."""
        return next((node for node in self.start_events(scope) if node.event is None), None)

    def event_sub_processes(self, scope: str | None) -> tuple[Node, ...]:
        return tuple(node for node in self.children(scope) if node.is_event_sub_process)

    def can_reach(self, element: str, flow: str) -> bool:
        """Whether a token at this element can come to a flow, in its scope, without passing the flow's target."""
        return self.is_among(element, self._behind(flow))

    def before(self, flows: Iterable[str]) -> int:
        """The elements from which a token can reach one of these flows (:meth:`can_reach`), for :meth:`is_among`.

        Each is a bit: to ask for each flow of a join of n about each of n tokens would cost n².
        """
        found = 0
        for flow in flows:
            found |= self._behind(flow)
        return found

    def is_among(self, element: str, elements: int) -> bool:
        return bool(elements >> self._numbers[element] & 1)

    def _behind(self, flow: str) -> int:
        source, target = self.flow(flow).source, self._numbers[self.flow(flow).target]
        found = self._upstream[source]
        if not found >> target & 1:
            return found
        if flow not in self._behind_in_circles:
            self._behind_in_circles[flow] = self._without(self.flow(flow))
        return self._behind_in_circles[flow]

    @cached_property
    def _upstream(self) -> dict[str, int]:
        """Of each node, the nodes from which a token can come to it: one bit each, for a flow may have thousands."""
        before = {node.id: self._before(node) for node in self.nodes}
        after = _grouped((source, id) for id, sources in before.items() for source in sources)
        found = dict.fromkeys(before, 0)
        waiting = deque(before)
        while waiting:
            id = waiting.popleft()
            bits = 1 << self._numbers[id]
            for source in before[id]:
                bits |= found[source]
            if bits != found[id]:
                found[id] = bits
                waiting += after.get(id, ())
        return found

    @cached_property
    def _behind_in_circles(self) -> dict[str, int]:
        return {}

    def _without(self, flow: Flow) -> int:
        found: set[str] = set()
        open_ends = [flow.source]
        while open_ends:
            id = open_ends.pop()
            if id != flow.target and id not in found:
                found.add(id)
                open_ends += self._before(self.node(id))
        return sum(1 << self._numbers[id] for id in found)

    @cached_property
    def _numbers(self) -> dict[str, int]:
        return {node.id: number for number, node in enumerate(self.nodes)}

    def _before(self, node: Node) -> list[str]:
        """Where a token can be just before it comes to a node."""
        before = [flow.source for flow in self.incoming(node.id)]
        if node.attached_to is not None:
            before.append(node.attached_to)
        if node.kind is Kind.CATCH_EVENT and node.trigger is Trigger.LINK:
            before += [other.id for other in self.children(node.parent) if self._throws_to(other, node)]
        return before

    def _throws_to(self, node: Node, target: Node) -> bool:
        throws = node.kind is Kind.THROW_EVENT and node.trigger is Trigger.LINK
        return throws and node.event is not None and self.link_target(node.parent, node.event.name) == target

    @cached_property
    def has_inclusive_joins(self) -> bool:
        return any(node.kind is Kind.INCLUSIVE_GATEWAY and len(self.incoming(node.id)) > 1 for node in self.nodes)

    @cached_property
    def awaits(self) -> frozenset[Trigger]:
        """What its events, and those of its activities, are about."""
        return frozenset(node.trigger for node in self.nodes if node.trigger is not None)

    @cached_property
    def has_user_tasks(self) -> bool:
        return any(node.kind is Kind.USER_TASK for node in self.nodes)

    @cached_property
    def has_compensation(self) -> bool:
        return any(node.compensated_by is not None for node in self.nodes)

    @cached_property
    def works_in_jobs(self) -> bool:
        """Whether no step calls code of the project, except one that begins with the job of the task that calls it."""
        return not self.listeners and all(_works_in_jobs(node) for node in self.nodes)

    def link_target(self, scope: str | None, name: Value) -> Node | None:
        """The catching link event of this name in a scope."""
        for node in self.children(scope):
            catches = node.kind is Kind.CATCH_EVENT and node.trigger is Trigger.LINK
            if catches and node.event and node.event.name == name:
                return node
        return None


def _works_in_jobs(node: Node) -> bool:
    if node.listeners or node.kind is Kind.CALL_ACTIVITY:  # what is called may be any process
        return False
    if node.work is None or node.work.called_in_step is None:
        return True
    return node.loop.jobs.before if node.loop else node.jobs.before


def _grouped(pairs: Iterable[tuple[Any, Any]]) -> dict[Any, tuple[Any, ...]]:
    groups: dict[Any, list[Any]] = {}
    for key, value in pairs:
        groups.setdefault(key, []).append(value)
    return {key: tuple(values) for key, values in groups.items()}
