"""Delete rows in one statement that waits for no other rows."""

from __future__ import annotations

from functools import cache
from typing import Any

from django.core.exceptions import EmptyResultSet
from django.db import connections
from django.db.models import QuerySet, UniqueConstraint
from django.db.models.expressions import Col
from django.db.models.lookups import In
from django.db.models.sql import DeleteQuery
from django.db.models.sql.where import AND, WhereNode

from .dialect import dialect_of

#: The most values in one statement. MariaDB no longer looks up more than some thousand one after the other.
MOST_LISTED = 5000


def delete_rows(queryset: QuerySet[Any]) -> int:
    """Delete in one statement, without collector, signals or cascades. Job rows have none of these.

    If the rows are given by a list of values of one indexed column, the statement reads, and so waits for, these rows
    only; it also checks further conditions after it has locked them.
    """
    connection = connections[queryset.db]
    spelled = dialect_of(connection)
    split = _split(queryset) if spelled.scans_to_delete else None
    if split is None:
        return queryset._raw_delete(queryset.db) or 0  # None if no row can match
    listed, others = split
    field, quote = listed.lhs.target, connection.ops.quote_name
    compiler = queryset.query.chain(DeleteQuery).get_compiler(connection=connection)
    try:
        values = list(listed.process_rhs(compiler, connection)[1])
        condition, parameters = compiler.compile(others) if others else ("", ())
    except EmptyResultSet:
        return 0
    table = quote(queryset.model._meta.db_table)
    beginning = spelled.delete_listed(connection, field.primary_key).format(table=table)
    # In this form no index serves the further conditions: the rows are found, and locked, by the list.
    end = f" AND ({condition}) IS TRUE" if condition else ""
    deleted = 0
    with connection.cursor() as cursor:
        for start in range(0, len(values), MOST_LISTED):
            page = values[start : start + MOST_LISTED]
            among = f"{table}.{quote(field.column)} IN ({', '.join(['%s'] * len(page))})"
            cursor.execute(f"{beginning} WHERE {among}{end}", [*page, *parameters])
            deleted += int(cursor.rowcount)
    return deleted


def _split(queryset: QuerySet[Any]) -> tuple[Any, WhereNode] | None:
    """Split the conditions into the first ``indexed column IN (values)`` and the others; None if there is none."""
    query: Any = queryset.query
    if query.where.connector != AND or query.where.negated or len(query.alias_map) > 1:
        return None
    for each in query.where.children:
        is_list = isinstance(each, In) and isinstance(each.lhs, Col) and each.rhs_is_direct_value()
        if is_list and each.lhs.target.name in _indexed(query.model):
            return each, WhereNode([other for other in query.where.children if other is not each])
    return None


@cache
def _indexed(model: Any) -> frozenset[str]:
    """Return the names of the fields with which an index of all rows begins."""
    meta = model._meta
    alone = [field.name for field in meta.concrete_fields if field.primary_key or field.unique or field.db_index]
    unique = [each for each in meta.constraints if isinstance(each, UniqueConstraint)]
    several = [each.fields[0] for each in (*meta.indexes, *unique) if each.fields and not each.condition]
    return frozenset([*alone, *several])
