"""Hundreds of thousands of rows, put into a table and taken out of it by the database alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from django.db import DatabaseError, connections, models

from jobexec.operations.sql.delete import delete_rows

#: Successive numbers, as a table `series` with the column `n`.
_SERIES = {
    "postgresql": "generate_series({first}, {last}) AS series(n)",
    "mysql": "(SELECT seq AS n FROM seq_{first}_to_{last}) AS series",
    "sqlite": "(WITH RECURSIVE c(n) AS (SELECT {first} UNION ALL SELECT n + 1 FROM c WHERE n < {last}) "
    "SELECT n FROM c) AS series",
}
#: An id made of the number; they come in ascending order, which every primary key takes fastest.
_ID = {
    "postgresql": "LPAD(TO_HEX(n), 32, '0')::uuid",
    "mysql": "LPAD(HEX(n), 32, '0')",
    "sqlite": "PRINTF('%%032x', n)",
}
#: A moment, so many seconds after another.
_LATER = {
    "postgresql": "{column} + n * interval '1 second'",
    "mysql": "{column} + INTERVAL n SECOND",
    "sqlite": "STRFTIME('%%Y-%%m-%%d %%H:%%M:%%f', {column}, n || ' seconds')",
}
_PAGE = 50_000


def multiply(row: models.Model, count: int, later: str = "", distinct: Sequence[str] = (), first: int = 1) -> None:
    """Make ``count`` rows of one that is saved, which is the first of them; each has an id of its own.

    ``later`` names a column in which each row is one second after the one before, ``distinct`` other ids. Ids are made
    of the numbers from ``first`` on: rows with the same numbers have the same ids, whatever their table.
    """
    if count < 2:
        return
    alias, table = row._state.db or "default", type(row)._meta
    connection = connections[alias]
    changed = dict.fromkeys(distinct, _ID[connection.vendor])
    if later:
        changed[later] = _LATER[connection.vendor]
    columns = [field for field in table.concrete_fields if not isinstance(field, models.AutoField)]
    names = ", ".join(connection.ops.quote_name(str(field.column)) for field in columns)
    values = ", ".join(_value(field, connection, changed) for field in columns)
    series = _SERIES[connection.vendor].format(first=first, last=first + count - 2)
    key: Any = table.pk
    quoted = connection.ops.quote_name(table.db_table)
    with connection.cursor() as cursor:
        cursor.execute(
            f"INSERT INTO {quoted} ({names}) SELECT {values} FROM {quoted} AS template CROSS JOIN {series} "
            f"WHERE template.{connection.ops.quote_name(key.column)} = %s",
            [key.get_db_prep_value(row.pk, connection)],
        )


def _value(field: Any, connection: Any, changed: Mapping[str, str]) -> str:
    column = f"template.{connection.ops.quote_name(field.column)}"
    if field.primary_key:
        return _ID[connection.vendor]
    return changed[field.name].format(column=column) if field.name in changed else column


def remove_many(table: type[models.Model], alias: str, handler_type: str) -> None:
    """Delete all rows of this handler: TRUNCATE where the table holds nothing else, in pages otherwise."""
    rows = table._base_manager.using(alias)
    mine = rows.filter(handler_type=handler_type)
    if not mine.exists():
        return
    if not rows.exclude(handler_type=handler_type).exists() and _empty(table, alias):
        return
    while page := list(mine.order_by().values_list("pk", flat=True)[:_PAGE]):
        # By their own number and not as many as a statement may have parameters (SQLite).
        for start in range(0, len(page), 500):
            delete_rows(rows.filter(pk__in=page[start : start + 500]))


def _empty(table: type[models.Model], alias: str) -> bool:
    """Whether this user may empty the table at once, and has."""
    connection = connections[alias]
    name = connection.ops.quote_name(table._meta.db_table)
    try:
        with connection.cursor() as cursor:
            # SQLite empties a table at once where no condition is given.
            cursor.execute(f"DELETE FROM {name}" if connection.vendor == "sqlite" else f"TRUNCATE TABLE {name}")
    except DatabaseError:
        return False
    return True
