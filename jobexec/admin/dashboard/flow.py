"""The charts: throughput of the engine, waiting and running times of jobs."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

from django.utils import timezone
from django.utils.formats import number_format
from django.utils.translation import gettext as _

from jobexec.operations.reports.throughput import Times, Traffic
from jobexec.operations.values.humanize import NONE, duration

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
        "top": _number(int(charts.nice_top(_most(traffic)))),
        "step": duration(traffic.step.total_seconds()),
        "axis": _axis(traffic.since, now),
        "times": [
            _times("wait", _("Waiting time"), traffic.wait, now),
            _times("run", _("Running time"), traffic.run, now),
        ],
        "any": bool(traffic.all_succeeded or traffic.all_failed),
    }


def _most(traffic: Traffic) -> int:
    return max(map(sum, zip(traffic.succeeded, traffic.failed, strict=True)), default=0)


def _bars(traffic: Traffic) -> str:
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
    top = _round_up([value for _kind, values in curves for value in values if value is not None])
    said = ", ".join(f"{share}: {value}" for share, value in figures)
    return {
        "name": name,
        "title": title,
        "figures": figures,
        "top": duration(top),
        "axis": _axis(times.since, now),
        "chart": charts.lines(f"jobexec-{name}", title, said, curves, top),
        "any": any(value is not None for value in times.overall.values()),
    }


def _round_up(values: Sequence[float]) -> float:
    most = max(values, default=0.0)
    return next((step for step in _ROUND if step >= most), most)


def _percent(share: float) -> str:
    return _("%(percent)g %%") % {"percent": share * 100}


def _duration(seconds: float | None) -> str:
    return NONE if seconds is None else duration(seconds)


def _number(value: int) -> str:
    return str(number_format(value, use_l10n=True, force_grouping=True))


def _span(since: datetime, step: timedelta, at: int) -> dict[str, str]:
    return {"from": _time(since + at * step), "until": _time(since + (at + 1) * step)}


def _axis(since: datetime, now: datetime) -> list[str]:
    """The labels of a chart: its beginning, middle and end."""
    return [_time(since), _time(since + (now - since) / 2), _("now")]


def _time(moment: datetime) -> str:
    return f"{timezone.localtime(moment):%H:%M}"
