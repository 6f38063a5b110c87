"""The columns of a requeued row."""

from __future__ import annotations

from typing import Any


def requeued_columns(retries: int) -> dict[str, Any]:
    """Return the columns with which a dead letter starts over."""
    fresh = {"retries": retries, "attempts": 0, "lost_runs": 0, "conflicts": 0, "snoozes": 0}
    return fresh | {
        "unknown_since": None,
        "expires_at": None,
        "exception_message": "",
        "exception_stack": "",
        "suspend_requested": False,
        "cancel_requested": False,
    }
