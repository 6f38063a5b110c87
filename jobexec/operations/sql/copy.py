"""Values as texts that PostgreSQL parses: COPY, the fastest way to insert many rows, and arrays.

This uses Django's own cursor, which is psycopg's, and imports nothing from psycopg. Values are formatted as the text
that PostgreSQL parses, so that a value shared by all rows is formatted once.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from functools import partial
from itertools import islice
from typing import Any

from django.db.backends.base.base import BaseDatabaseWrapper

from jobexec.models import AbstractJob

_LINES = 500  # per message to the server, some hundred kilobytes; larger messages gain nothing
_SPECIAL = re.compile(r"[\\\t\n\r]")


def copy_rows(
    connection: BaseDatabaseWrapper,
    table: type[AbstractJob],
    names: Sequence[str],
    rows: Iterable[Sequence[Any]],
    shared: Mapping[str, Any],
) -> None:
    """Insert the rows, whose columns are ``names``, together with the columns ``shared``, equal for all rows."""
    columns = ", ".join(f'"{name}"' for name in (*names, *shared))
    end = "".join(f"\t{_text(value)}" for value in shared.values()) + "\n"
    lines = ("\t".join(map(_text, row)) + end for row in rows)
    with connection.cursor() as cursor:
        _execute(cursor, f'COPY "{table._meta.db_table}" ({columns}) FROM STDIN', lines)


def array(values: Iterable[Any]) -> str:
    """The text of an array. The server parses it much faster than a list of parameters."""
    return f"{{{','.join(map(_element, values))}}}"


def _element(value: Any) -> str:
    if value is None:
        return "NULL"
    if isinstance(value, str):
        return '"' + value.replace("\\", r"\\").replace('"', r"\"") + '"'
    return f'"{_text(value)}"'


def _execute(cursor: Any, statement: str, lines: Iterable[str]) -> None:
    """Execute as Django's cursor does: through the connection's execute wrappers and with Django's errors."""
    connection = cursor.db

    def copy(sql: str, params: None, many: bool, context: Any) -> None:
        connection.validate_no_broken_transaction()
        with connection.wrap_database_errors, cursor.copy(sql) as target:
            while chunk := "".join(islice(lines, _LINES)):
                target.write(chunk)

    execute: Callable[..., Any] = copy
    for wrapper in reversed(connection.execute_wrappers):
        execute = partial(wrapper, execute)
    execute(statement, None, False, {"connection": connection, "cursor": cursor})


def _escaped(value: str) -> str:
    """Much faster than ``str.translate``; the backslash comes first."""
    return value.replace("\\", r"\\").replace("\t", r"\t").replace("\n", r"\n").replace("\r", r"\r")


def _text(value: Any) -> str:
    """Format a parameter in the text format of COPY."""
    if isinstance(value, str):
        return _escaped(value) if _SPECIAL.search(value) else value
    if value is None:
        return r"\N"
    if isinstance(value, bool):
        return "t" if value else "f"
    if isinstance(value, datetime):
        return value.isoformat(" ")
    if isinstance(value, timedelta):  # str() would return "1 day, 0:00:05"
        return f"{value.days} days {value.seconds} seconds {value.microseconds} microseconds"
    return str(int(value))
