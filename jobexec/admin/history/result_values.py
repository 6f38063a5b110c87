"""Task results without sensitive values."""

from __future__ import annotations

import json
from typing import Any

from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _

from jobexec.handlers.registry import find_handler
from jobexec.models import ResultStatus, TaskResult
from jobexec.redaction import secrets_of
from jobexec.sensitive import redact_text

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


def _secrets(row: TaskResult) -> list[Any]:
    return secrets_of(find_handler(row.handler_type), json.dumps(row.handler_configuration))
