"""Which database errors mean "somebody else was faster" and which "it is not there"; what an error text may hold."""

from __future__ import annotations

from django.db import InterfaceError, OperationalError, ProgrammingError
from django.db.utils import Error as DatabaseLayerError

_CONFLICT_SQLSTATES = frozenset({"40001", "40P01", "55P03"})  # serialisation failure, deadlock, lock not available
_CONFLICT_MYSQL_ERRORS = frozenset({1205, 1213, 1020})  # lock wait timeout, deadlock, record has changed
_BUSY_SQLITE_MESSAGES = ("database is locked", "database table is locked")


def is_conflict(error: BaseException) -> bool:
    """Whether the database itself refused: serialisation, deadlock, lock timeout, a busy SQLite file.

    The same work may succeed a moment later. Such errors cost a job no retry (Camunda: OptimisticLockingException),
    but they are counted, so that a job that always conflicts does not go round for ever.
    """
    if not isinstance(error, OperationalError):
        return False
    cause = error.__cause__
    if getattr(cause, "sqlstate", None) in _CONFLICT_SQLSTATES:
        return True
    if error.args and error.args[0] in _CONFLICT_MYSQL_ERRORS:
        return True
    return any(message in str(error) for message in _BUSY_SQLITE_MESSAGES)


def is_database_error(error: BaseException) -> bool:
    """Whether the error came from the database layer at all (the connection is gone, the disk is full, ...)."""
    return isinstance(error, DatabaseLayerError | InterfaceError | OperationalError | ProgrammingError)


def storable(text: str) -> str:
    """The text without what a database refuses: U+0000 (PostgreSQL) and lone surrogates (all of them)."""
    return text.replace("\x00", "\\x00").encode("utf-8", "backslashreplace").decode("utf-8")


def one_line(text: object, length: int = 500) -> str:
    """The text for a line of a log, whoever chose it: cut, and what does not print (line breaks, above all) escaped."""
    said = str(text)
    if len(said) > length:
        said = f"{said[:length]}…"
    if said.isprintable():
        return said
    return "".join(each if each.isprintable() else each.encode("unicode_escape").decode() for each in said)


def shortened(text: str, length: int) -> str:
    """The beginning and the end: an exception may quote megabytes, which a database refuses as a packet too big."""
    if len(text) <= length:
        return text
    half = length // 2
    return f"{text[:half]}\n... {len(text) - 2 * half} characters left out ...\n{text[-half:]}"
