"""What a benchmark measured: for people, as JSON and as a chart."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Any

from .bars import Bar, Bars
from .chart import Chart, Panel, wrapped
from .measure import Sample


@dataclass(frozen=True, slots=True)
class Spread:
    """The median of some figures, with the least and the greatest."""

    median: float
    min: float
    max: float

    @classmethod
    def of(cls, values: Sequence[float]) -> Spread:
        return cls(median(values), min(values), max(values))

    def rounded(self) -> dict[str, float]:
        return {name: round(getattr(self, name), 4) for name in ("median", "min", "max")}


@dataclass(frozen=True, slots=True)
class Shown:
    """``figures``: the name and the unit of each figure of a sample, for the table. ``across`` and ``up``: what the
    timelines show, if there are any."""

    figures: Mapping[str, str] = field(default_factory=dict)
    across: str = ""
    up: str = ""


@dataclass(frozen=True, slots=True)
class Report:
    """The runs of one case: the samples and the figures of each contender, ``ours`` and ``raw`` among them."""

    case: str
    engine: str
    unit: str
    samples: Mapping[str, Sequence[Sample]]
    values: Mapping[str, Sequence[float]]
    settings: Mapping[str, Any]
    versions: Mapping[str, str]
    summary: str = ""
    ratios: Sequence[tuple[str, str]] = ()
    facts: Mapping[str, Any] = field(default_factory=dict)
    shown: Shown = field(default_factory=Shown)
    counted: tuple[str, str] = ("job", "jobs")
    notes: Sequence[str] = ()

    def ratio(self, name: str = "ours", to: str = "raw") -> float:
        """The median of a contender divided by the median of another."""
        divisor = median(self.values[to])
        return median(self.values[name]) / divisor if divisor else 0.0

    # As JSON.

    def as_json(self) -> dict[str, Any]:
        """One object with the medians on top and everything else in ``details``."""
        first = next(iter(self.samples.values()))
        return {
            "case": self.case,
            "engine": self.engine,
            "ours": round(median(self.values["ours"]), 4),
            "raw": round(median(self.values["raw"]), 4),
            "ratio": round(self.ratio(), 4),
            "details": {
                "unit": self.unit,
                self.counted[1]: first[0].jobs,
                "repeat": len(first),
                "exactly_once": True,  # else there is no report
                "ratios": {f"{one} to {other}": round(self.ratio(one, other), 4) for one, other in self.ratios},
                **self.facts,
                "runs": {name: self._run(name) for name in self.samples},
                "settings": dict(self.settings),
                "versions": dict(self.versions),
            },
        }

    def _run(self, name: str) -> dict[str, Any]:
        samples = self.samples[name]
        run: dict[str, Any] = Spread.of(self.values[name]).rounded()
        run["values"] = [round(value, 4) for value in self.values[name]]
        run["ratio"] = round(self.ratio(name), 4)
        run["cpu_us_per_job"] = Spread.of([sample.cpu_per_job for sample in samples]).rounded()
        server = _server_cpu(samples)
        run["server_cpu_us_per_job"] = Spread.of(server).rounded() if server else None
        for figure in samples[0].figures:
            run[figure] = Spread.of([sample.figures[figure] for sample in samples]).rounded()
        if samples[0].latencies:
            run["percentiles_ms"] = percentiles(samples)
        if samples[0].timeline:
            run["timeline"] = [round(value, 4) for value in self._typical(name).timeline]
        return run

    def _typical(self, name: str) -> Sample:
        """The run with the median value (the greater one of two)."""
        runs = sorted(zip(self.values[name], self.samples[name], strict=True), key=lambda run: run[0])
        return runs[len(runs) // 2][1]

    # For people.

    def as_text(self) -> Iterator[str]:
        """The lines of a table, what it was measured with below it."""
        yield self._title()
        yield ""
        yield from self._table("p50 in ms" if self.unit == "ms" else self.unit)
        yield from self._further()
        yield ""
        if self.counted[0] == "job":
            yield "Each job was done exactly once."
        yield from self.notes
        yield ", ".join(f"{name} {_said(value)}" for name, value in self.settings.items())
        yield ", ".join(f"{name} {value}" for name, value in self.versions.items())

    def _title(self) -> str:
        first = next(iter(self.samples.values()))
        runs = "1 run of each" if len(first) == 1 else f"{len(first)} runs of each in turn"
        return f"{self.case} on {self.engine!r}: {first[0].jobs:,} {self.counted[1]} a run, {runs}"

    def _table(self, unit: str) -> Iterator[str]:
        width = max(18, *(len(name) + 2 for name in self.samples))
        cpu_title = f"CPU µs/{self.counted[0]}"
        yield f"{unit:<{width}}{'median':>10}{'min':>10}{'max':>10}{'to raw':>10}{cpu_title:>14}{'server':>10}"
        for name, samples in self.samples.items():
            spread = Spread.of(self.values[name])
            figures = "".join(f"{shown(value):>10}" for value in (spread.median, spread.min, spread.max))
            cpu, server = median(sample.cpu_per_job for sample in samples), _server_cpu(samples)
            said = f"{median(server):,.0f}" if server else "?"
            yield f"{name:<{width}}{figures}{self.ratio(name):>10.2f}{cpu:>14,.0f}{said:>10}"

    def _further(self) -> Iterator[str]:
        for one, other in self.ratios:
            yield f"{one} to {other}: {self.ratio(one, other):.2f}"
        for name, samples in self.samples.items():
            if samples[0].latencies:
                figures = ", ".join(f"{key} {value:.2f}" for key, value in percentiles(samples).items())
                yield f"{name}: {figures} ms"
            told = self._figures(name)
            if told:
                yield f"{name}: {told}"

    def _figures(self, name: str) -> str:
        samples = self.samples[name]
        parts = []
        for figure in samples[0].figures:
            spread = Spread.of([sample.figures[figure] for sample in samples])
            unit = self.shown.figures.get(figure, "")
            parts.append(f"{figure.replace('_', ' ')} {shown(spread.median)}{' ' + unit if unit else ''}")
        return ", ".join(parts)

    # As a chart.

    def as_svg(self) -> str:
        """A bar for each contender, or lines over time where the case is about that."""
        known = [f"{name} {value}" for name, value in self.versions.items() if name not in ("Python", "Django")]
        settings = ", ".join(f"{name} {_said(value)}" for name, value in self.settings.items())
        notes = [f"{self._title()}.", settings + ".", ", ".join(known) + "."]
        timelines = {name: self._typical(name).timeline for name in ("ours", "raw") if name in self.samples}
        if all(timelines.values()) and self.shown.up:
            return self._lines(timelines, notes)
        unit = "milliseconds, p50" if self.unit == "ms" else self.unit
        bars = [Bar(name, *self._bar(name)) for name in self.samples]
        notes = [self.summary + ".", "Medians; thin lines from min to max.", *notes]
        return Bars(f"{self.case}, {unit}", bars, wrapped(notes)).svg()

    def _bar(self, name: str) -> tuple[float, float, float, str]:
        spread = Spread.of(self.values[name])
        note = "" if name == "raw" else f"{self.ratio(name):.2f} of raw"
        return spread.median, spread.min, spread.max, note

    def _lines(self, timelines: Mapping[str, Sequence[float]], notes: list[str]) -> str:
        told = [f"{name}: {self._figures(name)}." for name in timelines]
        return Chart(
            title=f"{self.case}: {self.shown.up}",
            x_label=self.shown.across,
            y_label=self.shown.up,
            step=1,
            rows=[[Panel("", timelines)]],
            notes=wrapped([self.summary + ". Of each contender the run with the median value.", *told, *notes]),
            panel=(620, 240),
        ).svg()


def shown(value: float) -> str:
    """A figure with as many digits as tell something."""
    digits = 0 if abs(value) >= 100 or value == 0 else 1 if abs(value) >= 10 else 2 if abs(value) >= 0.1 else 4
    return f"{value:,.{digits}f}"


def _said(value: Any) -> str:
    return "default" if value is None else str(value)


def _server_cpu(samples: Sequence[Sample]) -> list[float]:
    return [each for each in (sample.server_per_job for sample in samples) if each is not None]


def percentiles(samples: Sequence[Sample]) -> dict[str, float]:
    """Of the latencies of all runs together, in milliseconds."""
    together = Sample(1, 1.0, 0.0, tuple(latency for sample in samples for latency in sample.latencies))
    shares = {"p50": 0.5, "p90": 0.9, "p99": 0.99, "max": 1.0}
    return {name: round(together.percentile(share), 3) for name, share in shares.items()}
