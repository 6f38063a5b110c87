"""Serialise a job selection to JSON and back: the conditions of a queryset over one job table, or ids.

A selection can thus be stored and processed later, by another process. A stored row cannot cause imports, calls or
unpickling: a description consists of columns, lookups and plain values, and anything else is an error.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any, TypeAlias
from uuid import UUID

from django.core.exceptions import ValidationError
from django.core.serializers.json import DjangoJSONEncoder
from django.db import models
from django.db.models import Q, QuerySet
from django.db.models.expressions import Col
from django.db.models.lookups import Lookup
from django.db.models.sql.where import NothingNode, WhereNode

from jobexec.exceptions import InvalidJob
from jobexec.models import JOB_TABLES, AbstractJob

Description: TypeAlias = dict[str, Any]

#: The maximum number of ids in a selection: a text of less than four megabytes, which every database accepts.
MAX_IDS = 100_000
#: The maximum number of list values in a description, in total; larger selections are better stored as ids.
MAX_VALUES = 10_000

_TABLES = {table._meta.model_name: table for table in JOB_TABLES}
_PLAIN_LOOKUPS = ("exact", "iexact", "gt", "gte", "lt", "lte", "contains", "icontains", "startswith", "istartswith")
_LOOKUPS = frozenset({*_PLAIN_LOOKUPS, "endswith", "iendswith", "regex", "iregex", "in", "range", "isnull"})


def describe(queryset: QuerySet[Any]) -> Description:
    """Convert the conditions of a queryset over one job table to JSON for :func:`resolve`.

    They must compare columns of that table with plain values, combined with AND, OR and NOT. Order, ``values()`` and
    ``only()`` are ignored. Raises :class:`~jobexec.exceptions.InvalidJob`, which names the unsupported part: a slice,
    distinct(), annotations, a subquery, F(), a transform, a JSON column, extra(), and the like.
    """
    table = job_table(queryset)
    query = queryset.query
    refused = {
        "a slice": query.is_sliced,
        "distinct()": query.distinct,
        "a combination of querysets": query.combinator,
        "annotations": query.annotation_select or query.annotations,
        "extra()": query.extra or query.extra_tables,
        "a join": len(query.alias_map) > 1,
    }
    for what, there in refused.items():
        if there:
            raise _undescribable(what)
    where = _node(query.where, table)
    if sum(_count(leaf["value"]) for leaf in _leaves(where)) > MAX_VALUES:
        raise _undescribable(f"lists of more than {MAX_VALUES} values")
    return {"table": table._meta.model_name, "where": where}


def job_table(queryset: QuerySet[Any]) -> type[AbstractJob]:
    """The job table of a queryset. Raises :class:`~jobexec.exceptions.InvalidJob` for any other model."""
    table = _TABLES.get(queryset.model._meta.model_name)
    if table is None or queryset.model is not table:
        names = ", ".join(table.__name__ for table in JOB_TABLES)
        raise InvalidJob(f"selection: expected a queryset over one of {names}, got one over {queryset.model.__name__}.")
    return table


def _undescribable(what: str) -> InvalidJob:
    return InvalidJob(f"selection: expected columns of one job table compared with plain values; got {what}.")


def _node(node: Any, table: type[AbstractJob]) -> Description:
    if isinstance(node, WhereNode):
        if node.connector not in ("AND", "OR"):
            raise _undescribable(f"conditions joined by {node.connector}")
        children = [_node(child, table) for child in node.children]
        connector = node.connector if children else "AND"
        return {"connector": connector, "negated": bool(node.negated), "children": children}
    if isinstance(node, NothingNode):  # an OR without alternatives matches nothing
        return {"connector": "OR", "negated": False, "children": []}
    if isinstance(node, Lookup):
        return _leaf(node, table)
    raise _undescribable(f"a condition of the kind {type(node).__name__}")


def _leaf(lookup: Lookup[Any], table: type[AbstractJob]) -> Description:
    column, name, value = lookup.lhs, str(lookup.lookup_name), lookup.rhs
    if not isinstance(column, Col):
        raise _undescribable(f"a condition on {type(column).__name__}")
    field = column.target
    if field.model._meta.concrete_model is not table or isinstance(field, models.JSONField):
        raise _undescribable(f"a condition on {field.name}")
    if name not in _LOOKUPS:
        raise _undescribable(f"the lookup {name}")
    if isinstance(value, list | tuple | set | frozenset) or type(value).__name__ == "OrderedSet":
        value = [_plain(each, field) for each in value]
    else:
        value = _plain(value, field)
    return {"column": field.name, "lookup": name, "value": value}


def _plain(value: Any, field: models.Field[Any, Any]) -> Any:
    if hasattr(value, "resolve_expression") or hasattr(value, "as_sql"):
        raise _undescribable(f"an expression compared with {field.name}")
    if isinstance(value, datetime):
        return value.isoformat()  # keeps the microseconds, which the encoder would truncate
    try:
        return json.loads(json.dumps(value, cls=DjangoJSONEncoder, allow_nan=False))
    except (TypeError, ValueError):
        raise _undescribable(f"a {type(value).__name__} compared with {field.name}") from None


def _leaves(node: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    if "children" not in node:
        yield node
    for child in node.get("children", ()):
        yield from _leaves(child)


def _count(value: Any) -> int:
    return len(value) if isinstance(value, list) else 1


def resolve(description: Any, using: str) -> QuerySet[Any]:
    """Convert a description back to a queryset over its table in ``using``.

    Raises :class:`~jobexec.exceptions.InvalidJob` for anything that :func:`describe` cannot have written: another table
    or column, an unknown lookup, a value that is invalid for the column.
    """
    table = _TABLES.get(_take(description, "table", str))
    if table is None:
        raise _unreadable(f"the table {description['table']!r}")
    rows: QuerySet[Any] = table._base_manager.using(using)
    return rows.filter(_condition(_take(description, "where", dict), table))


def _unreadable(what: str) -> InvalidJob:
    return InvalidJob(f"selection: expected what describe() writes, got {what}.")


def _take(node: Any, key: str, kind: type[Any]) -> Any:
    value = node.get(key) if isinstance(node, Mapping) else None
    if not isinstance(value, kind):
        raise _unreadable(f"{key} {value!r:.100}")
    return value


def _condition(node: Any, table: type[AbstractJob]) -> Q:
    if not isinstance(node, Mapping) or "children" not in node:
        return _comparison(node, table)
    connector, negated = _take(node, "connector", str), _take(node, "negated", bool)
    children = [_condition(child, table) for child in _take(node, "children", list)]
    if connector not in ("AND", "OR"):
        raise _unreadable(f"connector {connector!r}")
    if connector == "OR" and not children:
        children = [Q(pk__in=[])]  # a Q without conditions matches everything
    condition = Q(*children, _connector=connector)
    return ~condition if negated else condition


def _comparison(node: Any, table: type[AbstractJob]) -> Q:
    column, lookup = _take(node, "column", str), _take(node, "lookup", str)
    fields = {field.name: field for field in table._meta.concrete_fields}
    field = fields.get(column)
    if field is None or isinstance(field, models.JSONField):
        raise _unreadable(f"the column {column!r} of {table.__name__}")
    if lookup not in _LOOKUPS or "value" not in node:
        raise _unreadable(f"the lookup {lookup!r} of {column}")
    value = node["value"]
    if (lookup in ("in", "range")) != isinstance(value, list) or (lookup == "range" and len(value) != 2):
        raise _unreadable(f"the value {value!r:.100} for {column}__{lookup}")
    try:
        return Q((f"{column}__{lookup}", _value(field, lookup, value)))
    except (ValidationError, TypeError, ValueError):
        raise _unreadable(f"the value {value!r:.100} for {column}__{lookup}") from None


def _value(field: models.Field[Any, Any], lookup: str, value: Any) -> Any:
    if lookup == "isnull":
        return models.BooleanField().to_python(value)
    if isinstance(value, list):
        return [_value(field, "exact", each) for each in value]
    if isinstance(value, dict) or (value is None and lookup != "in"):
        raise ValueError
    if lookup in _OF_TEXT:
        return str(value)
    return field.to_python(value)


#: Lookups that compare with a part of the column's text.
_OF_TEXT = _LOOKUPS - {"exact", "gt", "gte", "lt", "lte", "in", "range", "isnull"}


def described_ids(description: Mapping[str, Any]) -> list[UUID] | None:
    """The ids of a selection, in their order; None if it has conditions instead."""
    if not isinstance(description, Mapping) or "ids" not in description:
        return None
    try:
        return [UUID(each) for each in _take(description, "ids", list)]
    except (TypeError, ValueError, AttributeError):
        raise _unreadable("ids that are not UUIDs") from None


def tenant_of(description: Mapping[str, Any]) -> str:
    """The tenant to which the conditions limit the selection; "" if they do not."""
    where = description.get("where", {})
    if where.get("connector") == "AND" and not where.get("negated"):
        for child in where["children"]:
            values = child["value"] if child.get("lookup") == "in" else [child.get("value")]
            if child.get("column") == "tenant_id" and child["lookup"] in ("exact", "in") and len(values) == 1:
                return str(values[0])
    return ""
