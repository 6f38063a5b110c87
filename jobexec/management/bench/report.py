"""What was measured, for people and as JSON."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

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
class Report:
    """The runs of one case: the samples and the figures of each contender, ``ours`` and ``raw`` among them."""

    case: str
    engine: str
    unit: str
    samples: Mapping[str, Sequence[Sample]]
    values: Mapping[str, Sequence[float]]
    settings: Mapping[str, Any]
    versions: Mapping[str, str]

    def ratio(self, name: str = "ours") -> float:
        """The median of a contender divided by the median of the raw SQL."""
        return median(self.values[name]) / median(self.values["raw"])

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
                "jobs": first[0].jobs,
                "repeat": len(first),
                "exactly_once": True,  # else there is no report
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
        if samples[0].latencies:
            run["percentiles_ms"] = percentiles(samples)
        return run

    def as_text(self) -> Iterator[str]:
        """The lines of a table, what it was measured with below it."""
        first = next(iter(self.samples.values()))
        yield f"{self.case} on {self.engine!r}: {first[0].jobs} jobs a run, {len(first)} runs of each in turn"
        yield ""
        yield from self._table("p50 in ms" if self.unit == "ms" else self.unit)
        for name, samples in self.samples.items():
            if samples[0].latencies:
                figures = ", ".join(f"{key} {value:.2f}" for key, value in percentiles(samples).items())
                yield f"{name}: {figures} ms"
        yield ""
        yield "Each job was done exactly once."
        yield ", ".join(f"{name} {value}" for name, value in self.settings.items())
        yield ", ".join(f"{name} {value}" for name, value in self.versions.items())

    def _table(self, unit: str) -> Iterator[str]:
        digits = 2 if self.unit == "ms" else 0
        yield f"{unit:<18}{'median':>10}{'min':>10}{'max':>10}{'to raw':>10}{'CPU µs/job':>12}"
        for name, samples in self.samples.items():
            spread = Spread.of(self.values[name])
            figures = "".join(f"{value:>10,.{digits}f}" for value in (spread.median, spread.min, spread.max))
            cpu = median(sample.cpu_per_job for sample in samples)
            yield f"{name:<18}{figures}{self.ratio(name):>10.2f}{cpu:>12,.0f}"


def percentiles(samples: Sequence[Sample]) -> dict[str, float]:
    """Of the latencies of all runs together, in milliseconds."""
    together = Sample(1, 1.0, 0.0, tuple(latency for sample in samples for latency in sample.latencies))
    shares = {"p50": 0.5, "p90": 0.9, "p99": 0.99, "max": 1.0}
    return {name: round(together.percentile(share), 3) for name, share in shares.items()}
