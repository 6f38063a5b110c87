"""The token rules of BPMN for gateways and tasks, as plainly as they can be written.

Tokens stand on flows or at tasks. An element fires when the specification says so, in any order: the rules are such
that the order does not matter. There are no scopes, events or jobs. It shares no code with the engine.
"""

from __future__ import annotations

from collections import Counter

from jobexec.processes.definition import Kind, Process


class Reference:
    def __init__(self, process: Process, variables: dict[str, bool]) -> None:
        self.process, self.variables = process, variables
        self.flows: Counter[str] = Counter()
        self.tasks: Counter[str] = Counter()
        self.put("start")
        self.settle()

    def complete(self, task: str) -> None:
        assert self.tasks[task]
        self.tasks[task] -= 1
        self.put(task)
        self.settle()

    def put(self, node: str) -> None:
        """Tokens on the flows out of a node."""
        for flow in self.taken(node):
            self.flows[flow.id] += 1

    def taken(self, node: str) -> list:
        flows = self.process.outgoing(node)
        default = self.process.node(node).default
        open_flows = [flow for flow in flows if flow.id != default and self.holds(flow)]
        if self.process.node(node).kind is Kind.EXCLUSIVE_GATEWAY:
            open_flows = open_flows[:1]
        return open_flows or [flow for flow in flows if flow.id == default]

    def holds(self, flow) -> bool:
        return flow.condition is None or self.variables[flow.condition.text[2:-1]]

    def settle(self) -> None:
        while self.fire_one() or self.fire_inclusive():
            pass

    def fire_one(self) -> bool:
        for node in self.process.nodes:
            incoming = [flow.id for flow in self.process.incoming(node.id)]
            held = [flow for flow in incoming if self.flows[flow]]
            if not held or (node.kind is Kind.INCLUSIVE_GATEWAY and len(incoming) > 1):
                continue
            if node.kind is Kind.PARALLEL_GATEWAY and len(held) < len(incoming):
                continue
            self.fire(node, held if node.kind is Kind.PARALLEL_GATEWAY else held[:1])
            return True
        return False

    def fire_inclusive(self) -> bool:
        for node in self.process.nodes:
            incoming = [flow.id for flow in self.process.incoming(node.id)]
            held = [flow for flow in incoming if self.flows[flow]]
            if node.kind is Kind.INCLUSIVE_GATEWAY and held and not self.can_come(node.id, set(incoming) - set(held)):
                self.fire(node, held)
                return True
        return False

    def fire(self, node, flows: list[str]) -> None:
        for flow in flows:
            self.flows[flow] -= 1
        if node.kind is Kind.USER_TASK:
            self.tasks[node.id] += 1
        else:
            self.put(node.id)

    def can_come(self, join: str, empty: set[str]) -> bool:
        """Walk forward from every token: does it come to an empty flow without passing the join?"""
        here = [self.process.flow(id).target for id, count in self.flows.items() if count]
        todo = [node for node in [*here, *(id for id, count in self.tasks.items() if count)] if node != join]
        seen = set()
        while todo:
            node = todo.pop()
            if node in seen:
                continue
            seen.add(node)
            for flow in self.process.outgoing(node):
                if flow.id in empty:
                    return True
                if flow.target != join:
                    todo.append(flow.target)
        return False

    def picture(self) -> tuple[Counter[str], Counter[str]]:
        """Tokens at tasks, and tokens on flows to joins."""
        return +self.tasks, +self.flows
