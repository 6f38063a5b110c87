"""Explain for which message a job waits."""

from __future__ import annotations

from django.utils.translation import gettext as _

from jobexec.models import Message

from .facts import Facts, Reason, iso


def reasons(facts: Facts) -> list[Reason]:
    """The message for which the job waits, since when and until when; and whether it is just being delivered."""
    job = facts.job
    values = {"name": job.waits_for, "key": job.waits_for_key, "since": facts.said(job.create_time)}
    if job.waits_until is None:
        text = _("It has been waiting for the message %(name)s with the key %(key)s since %(since)s.")
    else:
        text = _(
            "It has been waiting for the message %(name)s with the key %(key)s since %(since)s; its wait ends on "
            "%(until)s."
        )
        values["until"] = facts.said(job.waits_until)
    details = {"name": job.waits_for, "key": job.waits_for_key, "tenant_id": job.tenant_id}
    details |= {"since": iso(job.create_time), "until": iso(job.waits_until)}
    found = [Reason("waits_for_message", text % values, details)]
    messages = Message.objects.using(facts.using).filter(name=job.waits_for, key=job.waits_for_key)
    published = messages.filter(tenant_id=job.tenant_id, delivery_time__isnull=False).order_by("id").first()
    over = job.waits_until is not None and job.waits_until <= facts.now
    if published is not None:
        said = {"time": facts.said(published.create_time)}
        text = _("The message was published on %(time)s. A living node delivers it at its next check.")
        found.append(Reason("message_soon", text % said, {"message": published.pk}))
    elif over and job.runnable:
        text = _("Its wait is over. A living node continues it at its next check.")
        found.append(Reason("wait_over", text, details))
    return found
