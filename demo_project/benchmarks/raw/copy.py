"""INSERT … SELECT from one table of this project into another, by page."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from django.db import connections, models

Statement = tuple[str, list[Any]]


def insert_from(
    alias: str,
    source: str,
    to: type[models.Model],
    copied: Iterable[tuple[str, str]],
    given: Mapping[str, Any],
    condition: Statement,
) -> Statement:
    """Copy the rows of ``source`` that match.

    ``copied`` are pairs of a column of the new row and what it is made of, an expression over the old one; ``given``
    are columns whose value is the same for all.
    """
    quote = connections[alias].ops.quote_name
    copied = list(copied)
    names = ", ".join(quote(name) for name in [*(name for name, _ in copied), *given])
    values = ", ".join([*(expression for _, expression in copied), *(_mark(alias, to, name) for name in given)])
    where, parameters = condition
    statement = f"INSERT INTO {to._meta.db_table} ({names}) SELECT {values} FROM {source}"
    return f"{statement} WHERE {where}" if where else statement, [*given.values(), *parameters]


def as_they_are(alias: str, names: Sequence[str]) -> list[tuple[str, str]]:
    """Columns that are copied under their own names."""
    quote = connections[alias].ops.quote_name
    return [(name, quote(name)) for name in names]


def moment(alias: str, value: Any) -> Any:
    """A point in time as the driver takes it."""
    return connections[alias].ops.adapt_datetimefield_value(value)


def _mark(alias: str, to: type[models.Model], name: str) -> str:
    # PostgreSQL does not conclude from the INSERT what type a parameter in its SELECT has.
    connection: Any = connections[alias]
    if connection.vendor != "postgresql":
        return "%s"
    return f"%s::{to._meta.get_field(name).db_type(connection)}"
