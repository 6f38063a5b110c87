"""The row that a caller names, by itself or by its id."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django.db import router
from django.db.models import Model

from jobexec.exceptions import InvalidJob
from jobexec.identifiers import as_id
from jobexec.json_values import shown
from jobexec.operations.audit import is_on


def which(named: Model | UUID, model: type[Model], using: str | None) -> tuple[str, UUID]:
    """The database and the id of the row. Raises InvalidJob for what is no row of the model, and no id."""
    if isinstance(named, model):
        return using or named._state.db or router.db_for_write(model), named.pk
    id = as_id(named) if isinstance(named, UUID | str) else None
    if id is None:
        raise InvalidJob(f"Expected a {model.__name__}, or its id, which is a UUID; got {shown(named)}.")
    return using or router.db_for_write(model), id


def tenant_of(model: type[Model], using: str, id: UUID) -> Any:
    """The tenant of the row, for the audit log; not queried if no change is recorded."""
    rows = model._base_manager.using(using).filter(pk=id)
    return rows.values_list("tenant_id", flat=True).first() if is_on() else None
