"""Deliver alerts to a target in DEAD_LETTER_ALERTS: by a signed request to its webhook, or by mail."""

from __future__ import annotations

import base64
import hashlib
import hmac
import http.client
import json
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from typing import Any
from urllib.parse import urlencode

from django.core.mail import send_mail
from django.core.serializers.json import DjangoJSONEncoder
from django.urls import NoReverseMatch, reverse
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from jobexec import clock
from jobexec.conf import get_settings
from jobexec.conf.alerts import AlertTarget
from jobexec.exceptions import AlertFailed, DoNotRetry
from jobexec.identifiers import uuid7

from ..sql.errors import one_line

#: Seconds: for the connection, and for each wait for an answer.
TIMEOUT = 10.0
_READ = 1000
_SUBJECT = 200


def deliver(using: str, id: str, name: str, groups: Sequence[Mapping[str, Any]], others: int) -> None:
    """Send one message; ``id`` is the same for each attempt, so that receivers can drop duplicates.

    Raises :class:`~jobexec.exceptions.AlertFailed` if the webhook does not accept it, and DoNotRetry if the target is
    no longer in the settings.
    """
    target = (get_settings().dead_letter_alerts or {}).get(name)
    if target is None:
        raise DoNotRetry(f"DEAD_LETTER_ALERTS no longer has {name!r}.")
    groups = [{**group, "url": _page(group["fingerprint"])} for group in groups]
    if target.mail:
        send_mail(_subject(groups, others), _text(using, groups, others), None, list(target.mail))
    else:
        text = f"{_subject(groups, others)}\n\n{_text(using, groups, others)}"
        told = _BODIES[target.format](using, name, text, groups, others)
        _post(target, id, json.dumps(told, cls=DjangoJSONEncoder).encode())


def send_test_alert(name: str, *, using: str = "default") -> None:
    """Send a message without dead letters to a target immediately, to test its address and its secret.

    Raises what :func:`deliver` raises, and errors of the mail server.
    """
    now = clock.now(using).isoformat()
    sample = {"fingerprint": "", "handler": "jobexec.alert", "exception": "", "message": "This is a test."}
    times = {"dead_letters": 0, "first_time": now, "last_time": now, "job_id": None, "category": "", "tenant_id": ""}
    deliver(using, f"test-{uuid7()}", name, [sample | times], 0)


def _page(fingerprint: str) -> str:
    """The admin's page of these dead letters; '' without SITE_URL, or if the project has no admin."""
    site = get_settings().site_url
    if site is None:
        return ""
    try:
        return f"{site}{reverse('admin:jobexec_deadletterjob_changelist')}?{urlencode({'fingerprint': fingerprint})}"
    except NoReverseMatch:
        return ""


def _subject(groups: Sequence[Mapping[str, Any]], others: int) -> str:
    count = sum(group["dead_letters"] for group in groups)
    text = ngettext("%(count)d new dead letter: %(handlers)s", "%(count)d new dead letters: %(handlers)s", count)
    names = list(dict.fromkeys(group["handler"] for group in groups))
    handlers = ", ".join(names[:3]) + (", …" if len(names) > 3 or others else "")
    return one_line(text % {"count": count, "handlers": handlers}, _SUBJECT)


def _text(using: str, groups: Sequence[Mapping[str, Any]], others: int) -> str:
    parts = []
    for group in groups:
        text = ngettext(
            "%(handler)s: %(count)d dead letter", "%(handler)s: %(count)d dead letters", group["dead_letters"]
        )
        lines = [text % {"handler": group["handler"], "count": group["dead_letters"]}, group["message"]]
        if group["job_id"]:
            lines.append(_("The latest: job %(id)s, %(time)s") % {"id": group["job_id"], "time": group["last_time"]})
        if group["tenant_id"]:
            lines.append(_("Tenant: %(tenant)s") % {"tenant": group["tenant_id"]})
        parts.append("\n".join([*filter(None, [*lines, group["url"]])]))
    if others:
        text = ngettext("%(count)d more group of failures.", "%(count)d more groups of failures.", others)
        parts.append(text % {"count": others})
    parts.append(_("Database: %(name)s") % {"name": using})
    return "\n\n".join(parts)


def _own(using: str, name: str, text: str, groups: Sequence[Mapping[str, Any]], others: int) -> dict[str, Any]:
    return {
        "type": "jobexec.dead_letters",
        "target": name,
        "database": using,
        "text": text,
        "groups": groups,
        "other_groups": others,
    }


def _slack(using: str, name: str, text: str, *rest: Any) -> dict[str, Any]:
    """Slack refuses other keys. Escaped as it asks, a message of an exception can neither link nor mention anybody."""
    return {"text": text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")}


#: By the target's format, see FORMATS.
_BODIES: Mapping[str, Callable[..., dict[str, Any]]] = {"jobexec": _own, "slack": _slack}


def signature(secret: bytes, id: str, timestamp: str, body: bytes) -> str:
    """The value of ``webhook-signature`` (Standard Webhooks 1.0)."""
    signed = b".".join([id.encode(), timestamp.encode(), body])
    return f"v1,{base64.b64encode(hmac.digest(secret, signed, hashlib.sha256)).decode()}"


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """A redirect could lead the alert, and its signature, to another host."""

    def redirect_request(self, *args: Any, **kwargs: Any) -> None:
        return None


def _post(target: AlertTarget, id: str, body: bytes) -> None:
    timestamp = str(int(clock.now().timestamp()))
    headers = {"Content-Type": "application/json", "User-Agent": "jobexec", "webhook-id": id}
    headers["webhook-timestamp"] = timestamp
    if target.secret:
        headers["webhook-signature"] = signature(target.secret, id, timestamp, body)
    request = urllib.request.Request(target.url, body, headers, method="POST")  # noqa: S310 - https, see conf.alerts
    try:
        with urllib.request.build_opener(_NoRedirects).open(request, timeout=TIMEOUT) as answer:
            answer.read(_READ)
    except urllib.error.HTTPError as error:
        error.close()
        hint = " (redirects are not followed)" if 300 <= error.code < 400 else ""
        raise AlertFailed(f"{target.host} answered {error.code}{hint}.") from None
    except (urllib.error.URLError, http.client.HTTPException, OSError) as error:
        # Without its cause: some of these errors quote the URL, which is often a secret.
        reason = getattr(error, "reason", error)
        raise AlertFailed(f"{target.host} cannot be reached: {type(reason).__name__}.") from None
