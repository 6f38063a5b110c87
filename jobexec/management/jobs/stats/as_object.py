"""The overview of an engine as a JSON object."""

from __future__ import annotations

from dataclasses import asdict, fields
from typing import Any

from jobexec.models import Suspension
from jobexec.models.suspension import parts_of
from jobexec.operations.overview import NextTimers, Overview, RunningBatch
from jobexec.operations.problems import problems
from jobexec.operations.reports.counts import CappedCount, JobCounts
from jobexec.operations.reports.failure_groups import GroupOfFailures
from jobexec.operations.reports.throughput import Traffic


def as_object(seen: Overview) -> dict[str, Any]:
    """The whole overview; durations in seconds. ``at_least`` names the counts that reached the limit of counting."""
    return {
        "database": seen.using,
        "now": seen.now,
        "period": seen.period,
        "problems": [asdict(problem) for problem in problems(seen)],
        "counts": seen.counts and _counts(seen.counts),
        "incidents": seen.incidents and int(seen.incidents),
        "oldest_due": seen.oldest_due,
        "schedules": [asdict(schedule) for schedule in seen.schedules or []],
        "timers": [_timers(each) for each in seen.timers or []],
        "nodes": nodes(seen),
        "suspensions": [_suspension(each) for each in seen.suspensions or []],
        "planned": [_suspension(each) for each in seen.planned or []],
        "batches": [_batch(each) for each in seen.batches or []],
        "resources": [each.as_json() for each in seen.resources or []],
        "failure_groups": failure_groups(seen),
        "traffic": seen.traffic and _traffic(seen.traffic),
        "running": [asdict(each) for each in seen.running or []],
        "handlers": [asdict(each) for each in seen.handlers or []],
    }


def nodes(seen: Overview) -> list[dict[str, Any]]:
    return [{**asdict(node), "lease_good": node.lease_good} for node in seen.nodes or []]


def _timers(found: NextTimers) -> dict[str, Any]:
    return {**asdict(found), "at_least": ["count", "retries"] if found.count.capped else []}


def _traffic(through: Traffic) -> dict[str, Any]:
    return {**asdict(through), "all_succeeded": through.all_succeeded, "all_failed": through.all_failed}


def _counts(counts: JobCounts) -> dict[str, Any]:
    found = {each.name: getattr(counts, each.name) for each in fields(counts) if each.name != "oldest_due"}
    return {name: int(count) for name, count in found.items()} | {
        "at_least": [name for name, count in found.items() if isinstance(count, CappedCount) and count.capped]
    }


def _suspension(suspension: Suspension) -> dict[str, Any]:
    since = suspension.suspend_time or suspension.create_time
    named = {"id": suspension.pk, "scope": suspension.scope, "value": suspension.shown_value}
    columns = parts_of(suspension.scope, suspension.value)
    return {**named, "columns": columns, "since": since, "until": suspension.activate_time}


def _batch(running: RunningBatch) -> dict[str, Any]:
    batch = running.batch
    names = ("id", "type", "name", "state", "create_time", "create_user")
    return {**{name: getattr(batch, name) for name in names}, **running.progress._asdict()}


def failure_groups(seen: Overview) -> list[dict[str, Any]]:
    return [_group(each) for each in seen.failure_groups or []]


def _group(found: GroupOfFailures) -> dict[str, Any]:
    group = {field.name: getattr(found.group, field.attname) for field in found.group._meta.concrete_fields}
    return {**group, "dead_letters": int(found.dead_letters)}
