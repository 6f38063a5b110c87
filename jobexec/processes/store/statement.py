"""The writes of a step: gathered, and sent in one statement where WITH may write, otherwise a table at a time.

All of them are about rows of call hierarchies whose topmost row is locked: no other transaction writes them meanwhile.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any
from uuid import UUID

from django.db import connections
from django.db.models import JSONField, Model

from jobexec.operations.sql.dialect import dialect
from jobexec.operations.sql.insert import json_text, parameters
from jobexec.operations.sql.locks import delete_rows, names_conflict_target

Table = type[Model]
Columns = Mapping[str, Any]

#: Rows of an INSERT, and parameters of a statement: PostgreSQL takes 65,535.
_PAGE, _MOST = 500, 30_000
#: Parts of a statement, which is planned as a whole.
_PARTS = 100


class Statement:
    """Deletes, then updates, then inserts; nothing is written before :meth:`send`."""

    def __init__(self, using: str) -> None:
        self.using = using
        self._as_one = dialect(using).writes_in_with
        self._deletes: dict[tuple[Table, str], list[UUID]] = {}
        self._updates: list[tuple[Table, UUID, Columns]] = []
        self._inserts: dict[tuple[Table, tuple[str, ...], tuple[str, ...]], list[Columns]] = {}
        self._parts: list[str] = []
        self._parameters: list[Any] = []

    def delete(self, table: Table, column: str, values: Sequence[UUID]) -> None:
        """Delete the rows in which the column has one of these values."""
        if values:
            self._deletes.setdefault((table, column), []).extend(values)

    def update(self, table: Table, id: UUID, columns: Columns) -> None:
        """Change one row."""
        self._updates.append((table, id, columns))

    def insert(
        self, table: Table, rows: Sequence[Columns], unique: Sequence[str] = (), update: Sequence[str] = ()
    ) -> None:
        """Insert rows, with defaults for columns that are not given; where ``unique`` is there, change ``update``."""
        if rows:
            self._inserts.setdefault((table, tuple(unique), tuple(update)), []).extend(rows)

    def send(self) -> None:
        """Write all of it."""
        for (table, column), values in self._deletes.items():
            self._delete(table, column, values)
        for table, id, columns in self._updates:
            self._update(table, id, columns)
        for (table, unique, update), rows in self._inserts.items():
            if not self._as_one:
                self._bulk_create(table, rows, unique, update)
                continue
            alike: dict[tuple[str, ...], list[Columns]] = {}
            for row in rows:
                alike.setdefault(tuple(row), []).append({**_defaults(table, tuple(row)), **row})
            for found in alike.values():
                for start in range(0, len(found), _PAGE):
                    self._insert(table, found[start : start + _PAGE], unique, update)
        self._deletes, self._updates, self._inserts = {}, [], {}
        self._execute()

    def _delete(self, table: Table, column: str, values: Sequence[UUID]) -> None:
        if not self._as_one:
            delete_rows(table._base_manager.using(self.using).filter(**{f"{column}__in": values}))
            return
        quote = connections[self.using].ops.quote_name
        self._add(f"DELETE FROM {quote(table._meta.db_table)} WHERE {quote(column)} = ANY (%s::uuid[])", [list(values)])

    def _update(self, table: Table, id: UUID, columns: Columns) -> None:
        if not self._as_one:
            table._base_manager.using(self.using).filter(pk=id).update(**columns)
            return
        connection = connections[self.using]
        quote, made = connection.ops.quote_name, self._prepared(table, columns)
        changes = ", ".join(f"{quote(name)} = %s" for name in made)
        self._add(f"UPDATE {quote(table._meta.db_table)} SET {changes} WHERE id = %s", [*made.values(), id])

    def _insert(self, table: Table, rows: Sequence[Columns], unique: Sequence[str], update: Sequence[str]) -> None:
        quote = connections[self.using].ops.quote_name
        names = ", ".join(map(quote, rows[0]))
        marks = f"({', '.join(['%s'] * len(rows[0]))})"
        text = f"INSERT INTO {quote(table._meta.db_table)} ({names}) VALUES {', '.join([marks] * len(rows))}"
        if update:
            changes = ", ".join(f"{quote(name)} = EXCLUDED.{quote(name)}" for name in update)
            text += f" ON CONFLICT ({', '.join(map(quote, unique))}) DO UPDATE SET {changes}"
        self._add(text, [value for row in rows for value in self._prepared(table, row).values()])

    def _bulk_create(self, table: Table, rows: Sequence[Columns], unique: Sequence[str], update: Sequence[str]) -> None:
        how: dict[str, Any] = {}
        if update:
            how = {"update_conflicts": True, "update_fields": list(update)}
            if names_conflict_target(self.using):  # MySQL takes any unique key for a conflict
                how["unique_fields"] = list(unique)
        made = [table(**row) for row in rows]
        table._base_manager.using(self.using).bulk_create(made, batch_size=_PAGE, **how)

    def _prepared(self, table: Table, columns: Columns) -> dict[str, Any]:
        """As the fields of the model prepare them: None in JSON is a null of JSON."""
        made = parameters(connections[self.using], table, columns)
        for name, value in columns.items():
            if value is None and isinstance(table._meta.get_field(name), JSONField):
                made[name] = json_text(None)
        return made

    def _add(self, text: str, parameters: list[Any]) -> None:
        if self._parts and (len(self._parameters) + len(parameters) > _MOST or len(self._parts) >= _PARTS):
            self._execute()
        self._parts.append(text)
        self._parameters += parameters

    def _execute(self) -> None:
        if not self._parts:
            return
        *parts, last = self._parts
        named = ", ".join(f"part{number} AS ({text})" for number, text in enumerate(parts))
        with connections[self.using].cursor() as cursor:
            cursor.execute(f"WITH {named} {last}" if parts else last, self._parameters)
        self._parts, self._parameters = [], []


@cache
def _defaults(table: Table, given: tuple[str, ...]) -> dict[str, Any]:
    """The other columns of a table, none of which has a default of its own for each row."""
    return {field.name: field.get_default() for field in table._meta.concrete_fields if field.name not in given}
