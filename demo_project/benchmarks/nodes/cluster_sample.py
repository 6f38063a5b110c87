"""What one run of a cluster brought, node by node."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..measure import Sample
from .recorder import RoundRecord


@dataclass(frozen=True, slots=True)
class NodeRun:
    """One node in one run; all moments are seconds since its beginning.

    ``ended``: number and end of each job that it ran. ``statement_seconds``: time spent in statements of the
    acquisition. ``cpu``: seconds of its process; ``server_cpu``: of the database server for its acquisition, if known.
    """

    ended: tuple[tuple[int, float], ...]
    rounds: tuple[RoundRecord, ...]
    statements: int
    statement_seconds: float
    cpu: float
    server_cpu: float | None

    @classmethod
    def of(cls, report: Mapping[str, Any], began: float) -> NodeRun:
        """From what the node has reported."""
        rounds = [RoundRecord(*record) for record in report["rounds"]]
        return cls(
            ended=tuple((number, at - began) for number, at in report["ended"]),
            rounds=tuple(record._replace(at=record.at - began) for record in rounds),
            statements=report["statements"],
            statement_seconds=report["statement_seconds"],
            cpu=report["cpu"],
            server_cpu=report["server_cpu"],
        )

    @property
    def acquired(self) -> int:
        return sum(record.acquired for record in self.rounds)

    @property
    def lock_failures(self) -> int:
        """Rows that were found and then lost to another node."""
        return sum(record.lock_failures for record in self.rounds)

    @property
    def pages(self) -> int:
        """Rounds that brought jobs."""
        return sum(1 for record in self.rounds if record.acquired)

    @property
    def acquisition_seconds(self) -> float:
        """The time that its rounds took, with the commits."""
        return sum(record.elapsed for record in self.rounds)

    def timeline(self, width: float, count: int) -> tuple[list[int], list[int]]:
        """Jobs acquired, and lock failures, in each of ``count`` spans of ``width`` seconds."""
        acquired, failures = [0] * count, [0] * count
        for record in self.rounds:
            # What ended after the last job belongs to the last span.
            span = min(count - 1, max(0, int(record.at / width)))
            acquired[span] += record.acquired
            failures[span] += record.lock_failures
        return acquired, failures


@dataclass(frozen=True, slots=True)
class ClusterSample(Sample):
    """One run of all nodes; ``seconds`` from the beginning to the end of the last job, ``cpu`` of all nodes."""

    nodes: tuple[NodeRun, ...] = ()

    @classmethod
    def of(cls, jobs: int, nodes: Sequence[NodeRun]) -> ClusterSample:
        """Of these nodes."""
        last = max((at for node in nodes for _, at in node.ended), default=0.0)
        return cls(jobs, last, sum(node.cpu for node in nodes), nodes=tuple(nodes))

    def total(self, name: str) -> float:
        """A figure of the nodes, summed up."""
        return float(sum(getattr(node, name) for node in self.nodes))

    @property
    def rounds(self) -> int:
        """Rounds of all nodes, also those that brought nothing."""
        return sum(len(node.rounds) for node in self.nodes)

    @property
    def failures_per_100(self) -> float:
        """Lock failures for each 100 jobs acquired."""
        return 100 * self.total("lock_failures") / max(1, self.total("acquired"))

    @property
    def page(self) -> float:
        """Jobs in a page, on average."""
        return self.total("acquired") / max(1, self.total("pages"))

    @property
    def server_cpu(self) -> float | None:
        """Seconds of the server's CPU for all acquisitions; None if any is unknown."""
        known = [node.server_cpu for node in self.nodes if node.server_cpu is not None]
        return sum(known) if len(known) == len(self.nodes) else None
