"""Explain why an unlocked job is not acquired: executable jobs, timers, suspended jobs, history jobs."""

from __future__ import annotations

from typing import Any

from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from jobexec.conf import get_settings
from jobexec.models import BlockedJob, HistoryJob, Job, SuspendedJob, TimerJob

from ..rows.routing import is_external
from . import blocked, external, message, nodes, suspended, tenant
from .facts import MOST_IN_FRONT, Facts, Reason, iso
from .sibling import sibling


def reasons(facts: Facts) -> list[Reason]:
    """The reasons for an unlocked job that is not a dead letter."""
    job = facts.job
    if isinstance(job, HistoryJob):
        return [_history(facts), *nodes.no_node(facts)]
    assert isinstance(job, Job | TimerJob | BlockedJob | SuspendedJob)
    found = [*suspended.in_force(facts), *_unknown_since(facts)]
    if job.waits_for is not None:
        found += message.reasons(facts)
    elif isinstance(job, BlockedJob):
        found += blocked.reasons(facts)
        if is_external(job):  # executors give permits, also of what they do not run
            found += nodes.no_node(facts)
    elif not isinstance(job, Job):
        found += _not_due(facts)
    # A suspended external job does not go to a node.
    found += external.workers(facts) if is_external(job) else nodes.reasons(facts)
    if isinstance(job, Job):
        found += [*sibling(facts), *tenant.reasons(facts), *nodes.busy(facts), *_in_front(facts)]
    return [*(found or [_soon(facts)]), *suspended.planned(facts)]


def _history(facts: Facts) -> Reason:
    due = facts.job.due_date
    if due is not None and due > facts.now:
        text = _("It is a history job, due on %(due)s.") % {"due": facts.said(due)}
    else:
        text = _("It is a history job, which a living node writes at its next poll.")
    return Reason("history_waiting", text, {"due_date": iso(due)})


def _unknown_since(facts: Facts) -> list[Reason]:
    job, since = facts.job, facts.job.unknown_since
    if since is None:
        return []
    until = since + get_settings().unknown_handler_timeout
    text = _(
        "A node acquired it but did not know its handler %(handler)s, first on %(since)s. It is tried again until a "
        "node knows the handler, and becomes a dead letter after %(until)s."
    ) % {"handler": job.handler_type, "since": facts.said(since), "until": facts.said(until)}
    details = {"handler": job.handler_type, "since": iso(since), "until": iso(until)}
    return [Reason("handler_unknown", text, details)]


def _not_due(facts: Facts) -> list[Reason]:
    """For a timer, and for a suspended job, which keeps its due date."""
    job, due = facts.job, facts.job.due_date
    if due is None or (due <= facts.now and not job.runnable):
        return []
    details: dict[str, Any] = {"due_date": iso(due), "attempts": job.attempts, "retries": job.retries}
    if due <= facts.now:
        text = _("It became due on %(due)s. A living node makes it executable at its next check of the timers.")
        return [Reason("due", text % {"due": facts.said(due)}, details)]
    if not job.attempts:
        return [Reason("not_due", _("It is not due before %(due)s.") % {"due": facts.said(due)}, details)]
    text = ngettext(
        "Attempt %(made)d failed; the next one is due on %(due)s, with %(count)d retry left: %(exception)s",
        "Attempt %(made)d failed; the next one is due on %(due)s, with %(count)d retries left: %(exception)s",
        job.retries,
    ) % {"made": job.attempts, "due": facts.said(due), "count": job.retries, "exception": job.exception_message}
    return [Reason("waits_for_retry", text, details | {"exception": job.exception_message})]


def _in_front(facts: Facts) -> list[Reason]:
    count = facts.in_front
    if not count:
        return []
    many = count > MOST_IN_FRONT
    text = ngettext(
        "About %(count)s job of category %(category)s is ahead of it.",
        "About %(count)s jobs of category %(category)s are ahead of it.",
        count,
    )
    if many:
        text = _("More than %(count)s jobs of category %(category)s are ahead of it.")
    shown = min(count, MOST_IN_FRONT)
    text %= {"count": shown, "category": facts.job.category}
    details = {"count": shown, "more": many, "category": facts.job.category, "priority": facts.job.priority}
    return [Reason("jobs_in_front", text, details)]


def _soon(facts: Facts) -> Reason:
    names = sorted(node.label for node in facts.takers)
    text = _("Nothing blocks it: a node that serves it (%(nodes)s) acquires it at its next poll.")
    return Reason("soon", text % {"nodes": ", ".join(names)}, {"nodes": names})
