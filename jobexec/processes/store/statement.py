"""The writes of a step: gathered, and sent in one statement where WITH may write, otherwise a table at a time.

All of them are about rows of call hierarchies whose topmost row is locked: no other transaction writes them meanwhile.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from typing import Any
from uuid import UUID

from django.db import connections
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.models import JSONField, Model

from jobexec.models import Suspension, SuspensionScope
from jobexec.operations.sql.copy import array
from jobexec.operations.sql.delete import delete_rows
from jobexec.operations.sql.dialect import dialect, prepared_cursor
from jobexec.operations.sql.insert import insert_row, insert_text, json_text, parameters, without_defaults
from jobexec.operations.sql.locks import names_conflict_target

Table = type[Model]
Columns = Mapping[str, Any]

#: Rows of an INSERT.
_PAGE = 500


class Statement:
    """Deletes, then updates, then inserts; nothing is written before :meth:`send`."""

    def __init__(self, using: str) -> None:
        self.using = using
        self._as_one = dialect(using).writes_in_with
        self._deletes: dict[tuple[Table, str], list[UUID]] = {}
        self._updates: list[tuple[Table, UUID, Columns]] = []
        self._inserts: dict[tuple[Table, tuple[str, ...], tuple[str, ...]], list[Columns]] = {}
        self._lifted: list[str] = []
        self._parts: list[str] = []
        self._parameters: list[Any] = []

    def delete(self, table: Table, column: str, values: Sequence[UUID]) -> None:
        """Delete the rows in which the column has one of these values."""
        if values:
            self._deletes.setdefault((table, column), []).extend(values)

    def update(self, table: Table, id: UUID, columns: Columns) -> None:
        """Change one row."""
        self._updates.append((table, id, columns))

    def lift(self, instances: Sequence[UUID]) -> None:
        """End the suspensions of these instances, which have ended: the sweep of jobexec then removes them, and lets
        run what a move of jobs has kept from the step. Such a job finds its token gone."""
        self._lifted += [str(id) for id in instances]

    def insert(
        self, table: Table, rows: Sequence[Columns], unique: Sequence[str] = (), update: Sequence[str] = ()
    ) -> None:
        """Insert rows, with defaults for columns that are not given; where ``unique`` is there, change ``update``."""
        if rows:
            self._inserts.setdefault((table, tuple(unique), tuple(update)), []).extend(rows)

    def send(self) -> None:
        """Write all of it."""
        self._compose()
        self._execute()

    def send_with_row(self, connection: BaseDatabaseWrapper, table: Table, values: Columns) -> None:
        """Write all of it and one more row, as :func:`~jobexec.operations.sql.insert.insert_row` does."""
        self._compose()
        if self._as_one:
            self._add(insert_text(connection, table, tuple(values)), [*values.values()])
        else:
            insert_row(connection, table, values)
        self._execute()

    def _compose(self) -> None:
        for (table, column), values in self._deletes.items():
            self._delete(table, column, values)
        self._update_all()
        self._lift()
        for (table, unique, update), rows in self._inserts.items():
            if not self._as_one:
                self._bulk_create(table, rows, unique, update)
                continue
            if len(rows) == 1:
                self._insert_one(table, rows[0], unique, update)
                continue
            alike: dict[tuple[str, ...], list[Columns]] = {}
            for row in rows:
                alike.setdefault(tuple(row), []).append({**_defaults(table, tuple(row)), **row})
            for found in alike.values():
                for start in range(0, len(found), _PAGE):
                    self._insert(table, found[start : start + _PAGE], unique, update)
        self._deletes, self._updates, self._inserts, self._lifted = {}, [], {}, []

    def _delete(self, table: Table, column: str, values: Sequence[UUID]) -> None:
        if not self._as_one:
            delete_rows(table._base_manager.using(self.using).filter(**{f"{column}__in": values}))
            return
        quote = connections[self.using].ops.quote_name
        ids = array(value.hex for value in values)
        self._add(f"DELETE FROM {quote(table._meta.db_table)} WHERE {quote(column)} = ANY (%s::uuid[])", [ids])

    def _update_all(self) -> None:
        if not self._as_one:
            for table, id, columns in self._updates:
                table._base_manager.using(self.using).filter(pk=id).update(**columns)
            return
        alike: dict[tuple[Table, tuple[str, ...]], list[Columns]] = {}
        for table, id, columns in self._updates:
            alike.setdefault((table, tuple(columns)), []).append({"id": id, **columns})
        quote = connections[self.using].ops.quote_name
        for (table, names), rows in alike.items():
            changed, given = quote(table._meta.db_table), ", ".join(map(quote, rows[0]))
            changes = ", ".join(f"{quote(name)} = given.{quote(name)}" for name in names)
            source = f"{self._given(table, rows[0])} AS given({given})"
            text = f"UPDATE {changed} SET {changes} FROM {source} WHERE {changed}.id = given.id"
            self._add(text, self._arrays(table, rows))

    def _lift(self) -> None:
        if not self._lifted:
            return
        of_instances = SuspensionScope.PROCESS_INSTANCE.value
        if not self._as_one:
            rows = Suspension.objects.using(self.using).filter(scope=of_instances, value__in=self._lifted, live=True)
            rows.update(live=None)
            return
        text = f"UPDATE {Suspension._meta.db_table} SET live = NULL WHERE scope = %s AND value = ANY (%s) AND live"
        self._add(text, [of_instances, self._lifted])

    def _insert(self, table: Table, rows: Sequence[Columns], unique: Sequence[str], update: Sequence[str]) -> None:
        quote = connections[self.using].ops.quote_name
        names = ", ".join(map(quote, rows[0]))
        text = f"INSERT INTO {quote(table._meta.db_table)} ({names}) SELECT * FROM {self._given(table, rows[0])}"
        self._add(text + self._or_update(unique, update), self._arrays(table, rows))

    def _insert_one(self, table: Table, row: Columns, unique: Sequence[str], update: Sequence[str]) -> None:
        values = without_defaults(table, self._prepared(table, row))
        text = insert_text(connections[self.using], table, tuple(values))
        self._add(text + self._or_update(unique, update), [*values.values()])

    def _or_update(self, unique: Sequence[str], update: Sequence[str]) -> str:
        if not update:
            return ""
        quote = connections[self.using].ops.quote_name
        changes = ", ".join(f"{quote(name)} = EXCLUDED.{quote(name)}" for name in update)
        return f" ON CONFLICT ({', '.join(map(quote, unique))}) DO UPDATE SET {changes}"

    def _given(self, table: Table, names: Iterable[str]) -> str:
        """The rows that come as an array for each column: however many there are, the server parses as much text."""
        types = _types(self.using, table)
        return f"unnest({', '.join(f'%s::{types[name]}[]' for name in names)})"

    def _arrays(self, table: Table, rows: Sequence[Columns]) -> list[str]:
        made = [self._prepared(table, row) for row in rows]
        return [array(row[name] for row in made) for name in rows[0]]

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
        for name in _json_columns(table):
            if name in columns and columns[name] is None:
                made[name] = json_text(None)
        return made

    def _add(self, text: str, parameters: list[Any]) -> None:
        self._parts.append(text)
        self._parameters += parameters

    def _execute(self) -> None:
        if not self._parts:
            return
        *parts, last = self._parts
        named = ", ".join(f"part{number} AS ({text})" for number, text in enumerate(parts))
        with prepared_cursor(self.using) as cursor:
            cursor.execute(f"WITH {named} {last}" if parts else last, self._parameters)
        self._parts, self._parameters = [], []


@cache
def _defaults(table: Table, given: tuple[str, ...]) -> dict[str, Any]:
    """The other columns of a table, none of which has a default of its own for each row."""
    return {field.name: field.get_default() for field in table._meta.concrete_fields if field.name not in given}


@cache
def _json_columns(table: Table) -> tuple[str, ...]:
    return tuple(field.name for field in table._meta.concrete_fields if isinstance(field, JSONField))


@cache
def _types(using: str, table: Table) -> dict[str, str]:
    """The type of each column, without its length: a cast would cut longer texts, which the column refuses."""
    fields = table._meta.concrete_fields
    return {field.name: (field.db_type(connections[using]) or "").partition("(")[0] for field in fields}
