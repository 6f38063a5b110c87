"""Task results without sensitive values."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _

from jobexec.encryption import key_of, shown_envelope, unseal_result
from jobexec.exceptions import HandlerNotFound
from jobexec.handlers.base import JobHandler, NamesArguments
from jobexec.handlers.registry import get_handler
from jobexec.models import ResultStatus, TaskResult
from jobexec.operations.rows.redaction_by_definition import names_by_definitions
from jobexec.redaction import secrets_of
from jobexec.sensitive import hide, redact_text

from ..common import display

_KINDS = {ResultStatus.READY.value: "warn", ResultStatus.FAILED.value: "bad", ResultStatus.SUCCESSFUL.value: "ok"}


def status_badge(row: TaskResult) -> SafeString:
    """The status, and the state of its job if the job still exists."""
    badge = display.badge(_KINDS.get(row.status, "off"), row.get_status_display())
    living = getattr(row, "living", None)
    if living is None:
        return badge
    return format_html('{} <span class="jobexec-quiet">{}</span>', badge, _(living.state))


def attempts_of(row: TaskResult) -> list[dict[str, Any]]:
    """The attempts, the last first; failed ones with their error, without sensitive values."""
    errors, workers = list(row.errors or ()), list(row.workers or ())
    secrets = _secrets(row)
    count = max(len(errors), len(workers))
    attempts = [
        {
            "number": number + 1,
            "node": workers[number] if number < len(workers) else "",
            "exception": str(errors[number].get("exception_class_path", "")) if number < len(errors) else "",
            "traceback": redact_text(str(errors[number].get("traceback", "")), secrets) if number < len(errors) else "",
        }
        for number in range(count)
    ]
    return attempts[::-1]


def shown_value(row: TaskResult) -> Any:
    """The return value, without sensitive values; an encrypted one stays encrypted."""
    if key_of(row.return_value) is not None:
        return shown_envelope(row.return_value)
    return hide(unseal_result(row.return_value, row.pk), getattr(row, "hidden", ()))


def sensitive_names(handler_types: set[str], using: str) -> dict[str, Sequence[str]]:
    """The sensitive argument names by handler; executors recorded those of handlers unknown here (one statement)."""
    found: dict[str, Sequence[str]] = {}
    for name in handler_types:
        handler: object = _handler(name)
        if isinstance(handler, NamesArguments):
            found[name] = handler.sensitive_names()
    missing = handler_types - found.keys()
    return found | names_by_definitions(missing, using) if missing else found


def _handler(name: str) -> JobHandler | None:
    try:
        return get_handler(name)
    except HandlerNotFound:
        return None


def _secrets(row: TaskResult) -> list[Any]:
    return secrets_of(_handler(row.handler_type), json.dumps(row.handler_configuration))
