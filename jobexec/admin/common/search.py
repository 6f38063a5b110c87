"""Search that uses the indexes of the job tables."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django.db.models import Model, Q, QuerySet
from django.utils.translation import gettext_lazy as _

from jobexec.models import EXTERNAL_TABLES, Incident
from jobexec.operations.query.values import as_key

HELP = _("A job's id or key, a process instance, or the beginning of a handler's name.")

_KEYS: dict[type[Model], str] = {**dict.fromkeys(EXTERNAL_TABLES, "job_key"), Incident: "incident_key"}


def as_uuid(term: str) -> UUID | None:
    """The term as an id; None if it is not a UUID."""
    try:
        return UUID(term)
    except ValueError:
        return None


def search(queryset: QuerySet[Any], term: str, id_column: str = "pk") -> QuerySet[Any]:
    """Rows with this id, key or process instance; if there are none, rows whose handler name begins with the term.

    Ids, keys and process instances are looked up exactly, in their indexes. Handler names have no index in the job
    tables, so they are compared only if nothing else matches.
    """
    term = term.strip()
    if not term:
        return queryset
    if "\0" in term:  # PostgreSQL has no NUL in a text
        return queryset.none()
    id = as_uuid(term)
    if id is not None:
        return queryset.filter(Q(**{id_column: id}) | Q(process_instance_id=term))
    instance = queryset.filter(Q(process_instance_id=term) | _by_key(queryset, term))
    if instance.order_by().exists():
        return instance
    return queryset.filter(handler_type__startswith=term)


def _by_key(queryset: QuerySet[Any], term: str) -> Q:
    """A condition on the numeric key by which external workers know the row."""
    column, key = _KEYS.get(queryset.model), as_key(term)
    return Q(pk__in=[]) if column is None or key is None else Q(**{column: key})
