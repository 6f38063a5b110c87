"""Insert calls that were stored as JSON, on any node, whether it knows their handlers or not."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from django.utils.dateparse import parse_duration

from jobexec import clock
from jobexec.conf import get_settings

from ..values.inserted_rows import NewJob
from .create import Pattern


def create_stored(using: str, call: Mapping[str, Any], **defaults: Any) -> NewJob:
    """Insert the job of a call that ``JobCall.stored`` has made; delays count from now.

    ``defaults`` are columns that the call's options do not name. If its tenant is one of them, so is the resource.
    """
    columns = {**defaults, **call["columns"]}
    if "resource" not in columns:
        columns["resource"] = get_settings().resources.of_tenant(columns.get("tenant_id", ""))
    if columns.get("timeout") is not None:
        columns["timeout"] = parse_duration(columns["timeout"])
    if "expires" in call:
        columns["expires_at"] = _moment(using, call["expires"])
    if "wait" in call:
        columns["waits_until"] = _moment(using, call["wait"])
    due_date = _moment(using, call["due"]) if "due" in call else None
    handler, configuration = call["handler"], call["configuration"]
    # The policy permitted the call when it was stored. An envelope is not opened: this process may have no key.
    pattern = Pattern(using, {**columns, "handler_type": handler})
    return pattern.create(configuration, due_date=due_date, id=UUID(call["id"]) if "id" in call else None)


def _moment(using: str, stored: str | float) -> datetime:
    return datetime.fromisoformat(stored) if isinstance(stored, str) else clock.now(using) + timedelta(seconds=stored)
