"""Explain what suspends a job, or will suspend it."""

from __future__ import annotations

from typing import Any

from django.utils.translation import gettext as _

from jobexec.models import AbstractJob, SuspendedJob, Suspension, SuspensionScope

from .facts import Facts, Reason, iso


def in_force(facts: Facts) -> list[Reason]:
    """The reasons why a job is suspended, or about to be moved to the suspended jobs."""
    found = [*_by_itself(facts.job), *covering(facts)]
    if not found and isinstance(facts.job, SuspendedJob):
        text = _("Nothing suspends it any more: a living node activates it at its next check of the suspensions.")
        return [Reason("activating", text, {"suspended_at": iso(facts.job.suspended_at)})]
    return found


def _by_itself(job: AbstractJob) -> list[Reason]:
    if not job.suspend_requested:
        return []
    text = _("It is suspended individually, with no end date.")
    return [Reason("suspended", text, {"suspended_at": iso(getattr(job, "suspended_at", None))})]


def covering(facts: Facts) -> list[Reason]:
    """The suspensions in force that cover the job, narrowest scope first."""
    return [_covered(facts, each) for each in _ordered(facts) if each.in_force(facts.now)]


def planned(facts: Facts) -> list[Reason]:
    """The planned suspensions of the job."""
    return [_planned(facts, each) for each in _ordered(facts) if not each.begun(facts.now)]


def _ordered(facts: Facts) -> list[Suspension]:
    return sorted(facts.suspensions, key=lambda each: SuspensionScope.values.index(each.scope))


def _covered(facts: Facts, suspension: Suspension) -> Reason:
    own, ends = suspension.scope == SuspensionScope.JOB, suspension.activate_time is not None
    if own and ends:
        text = _("It has been suspended individually since %(since)s, until %(until)s.")
    elif own:
        text = _("It has been suspended individually since %(since)s, with no end date.")
    elif ends:
        text = _("Its %(scope)s %(value)s has been suspended since %(since)s, until %(until)s.")
    else:
        text = _("Its %(scope)s %(value)s has been suspended since %(since)s, with no end date.")
    return Reason("suspended" if own else "suspended_by_scope", text % _values(facts, suspension), _details(suspension))


def _planned(facts: Facts, suspension: Suspension) -> Reason:
    own, ends = suspension.scope == SuspensionScope.JOB, suspension.activate_time is not None
    if own and ends:
        text = _("It will be suspended individually on %(since)s, until %(until)s.")
    elif own:
        text = _("It will be suspended individually on %(since)s, with no end date.")
    elif ends:
        text = _("Its %(scope)s %(value)s will be suspended on %(since)s, until %(until)s.")
    else:
        text = _("Its %(scope)s %(value)s will be suspended on %(since)s, with no end date.")
    return Reason("suspension_planned", text % _values(facts, suspension), _details(suspension))


def _values(facts: Facts, suspension: Suspension) -> dict[str, Any]:
    until = suspension.activate_time
    return {
        "scope": suspension.get_scope_display(),
        "value": suspension.shown_value,
        "since": facts.said(suspension.suspend_time or suspension.create_time),
        "until": facts.said(until) if until else "?",
    }


def _details(suspension: Suspension) -> dict[str, Any]:
    return {
        "suspension": suspension.pk,
        "scope": suspension.scope,
        "value": suspension.value,
        "since": iso(suspension.suspend_time or suspension.create_time),
        "until": iso(suspension.activate_time),
    }
