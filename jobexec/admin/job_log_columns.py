"""How an entry of the job log looks, in its list and on the page of its job."""

from __future__ import annotations

from typing import Any

from django.utils.safestring import SafeString

from jobexec.models import JobLog, LogState

from . import display

_KINDS = {
    LogState.CREATED: "wait",
    LogState.SUCCESSFUL: "ok",
    LogState.FAILED: "bad",
    LogState.DELETED: "off",
    LogState.CANCELLED: "off",
}


def log_badge(entry: JobLog) -> SafeString:
    """The event in colour."""
    return display.badge(_KINDS.get(LogState(entry.state), "off"), entry.get_state_display())


def attempt_of(entry: JobLog) -> dict[str, Any]:
    """What the page of a job shows of an entry."""
    return {
        "time": display.absolute(entry.timestamp),
        "badge": log_badge(entry),
        "attempt": entry.attempt or display.NONE,
        "retries": entry.retries,
        "node": entry.node or display.NONE,
        "wait": display.duration(entry.wait),
        "duration": display.duration(entry.duration),
        "message": display.shortened(entry.exception_message, 120),
        "details": "\n\n".join(filter(None, (entry.exception_message, entry.exception_stack))),
    }
