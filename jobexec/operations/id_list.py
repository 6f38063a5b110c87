"""Long lists of ids in statements of our own: as one parameter, where a list of a thousand costs a thousand."""

from __future__ import annotations

import json
from collections.abc import Iterable
from uuid import UUID


def among(vendor: str, name: str) -> str:
    """The condition that ``id`` is in the list which is the parameter ``name``; on PostgreSQL and SQLite."""
    if vendor == "sqlite":
        return f"id IN (SELECT value FROM json_each(%({name})s))"
    return f"id = ANY(%({name})s::uuid[])"


def as_parameter(vendor: str, ids: Iterable[UUID]) -> str:
    """The list for :func:`among`."""
    if vendor == "sqlite":
        return json.dumps([id.hex for id in ids])
    return f"{{{','.join([id.hex for id in ids])}}}"
