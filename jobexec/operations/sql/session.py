"""The state of a driver's connection, read without a round trip."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from django.db import InterfaceError, OperationalError

from .dialect import dialect_of
from .errors import is_conflict

#: The maximum number of chained errors that are checked.
_CHAIN = 20

# Connection exceptions (class 08), and a server that is shutting down, crashing or starting.
_LOST_SQLSTATES = ("08", "57P01", "57P02", "57P03", "57P05")
# Server shutdown, aborted, killed, gone away, lost during a query, lost during a query (extended).
_LOST_MYSQL_ERRORS = frozenset({1053, 1152, 1927, 2006, 2013, 2055})


def in_transaction(connection: Any) -> bool:
    """Whether a transaction is open on a Django connection, including one that an SQL statement has begun.

    A driver that cannot tell (mysqlclient) is assumed to have none besides those that Django has begun.
    """
    return dialect_of(connection).in_transaction(connection)


def is_closed(connection: Any) -> bool:
    """Whether the driver's connection was closed without Django's knowledge."""
    return dialect_of(connection).is_closed(connection)


def is_lost(error: BaseException) -> bool:
    """Whether an error, or one of its causes, means that a Django connection is lost.

    Errors of a statement do not count. The causes matter because some drivers raise another error when a dead
    connection is closed.
    """
    seen: BaseException | None = error
    for _ in range(_CHAIN):
        if seen is None:
            return False
        if _says_lost(seen):
            return True
        seen = seen.__cause__ or seen.__context__
    return False


def is_of_connection(error: BaseException) -> bool:
    """Whether an error may come from an unavailable database, and not from the statement."""
    return isinstance(error, OperationalError | InterfaceError) or is_lost(error)


def leaves_open(error: BaseException) -> bool:
    """Whether it is unknown after an error if a commit went through: no server has refused a statement."""
    if not isinstance(error, OperationalError | InterfaceError) or is_lost(error):
        return is_lost(error)
    is_told = getattr(error.__cause__, "sqlstate", None) is not None or isinstance(next(iter(error.args), None), int)
    return not (is_told or is_conflict(error))


def _says_lost(error: BaseException) -> bool:
    if not isinstance(error, OperationalError | InterfaceError):
        return False
    cause = error.__cause__
    state = getattr(cause, "sqlstate", None)
    if state is not None:
        return str(state).startswith(_LOST_SQLSTATES)
    if error.args and isinstance(error.args[0], int):
        return error.args[0] in _LOST_MYSQL_ERRORS or error.args[0] == 0  # PyMySQL's own: already closed
    # An error that no server has sent has no SQLSTATE in libpq.
    return type(cause).__module__.startswith("psycopg")


#: A setting for one statement (MariaDB), as our own DELETE has one.
_FOR_ONE = r"\s+STATEMENT\b[^;]*?\bFOR\s+(?:SELECT|INSERT|UPDATE|DELETE|REPLACE)\b"
# Statements that change a session until its end. SET LOCAL and SET TRANSACTION end with the transaction.
_STATEMENT = re.compile(
    r"(?:^|;)(?:\s|\(|--[^\n]*\n|/\*(?:(?!\*/).)*\*/)*"
    rf"(?:SET(?!\s+(?:LOCAL|TRANSACTION|CONSTRAINTS)\b|{_FOR_ONE})|RESET|DISCARD|BEGIN|START|LOCK|UNLOCK|LISTEN|UNLISTEN|PREPARE|"
    r"DEALLOCATE|LOAD|USE|PRAGMA|ATTACH|DETACH|XA|HANDLER|DECLARE\s+\S+\s.*\bWITH\s+HOLD|"
    r"CREATE\s+(?:OR\s+REPLACE\s+)?(?:(?:GLOBAL|LOCAL)\s+)?TEMP(?:ORARY)?)\b",
    re.IGNORECASE | re.DOTALL,
)
_LOCAL = re.compile(rf"(?:^|;)(?:\s|--[^\n]*\n|/\*(?:(?!\*/).)*\*/)*SET\b(?!{_FOR_ONE})", re.IGNORECASE | re.DOTALL)
_FUNCTION = re.compile(r"\b(?:set_config|pg_(?:try_)?advisory_lock(?:_shared)?|get_lock)\s*\(", re.IGNORECASE)
#: A backend that sets it for each cursor replaces whatever a job has set.
_SEARCH_PATH = re.compile(r"\s*SET\s+search_path\b[^;]*$", re.IGNORECASE)
#: How Django's backend for SQLite begins a transaction, where the others ask their drivers to.
_BEGIN = re.compile(r"BEGIN(?: DEFERRED| IMMEDIATE| EXCLUSIVE)?")
#: How the statements of the ORM begin.
_PLAIN = frozenset({"SELECT", "INSERT", "UPDATE", "DELETE", "SAVEPO", "RELEAS"})


class SessionWatch:
    """A Django execute wrapper that records whether a statement changes the session of its connection."""

    __slots__ = ("changed",)

    def __init__(self) -> None:
        self.changed = False

    def __call__(self, execute: Callable[..., Any], sql: Any, params: Any, many: bool, context: dict[str, Any]) -> Any:
        if not self.changed and not _is_plain(sql):
            self.changed = changes_session(sql) and not _is_djangos(context["connection"], sql)
        return execute(sql, params, many, context)


def _is_djangos(connection: Any, sql: Any) -> bool:
    """Whether a backend sends this by itself, for a cursor or for ``atomic()``, so that it says nothing about a job."""
    if not isinstance(sql, str):
        return False
    spelled = dialect_of(connection)
    if _SEARCH_PATH.match(sql) is not None:
        return spelled.prepares_sessions(connection)
    # Whether a job leaves its transaction open is seen there without this.
    return spelled.single_writer and _BEGIN.fullmatch(sql) is not None


def _is_plain(sql: Any) -> bool:
    if not isinstance(sql, str) or sql[:6] not in _PLAIN or ";" in sql:
        return False
    text = sql.lower()
    return "lock" not in text and "set_config" not in text


def changes_transaction(sql: Any) -> bool:
    """Whether later statements of the transaction may feel a statement: one that changes its session, or SET LOCAL."""
    if isinstance(sql, bytes):
        sql = sql.decode("utf-8", "replace")
    return not _is_plain(sql) and (changes_session(sql) or bool(_LOCAL.search(sql)))


def changes_session(sql: Any) -> bool:
    """Whether a statement leaves a role, a setting, a lock or a temporary table behind in its session.

    A statement that is not text (``psycopg.sql``) is assumed to.
    """
    if isinstance(sql, bytes):
        sql = sql.decode("utf-8", "replace")
    return not isinstance(sql, str) or bool(_STATEMENT.search(sql) or _FUNCTION.search(sql))
