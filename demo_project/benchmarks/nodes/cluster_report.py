"""What the cluster case measured: for people, as JSON and as a chart."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from ..chart import Chart, Panel
from ..report import Report, Spread
from .cluster_sample import ClusterSample, NodeRun

_SPANS = 40
_TIMES = ("acquisition_seconds", "statement_seconds")
_HEAD = (
    ("strategy", 23),
    ("seconds", 19),
    ("lock failures", 24),
    ("per 100", 9),
    ("rounds", 8),
    ("pages", 7),
    ("jobs/page", 11),
    ("statements s", 14),
    ("server CPU s", 14),
    ("CPU µs/job", 12),
)


@dataclass(frozen=True, slots=True)
class ClusterReport(Report):
    """The runs of each strategy; ``ideal`` is the seconds that the sleeping alone takes on all threads."""

    nodes: int = 0
    ideal: float = 0.0

    def _runs(self) -> Mapping[str, Sequence[ClusterSample]]:
        return self.samples  # type: ignore[return-value]

    def _typical(self, name: str) -> ClusterSample:
        """The run with the median time (the longer one of two); what is shown node by node is one run."""
        runs = sorted(self._runs()[name], key=lambda sample: sample.seconds)
        return runs[len(runs) // 2]

    def _title(self) -> str:
        first = next(iter(self.samples.values()))
        return (
            f"{self.case} on {self.engine!r}: {self.nodes} nodes of {self.settings['threads']} threads, "
            f"{first[0].jobs} jobs a run, {_times(len(first))}"
        )

    # For people.

    def as_text(self) -> Iterator[str]:
        yield self._title()
        yield f"Sleeping alone takes {self.ideal:.1f} s. Medians (least - greatest); all nodes together."
        yield ""
        yield _line([name for name, _ in _HEAD])
        for name, runs in self._runs().items():
            yield _line([name, *_figures(runs)])
        yield ""
        yield "Node by node, the run with the median time: jobs acquired / lock failures / rounds"
        for name in self.samples:
            nodes = self._typical(name).nodes
            figures = [f"{node.acquired} / {node.lock_failures} / {len(node.rounds)}" for node in nodes]
            yield f"{name:<23}" + "".join(f"{each:>20}" for each in figures)
        yield ""
        yield "Each job was done exactly once."
        yield ", ".join(f"{name} {value}" for name, value in self.settings.items())
        yield ", ".join(f"{name} {value}" for name, value in self.versions.items())

    # As JSON.

    def as_json(self) -> dict[str, Any]:
        """One object with the medians on top and everything else in ``details``.

        No SQL sleeps: ``ours`` are the seconds of the first strategy, ``raw`` are those that sleeping alone takes.
        """
        first = next(iter(self.samples.values()))
        ours = median(next(iter(self.values.values())))
        return {
            "case": self.case,
            "engine": self.engine,
            "ours": round(ours, 4),
            "raw": round(self.ideal, 4),
            "ratio": round(ours / self.ideal, 4) if self.ideal else 0.0,
            "strategies": {name: _medians(runs) for name, runs in self._runs().items()},
            "details": {
                "unit": self.unit,
                "jobs": first[0].jobs,
                "nodes": self.nodes,
                "repeat": len(first),
                "ideal": round(self.ideal, 4),
                "exactly_once": True,  # else there is no report
                "runs": {name: self._run(name) for name in self.samples},
                "settings": dict(self.settings),
                "versions": dict(self.versions),
            },
        }

    def _run(self, name: str) -> dict[str, Any]:
        runs, typical = self._runs()[name], self._typical(name)
        run: dict[str, Any] = Spread.of(self.values[name]).rounded()
        run["values"] = [round(value, 4) for value in self.values[name]]
        run["cpu_us_per_job"] = Spread.of([sample.cpu_per_job for sample in runs]).rounded()
        run["lock_failures"] = Spread.of([sample.total("lock_failures") for sample in runs]).rounded()
        for key in _TIMES:
            run[key] = Spread.of([sample.total(key) for sample in runs]).rounded()
        cpu = [sample.server_cpu for sample in runs if sample.server_cpu is not None]
        run["server_cpu_seconds"] = Spread.of(cpu).rounded() if cpu else None
        run["nodes"] = [_node(node) for node in typical.nodes]
        run["timeline"] = self._timeline(typical)
        return run

    def _timeline(self, sample: ClusterSample) -> dict[str, Any]:
        width = self._span()
        spans = [node.timeline(width, math.ceil(sample.seconds / width)) for node in sample.nodes]
        nodes = [{"acquired": acquired, "lock_failures": failures} for acquired, failures in spans]
        return {"seconds": width, "nodes": nodes}

    def _span(self) -> float:
        """A span of the timelines, in seconds: the same for all strategies."""
        return max(self._typical(name).seconds for name in self.samples) / _SPANS

    # As a chart.

    def as_svg(self) -> str:
        """Jobs acquired and lock failures of each node over time, a row for each strategy."""
        known = [f"{name} {value}" for name, value in self.versions.items() if name not in ("Python", "Django")]
        return Chart(
            title=f"{self.nodes} nodes on one table: jobs acquired and lock failures",
            x_label="seconds",
            y_label="jobs per second of one node, in the run with the median time",
            step=self._span(),
            rows=[self._row(name) for name in self.samples],
            notes=[self._title().split(": ", 1)[1] + ".", ", ".join(known) + "."],
        ).svg()

    def _row(self, name: str) -> list[Panel]:
        width, panels = self._span(), []
        for number, node in enumerate(self._timeline(self._typical(name))["nodes"], start=1):
            label = f"{name}, node {number}" if number == 1 else f"node {number}"
            acquired, failed = ([count / width for count in node[key]] for key in ("acquired", "lock_failures"))
            panels.append(Panel(label, {"jobs acquired": acquired, "lock failures": failed}))
        return panels


def _times(repeat: int) -> str:
    return "1 run of each" if repeat == 1 else f"{repeat} runs of each in turn"


def _line(cells: Sequence[str]) -> str:
    first, *others = zip(cells, (width for _, width in _HEAD), strict=True)
    return f"{first[0]:<{first[1]}}" + "".join(f"{cell:>{width}}" for cell, width in others)


def _figures(runs: Sequence[ClusterSample]) -> list[str]:
    seconds, failures = (
        Spread.of([run.seconds for run in runs]),
        Spread.of([run.total("lock_failures") for run in runs]),
    )
    found = _medians(runs)
    cpu = found["server_cpu_seconds"]
    return [
        f"{seconds.median:.1f} ({seconds.min:.1f} - {seconds.max:.1f})",
        f"{failures.median:,.0f} ({failures.min:,.0f} - {failures.max:,.0f})",
        f"{found['failures_per_100']:.1f}",
        f"{found['rounds']:,.0f}",
        f"{found['pages']:,.0f}",
        f"{found['jobs_per_page']:.1f}",
        f"{found['statement_seconds']:.2f}",
        "?" if cpu is None else f"{cpu:.2f}",
        f"{median(run.cpu_per_job for run in runs):,.0f}",
    ]


def _medians(runs: Sequence[ClusterSample]) -> dict[str, Any]:
    cpu = [run.server_cpu for run in runs if run.server_cpu is not None]
    figures: dict[str, list[float]] = {
        "seconds": [run.seconds for run in runs],
        "lock_failures": [run.total("lock_failures") for run in runs],
        "failures_per_100": [run.failures_per_100 for run in runs],
        "rounds": [run.rounds for run in runs],
        "pages": [run.total("pages") for run in runs],
        "jobs_per_page": [run.page for run in runs],
        **{key: [run.total(key) for run in runs] for key in _TIMES},
    }
    medians: dict[str, Any] = {name: round(median(values), 4) for name, values in figures.items()}
    return medians | {"server_cpu_seconds": round(median(cpu), 4) if cpu else None}


def _node(node: NodeRun) -> dict[str, Any]:
    return {
        "jobs": len(node.ended),
        "acquired": node.acquired,
        "lock_failures": node.lock_failures,
        "rounds": len(node.rounds),
        "pages": node.pages,
        "statements": node.statements,
        "statement_seconds": round(node.statement_seconds, 4),
        "server_cpu_seconds": None if node.server_cpu is None else round(node.server_cpu, 4),
    }
