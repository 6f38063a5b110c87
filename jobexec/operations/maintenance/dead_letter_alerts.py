"""Decide which new dead letters are reported to each target in DEAD_LETTER_ALERTS, and when.

A round reads the open incidents. It enqueues one job for all groups of failures that are due, in the transaction that
records for each group what has been reported. This transaction locks the target's own row, the one without a group, so
of several nodes only one enqueues the job.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from django.db.models import Count, Max, Min, Q, QuerySet

from jobexec import clock
from jobexec.conf import get_settings
from jobexec.conf.alerts import AlertTarget
from jobexec.models import AlertedGroup, FailureGroup, Incident, IncidentState
from jobexec.retry import RetryPlan

from ..enqueue.create import create_job
from ..sql.delete import delete_rows
from ..sql.dialect import begins_with
from ..sql.locks import atomic, lock_rows
from ..sql.server_time import keep_time
from ..values.fingerprint import exception_name

#: The handler of the jobs that deliver alerts; its own dead letters are not reported.
ALERT = "jobexec.alert"
#: The maximum number of groups that one message describes; the others are only counted.
MOST_GROUPS = 20
#: The shortest time between two messages to a target, whatever fails.
PAUSE = timedelta(minutes=1)
#: How long after an incident's timestamp its transaction may commit.
LATEST = timedelta(minutes=1)
#: Eight attempts, over about an hour.
RETRIES = "R8/PT30S*2..PT1H"
#: The minimum time between two updates of the row of a target without new failures.
SELDOM = timedelta(minutes=5)
_MESSAGE = 1000
_ALL = "*"
_DAY = timedelta(days=1)
_PAGE = 500


@dataclass(slots=True)
class _Look:
    """The groups to report now, as (first time, last time) by fingerprint, and since when others wait."""

    due: dict[str, tuple[datetime, datetime]] = field(default_factory=dict)
    waiting_since: datetime | None = None
    anything: bool = False


def alert_dead_letters(using: str) -> int:
    """Enqueue the alerts that are due, one job for each target, and return their number.

    Several processes may call it at once. There are no alerts about dead letters from before a target was first seen.
    """
    targets = get_settings().dead_letter_alerts
    if not targets:
        return 0
    keep_time(using)
    return sum(_alert(using, name, target) for name, target in targets.items())


def _alert(using: str, name: str, target: AlertTarget) -> bool:
    rows = AlertedGroup.objects.using(using).filter(target=name)
    own = rows.filter(fingerprint=_ALL).first()
    if own is None:
        new = AlertedGroup(target=name, fingerprint=_ALL, told_until=clock.now(using))
        AlertedGroup.objects.using(using).bulk_create([new], ignore_conflicts=True)
        return False
    if not _look(using, target, own).anything:
        _advance(using, own)
        return False
    with atomic(using):
        own = lock_rows(rows.filter(fingerprint=_ALL), skip_locked=True).first()
        if own is None:
            return False  # another node does it
        now, seen = clock.now(using), _look(using, target, own)
        told = bool(seen.due) and (own.alert_time is None or own.alert_time + PAUSE <= now)
        if told:
            _tell(using, name, target, own, seen, now)
        waiting = [first for first, _ in seen.due.values()] if seen.due and not told else []
        waiting += [seen.waiting_since] if seen.waiting_since else []
        # A moment earlier: the next round must still find the incident of that moment.
        until = min([now - LATEST, *(moment - timedelta(microseconds=1) for moment in waiting)])
        changes: dict[str, Any] = {"told_until": max(own.told_until, until)}
        rows.filter(fingerprint=_ALL).update(**changes, **({"alert_time": now} if told else {}))
    return told


def _advance(using: str, own: AlertedGroup) -> None:
    """Record now and then that there was nothing, or each round would read all that other targets are told."""
    until = clock.now(using) - LATEST
    if own.told_until < until - SELDOM:
        AlertedGroup.objects.using(using).filter(pk=own.pk, told_until__lt=until).update(told_until=until)


def _incidents(using: str, target: AlertTarget) -> QuerySet[Incident]:
    rows = Incident.objects.using(using).filter(state=IncidentState.OPEN, resource=None).exclude(handler_type=ALERT)
    if target.handlers:
        named = Q()
        for name in target.handlers:
            is_prefix = name.endswith("*")
            named |= begins_with(using, "handler_type", name[:-1]) if is_prefix else Q(handler_type=name)
        rows = rows.filter(named)
    if target.categories:
        rows = rows.filter(category__in=target.categories)
    return rows.filter(tenant_id__in=target.tenants) if target.tenants else rows


def _look(using: str, target: AlertTarget, own: AlertedGroup) -> _Look:
    """The groups with new failures since the target's last alert; pure apart from its two queries."""
    since = _incidents(using, target).filter(timestamp__gt=own.told_until)
    found = since.order_by().values_list("fingerprint").annotate(Min("timestamp"), Max("timestamp"))
    groups = {alike: (first, last) for alike, first, last in found}
    for alike in _quiet(using, list(groups)):
        del groups[alike]
    if not groups:
        return _Look()
    known = _known(using, own.target, list(groups))
    seen, now = _Look(anything=True), clock.now(using)
    for alike, (first, last) in groups.items():
        earlier = known.get(alike)
        if earlier is not None and last <= earlier.told_until:
            continue
        if earlier is None or earlier.alert_time is None or earlier.alert_time + target.interval <= now:
            seen.due[alike] = first, last
        else:
            begun = max(first, earlier.told_until + timedelta(microseconds=1))
            seen.waiting_since = min(begun, seen.waiting_since or begun)
    return seen


def _quiet(using: str, alike: list[str]) -> list[str]:
    """Those of these groups that an operator has acknowledged or snoozed, whose failures are not reported."""
    now, rows = clock.now(using), FailureGroup.objects.using(using)
    pages = [alike[start : start + _PAGE] for start in range(0, len(alike), _PAGE)]
    return [group.pk for page in pages for group in rows.filter(pk__in=page) if group.quiet(now)]


def _known(using: str, target: str, alike: list[str]) -> dict[str, AlertedGroup]:
    rows = AlertedGroup.objects.using(using).filter(target=target)
    pages = [alike[start : start + _PAGE] for start in range(0, len(alike), _PAGE)]
    return {row.fingerprint: row for page in pages for row in rows.filter(fingerprint__in=page)}


def _tell(using: str, name: str, target: AlertTarget, own: AlertedGroup, seen: _Look, now: datetime) -> None:
    """Enqueue the job, and record what it reports."""
    known = _known(using, name, list(seen.due))
    first = sorted(seen.due, key=lambda alike: seen.due[alike][1], reverse=True)[:MOST_GROUPS]
    groups = [_group(using, target, own, known.get(alike), alike) for alike in first]
    rows = AlertedGroup.objects.using(using).filter(target=name)
    for alike, row in known.items():
        rows.filter(pk=row.pk).update(told_until=seen.due[alike][1], alert_time=now)
    new = [
        AlertedGroup(target=name, fingerprint=alike, told_until=last, alert_time=now)
        for alike, (_, last) in seen.due.items()
        if alike not in known
    ]
    AlertedGroup.objects.using(using).bulk_create(new, batch_size=_PAGE)
    kept = 2 * max(target.interval, _DAY)
    delete_rows(rows.filter(alert_time__lt=now - kept).exclude(fingerprint=_ALL))
    _enqueue(using, name, groups, len(seen.due) - len(groups))


def _group(
    using: str, target: AlertTarget, own: AlertedGroup, earlier: AlertedGroup | None, alike: str
) -> dict[str, Any]:
    """Describe a group in an alert: without arguments, and with texts redacted as in the row of the job."""
    since = max(own.told_until, earlier.told_until) if earlier else own.told_until
    rows = _incidents(using, target).filter(fingerprint=alike, timestamp__gt=since)
    numbers = rows.aggregate(count=Count("pk"), first=Min("timestamp"), last=Max("timestamp"))
    latest = rows.order_by("-timestamp").first()
    return {
        "fingerprint": alike,
        "handler": latest.handler_type if latest else "",
        "exception": exception_name(latest.message) if latest else "",
        "message": latest.message[:_MESSAGE] if latest else "",
        "dead_letters": numbers["count"],
        "first_time": numbers["first"],
        "last_time": numbers["last"],
        "job_id": latest.job_id if latest else None,
        "category": latest.category if latest else "",
        "tenant_id": latest.tenant_id if latest else "",
    }


def _enqueue(using: str, target: str, groups: list[dict[str, Any]], others: int) -> None:
    settings, plan = get_settings(), RetryPlan.parse(RETRIES)
    create_job(
        using,
        handler_type=ALERT,
        handler_configuration={"args": [target], "kwargs": {"groups": groups, "others": others}},
        category=settings.batch_category or settings.categories[0],
        retries=plan.attempts,
        retry_plan=str(plan),
        exclusive=False,
        timeout=timedelta(minutes=2),
        deployment_id="",
    )
