"""The badge of a job log entry, in its list and on the page of its job."""

from __future__ import annotations

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
    return display.badge(_KINDS.get(LogState(entry.state), "off"), entry.get_state_display())
