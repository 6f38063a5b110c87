"""Explain why an external job is not done: a worker holds it, it waits for a time, or no worker asks for it."""

from __future__ import annotations

from typing import Any

from django.db.models import Q
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from jobexec.models import ExternalWorker, ExternalWorkerJob

from ..reports.worker_table import PRESENT_FOR
from ..rows.external_exclusive import owner_of
from . import suspended
from .facts import MOST_IN_FRONT, Facts, Reason, iso
from .sibling import sibling

_MOST_WORKERS = 1000
_NAMED = 5


def reasons(facts: Facts) -> list[Reason]:
    """The reasons for a job in the table from which external workers fetch."""
    job = facts.job
    assert isinstance(job, ExternalWorkerJob)
    until = job.lock_expiration_time
    if job.lock_owner is not None and until is not None and until > facts.now:
        return [_held(facts, job), *_cancelled(job), *_stays(job), *suspended.covering(facts)]
    found = [*suspended.in_force(facts), *_backs_off(facts, job), *_deadline_missed(facts, job)]
    lock = facts.exclusive_lock
    if lock is not None and lock.lock_owner != owner_of(job.pk):
        found += sibling(facts)
    found += workers(facts)
    if not found or job.lock_owner is not None:
        found += _in_front(facts, job) or [_soon(facts)]
    return [*found, *suspended.planned(facts)]


def _held(facts: Facts, job: ExternalWorkerJob) -> Reason:
    assert job.lock_expiration_time is not None
    text = ngettext(
        "The worker %(worker)s holds it until %(until)s; it was fetched %(count)d time.",
        "The worker %(worker)s holds it until %(until)s; it was fetched %(count)d times.",
        job.attempts,
    )
    values = {"worker": job.lock_owner, "until": facts.said(job.lock_expiration_time), "count": job.attempts}
    details = {
        "worker": job.lock_owner,
        "until": iso(job.lock_expiration_time),
        "fetched": job.attempts,
        "leased": bool(job.lease_token),
    }
    return Reason("held_by_worker", text % values, details)


def _cancelled(job: ExternalWorkerJob) -> list[Reason]:
    if not job.cancel_requested:
        return []
    text = _("Cancelled. A completion before the deadline still counts; the job is not handed out again.")
    return [Reason("cancel_requested", text)]


def _stays(job: ExternalWorkerJob) -> list[Reason]:
    if not job.suspend_requested:
        return []
    text = _("It will be suspended individually as soon as its worker gives it back or its deadline passes.")
    return [Reason("suspended", text, {"suspended_at": None})]


def _backs_off(facts: Facts, job: ExternalWorkerJob) -> list[Reason]:
    if job.available_at is None or job.available_at <= facts.now:
        return []
    details: dict[str, Any] = {
        "available_at": iso(job.available_at),
        "attempts": job.attempts,
        "retries": job.retries,
    }
    if not job.exception_message:
        text = _("It is not available to workers before %(due)s.") % {"due": facts.said(job.available_at)}
        return [Reason("not_due", text, details)]
    text = ngettext(
        "It has failed and backs off until %(due)s, with %(count)d retry left: %(exception)s",
        "It has failed and backs off until %(due)s, with %(count)d retries left: %(exception)s",
        job.retries,
    ) % {"due": facts.said(job.available_at), "count": job.retries, "exception": job.exception_message}
    return [Reason("waits_for_retry", text, details | {"exception": job.exception_message})]


def _deadline_missed(facts: Facts, job: ExternalWorkerJob) -> list[Reason]:
    until = job.lock_expiration_time
    if job.lock_owner is None or until is None:
        return []
    text = _(
        "The worker %(worker)s fetched it and missed the deadline on %(until)s. It may still complete the job until "
        "another worker fetches it."
    )
    details = {"worker": job.lock_owner, "until": iso(until), "missed": job.lost_runs}
    return [Reason("deadline_missed", text % {"worker": job.lock_owner, "until": facts.said(until)}, details)]


def workers(facts: Facts) -> list[Reason]:
    """Report that no worker asks for jobs of its type, or of its tenant; empty if a worker does."""
    rows = _rows(facts)
    type, tenant = facts.job.handler_type, facts.job.tenant_id
    if not rows:
        text = _("No worker is known to have asked for jobs of the type %(type)s.") % {"type": type}
        return [Reason("no_worker", text, {"type": type, "last_seen": None, "worker": None})]
    present = [row for row in rows if _present(facts, row)]
    if not present:
        last = rows[0]
        text = _("No worker has asked for jobs of the type %(type)s since %(since)s; the last one was %(worker)s.")
        values = {"type": type, "since": facts.said(last.last_seen), "worker": last.worker or last.client}
        details = {"type": type, "last_seen": iso(last.last_seen), "worker": last.worker}
        return [Reason("no_worker", text % values, details)]
    if any(not row.tenants or tenant in row.tenants for row in present):
        return []
    text = _("No worker that asks for jobs of the type %(type)s asks for jobs of the tenant %(tenant)s.")
    values = {"type": type, "tenant": tenant or "<default>"}
    return [Reason("no_worker_of_tenant", text % values, {"type": type, "tenant": tenant})]


def _rows(facts: Facts) -> list[ExternalWorker]:
    rows = ExternalWorker.objects.using(facts.using).filter(type=facts.job.handler_type)
    return list(rows.order_by("-last_seen", "pk")[:_MOST_WORKERS])


def _present(facts: Facts, row: ExternalWorker) -> bool:
    return row.last_seen >= facts.now - PRESENT_FOR


def _in_front(facts: Facts, job: ExternalWorkerJob) -> list[Reason]:
    rows = ExternalWorkerJob.objects.using(facts.using)
    before = rows.filter(handler_type=job.handler_type, rank__lte=job.rank)
    before = before.filter(Q(available_at=None) | Q(available_at__lte=facts.now))
    count = before.exclude(rank=job.rank, id__gte=job.pk).order_by().values("pk")[: MOST_IN_FRONT + 1].count()
    if not count:
        return []
    many, shown = count > MOST_IN_FRONT, min(count, MOST_IN_FRONT)
    text = ngettext(
        "%(count)d job of the type %(type)s is ahead of it.",
        "%(count)d jobs of the type %(type)s are ahead of it.",
        count,
    )
    if many:
        text = _("More than %(count)d jobs of the type %(type)s are ahead of it.")
    details = {"count": shown, "more": many, "type": job.handler_type, "priority": job.priority}
    return [Reason("jobs_in_front", text % {"count": shown, "type": job.handler_type}, details)]


def _soon(facts: Facts) -> Reason:
    names = sorted({row.worker or row.client for row in _rows(facts) if _present(facts, row)})
    shown = ", ".join(names[:_NAMED]) + (", …" if len(names) > _NAMED else "")
    text = _("Nothing blocks it: a worker that asks for its type (%(workers)s) gets it as soon as the worker is free.")
    return Reason("waits_for_worker", text % {"workers": shown}, {"workers": names})
