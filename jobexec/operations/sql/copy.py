"""COPY: the fastest way to bring many rows to PostgreSQL.

Through Django's own cursor, which is psycopg's: nothing of psycopg is imported. A value is spelled as the text from
which PostgreSQL reads it, so that what is the same for all rows is spelled once.
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

_LINES = 500  # in one message to the server, some hundred kilobytes; larger ones gain nothing
_SPECIAL = re.compile(r"[\\\t\n\r]")
_ESCAPES = str.maketrans({"\\": r"\\", "\t": r"\t", "\n": r"\n", "\r": r"\r"})


def copy_rows(
    connection: BaseDatabaseWrapper,
    table: type[AbstractJob],
    names: Sequence[str],
    rows: Iterable[Sequence[Any]],
    shared: Mapping[str, Any],
) -> None:
    """Insert the rows, whose columns are ``names``, with the columns ``shared``, which are the same for all."""
    columns = ", ".join(f'"{name}"' for name in (*names, *shared))
    end = "".join(f"\t{_text(value)}" for value in shared.values()) + "\n"
    lines = ("\t".join(map(_text, row)) + end for row in rows)
    with connection.cursor() as cursor:
        _execute(cursor, f'COPY "{table._meta.db_table}" ({columns}) FROM STDIN', lines)


def _execute(cursor: Any, statement: str, lines: Iterable[str]) -> None:
    """As Django's cursor executes a statement: through the wrappers of the connection and with Django's errors."""
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


def _text(value: Any) -> str:
    """A parameter as PostgreSQL reads it in the text format of COPY."""
    if isinstance(value, str):
        return value.translate(_ESCAPES) if _SPECIAL.search(value) else value
    if value is None:
        return r"\N"
    if isinstance(value, bool):
        return "t" if value else "f"
    if isinstance(value, datetime):
        return value.isoformat(" ")
    if isinstance(value, timedelta):  # str() would say "1 day, 0:00:05"
        return f"{value.days} days {value.seconds} seconds {value.microseconds} microseconds"
    return str(int(value))
