"""An index of the arguments of a job table, which operators create on demand because it costs each insert something."""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from django.db import connections
from django.db.models import BooleanField, F, Func, Model, QuerySet, Value

from .dialect import dialect


def name_of(table: type[Model]) -> str:
    """The name of the index of a table."""
    return f"{table._meta.db_table}_arguments"


def can_index(using: str) -> bool:
    """Whether this database can index arguments."""
    return dialect(using).argument_index is not None


def has_index(using: str, table: type[Model]) -> bool:
    """Whether the table has its index, complete."""
    spelled = dialect(using).argument_index
    if spelled is None:
        return False
    with connections[using].cursor() as cursor:
        cursor.execute(spelled.is_valid, [name_of(table)])
        row = cursor.fetchone()
    return bool(row and row[0])


def create_index(using: str, table: type[Model]) -> None:
    """Create the index while jobs go on, outside of a transaction; one that was begun and not finished is replaced."""
    spelled = dialect(using).argument_index
    assert spelled is not None
    if has_index(using, table):
        return
    drop_index(using, table)
    quote = connections[using].ops.quote_name
    with connections[using].cursor() as cursor:
        cursor.execute(spelled.create.format(name=quote(name_of(table)), table=quote(table._meta.db_table)))


def drop_index(using: str, table: type[Model]) -> None:
    """Drop the index if it is there."""
    spelled = dialect(using).argument_index
    assert spelled is not None
    with connections[using].cursor() as cursor:
        cursor.execute(spelled.drop.format(name=connections[using].ops.quote_name(name_of(table))))


def with_argument(rows: QuerySet[Any], values: Sequence[Any]) -> QuerySet[Any]:
    """Rows with one of these JSON values anywhere in their arguments; for tables with the index."""
    path = Value(f"$.** ? ({' || '.join(f'@ == {json.dumps(value)}' for value in values)})")
    matches = Func(F("handler_configuration"), path, template="(%(expressions)s)", arg_joiner=" @? ")
    matches.output_field = BooleanField()
    found: QuerySet[Any] = rows.filter(matches)
    return found


def values_of(text: str) -> list[Any]:
    """The JSON values that are meant by a text: the text itself, and the number, true, false or null that it spells."""
    values: list[Any] = [text]
    with suppress(ValueError):
        spelled = json.loads(text, parse_constant=lambda word: word)
        if not isinstance(spelled, str | dict | list):
            values.append(spelled)
    return values
