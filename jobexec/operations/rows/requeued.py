"""The columns of a row that begins anew."""

from __future__ import annotations

from typing import Any


def requeued_columns(retries: int) -> dict[str, Any]:
    """What a dead letter says when it begins anew."""
    fresh = {"retries": retries, "attempts": 0, "lost_runs": 0, "conflicts": 0, "unknown_since": None}
    return fresh | {
        "exception_message": "",
        "exception_stack": "",
        "suspend_requested": False,
        "cancel_requested": False,
    }
