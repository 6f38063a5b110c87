"""The charts: throughput of the engine or of one subject, what waits, waiting and running times of jobs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from typing import Any

from django.utils import timezone
from django.utils.formats import number_format
from django.utils.translation import gettext as _

from jobexec.identifiers import OWN
from jobexec.operations.reports.subjects import Split
from jobexec.operations.reports.throughput import Runs, Times, Traffic
from jobexec.operations.values.humanize import NONE, duration, handler_name

from . import charts

#: Round durations in seconds, for the top of a scale.
_ROUND = (
    *(size * step for size in (0.001, 0.01, 0.1) for step in (1, 2, 5)),
    *(size * step for size in (1, 60) for step in (1, 2, 5, 10, 20, 30)),
    *(3600 * step for step in (1, 2, 4, 8, 12)),
    *(86_400 * step for step in (1, 2, 4)),
)


def flow(traffic: Traffic, now: datetime) -> dict[str, Any]:
    return {
        "succeeded": _number(traffic.all_succeeded),
        "failed": _number(traffic.all_failed),
        "bars": _bars(traffic),
        **_scale(map(sum, zip(traffic.succeeded, traffic.failed, strict=True))),
        "step": duration(traffic.step.total_seconds()),
        "axis": axis(traffic.since, now),
        "times": [
            _times("wait", _("Waiting time"), traffic.wait, now),
            _times("run", _("Running time"), traffic.run, now),
        ],
        "any": bool(traffic.all_succeeded or traffic.all_failed),
    }


def runs(found: Runs, now: datetime) -> dict[str, Any]:
    """The charts of the runs of one subject."""
    return {
        "succeeded": _number(found.all_succeeded),
        "failed": _number(found.all_failed),
        "rate": per_second(found.per_second),
        "bars": _bars(found),
        **_scale(map(sum, zip(found.succeeded, found.failed, strict=True))),
        "step": duration(found.step.total_seconds()),
        "axis": axis(found.since, now),
        "times": [_times("run", _("Running time of successful runs"), found.run, now)],
        "any": bool(found.all_succeeded or found.all_failed),
    }


def split(found: Split, now: datetime) -> dict[str, Any]:
    """The chart of runs by handler, category or node."""
    layers = [(f"jobexec-part-{at}", values) for at, values in enumerate(found.values.values())]
    names = [handler_name(name) or _("others") for name in found.values]
    steps = len(next(iter(found.values.values()), []))
    tips = [
        _("%(from)s to %(until)s: %(figures)s")
        % {
            **_span(found.since, found.step, at),
            "figures": ", ".join(
                f"{name} {_number(int(values[at]))}"
                for name, values in zip(names, found.values.values(), strict=True)
                if values[at]
            )
            or "0",
        }
        for at in range(steps)
    ]
    totals = [_number(int(sum(values))) for values in found.values.values()]
    said = ", ".join(f"{name}: {total}" for name, total in zip(names, totals, strict=True))
    return {
        "legend": [
            {"kind": kind, "name": name, "total": total, "several": key in ("", OWN)}
            for (kind, _values), name, total, key in zip(layers, names, totals, found.values, strict=True)
        ],
        "bars": charts.stacked_bars("jobexec-split", _("Jobs over time"), said, layers, tips),
        **_scale(charts.sums(layers)),
        "axis": axis(found.since, now),
        "any": bool(layers),
    }


def backlog(steps: Sequence[tuple[datetime, float]], now: datetime) -> dict[str, Any]:
    """The chart of how many executable jobs waited."""
    values = [value for _moment, value in steps]
    scale = _scale(values)
    said = _("at most %(most)s, now %(now)s") % {
        "most": _number(round(max(values, default=0))),
        "now": _number(round(values[-1])) if values else NONE,
    }
    top = charts.nice_top(charts.fair_top(values))
    curves = [("jobexec-middle", values)]
    return {
        "chart": charts.lines("jobexec-backlog", _("Waiting jobs over time"), said, curves, top),
        "said": said,
        **scale,
        "axis": axis(steps[0][0], now) if steps else [],
        "any": any(values),
    }


def _scale(values: Iterable[float]) -> dict[str, str]:
    """The top of the scale, and a note if bars are cut there."""
    heights = list(values)
    top, most = charts.nice_top(charts.fair_top(heights)), max(heights, default=0)
    cut = _("cut off: up to %(most)s") % {"most": _number(round(most))} if most > top else ""
    return {"top": _number(int(top)), "cut": cut}


def per_second(rate: float) -> str:
    """A number of jobs per second."""
    return str(number_format(rate, decimal_pos=0 if rate >= 10 else 2 if rate < 1 else 1, force_grouping=True))


def _most(traffic: Runs) -> int:
    return max(map(sum, zip(traffic.succeeded, traffic.failed, strict=True)), default=0)


def _bars(traffic: Runs) -> str:
    steps = list(zip(traffic.succeeded, traffic.failed, strict=True))
    tips = [
        _("%(from)s to %(until)s: %(succeeded)s succeeded, %(failed)s failed")
        % {**_span(traffic.since, traffic.step, at), "succeeded": _number(succeeded), "failed": _number(failed)}
        for at, (succeeded, failed) in enumerate(steps)
    ]
    description = _(
        "%(succeeded)s jobs succeeded and %(failed)s attempts failed; at most %(most)s within %(step)s."
    ) % {
        "succeeded": _number(traffic.all_succeeded),
        "failed": _number(traffic.all_failed),
        "most": _number(_most(traffic)),
        "step": duration(traffic.step.total_seconds()),
    }
    layers = [("jobexec-done", traffic.succeeded), ("jobexec-failed", traffic.failed)]
    return charts.stacked_bars("jobexec-flow", _("Jobs over time"), description, layers, tips)


def _times(name: str, title: str, times: Times, now: datetime) -> dict[str, Any]:
    figures = [(_percent(share), _duration(value)) for share, value in times.overall.items()]
    middle, high = 0.5, 0.95
    curves = [("jobexec-high", times.steps[high]), ("jobexec-middle", times.steps[middle])]
    heights = [value for _kind, values in curves for value in values if value is not None]
    fair = (charts.fair_top(value for value in values if value is not None) for _kind, values in curves)
    top, most = _round_up(max(fair)), max(heights, default=0.0)
    said = ", ".join(f"{share}: {value}" for share, value in figures)
    return {
        "name": name,
        "title": title,
        "figures": figures,
        "top": duration(top),
        "cut": _("cut off: up to %(most)s") % {"most": duration(most)} if most > top else "",
        "axis": axis(times.since, now),
        "chart": charts.lines(f"jobexec-{name}", title, said, curves, top),
        "any": any(value is not None for value in times.overall.values()),
    }


def _round_up(most: float) -> float:
    return next((step for step in _ROUND if step >= most), most)


def _percent(share: float) -> str:
    return _("%(percent)g %%") % {"percent": share * 100}


def _duration(seconds: float | None) -> str:
    return NONE if seconds is None else duration(seconds)


def _number(value: int) -> str:
    return str(number_format(value, use_l10n=True, force_grouping=True))


def _span(since: datetime, step: timedelta, at: int) -> dict[str, str]:
    return {"from": _time(since + at * step), "until": _time(since + (at + 1) * step)}


def axis(since: datetime, now: datetime) -> list[str]:
    """The labels of a chart: its beginning, middle and end."""
    return [_time(since), _time(since + (now - since) / 2), _("now")]


def _time(moment: datetime) -> str:
    return f"{timezone.localtime(moment):%H:%M}"
