"""Classify database errors (conflict, connection gone) and clean texts for storage and logs."""

from __future__ import annotations

from django.db import OperationalError

_CONFLICT_SQLSTATES = frozenset({"40001", "40P01", "55P03"})  # serialisation failure, deadlock, lock not available
_CONFLICT_MYSQL_ERRORS = frozenset({1205, 1213, 1020})  # lock wait timeout, deadlock, record has changed
_BUSY_SQLITE_MESSAGES = ("database is locked", "database table is locked")


def is_conflict(error: BaseException) -> bool:
    """Whether the database reported a conflict: serialisation failure, deadlock, lock timeout, busy SQLite file.

    The same work may succeed a moment later. Such errors cost a job no retry (Camunda: OptimisticLockingException), but
    they are counted, so that a job that always conflicts is not retried forever.
    """
    if not isinstance(error, OperationalError):
        return False
    cause = error.__cause__
    if getattr(cause, "sqlstate", None) in _CONFLICT_SQLSTATES:
        return True
    if error.args and error.args[0] in _CONFLICT_MYSQL_ERRORS:
        return True
    return any(message in str(error) for message in _BUSY_SQLITE_MESSAGES)


def storable(text: str) -> str:
    """Escape what databases refuse in a text: U+0000 (PostgreSQL) and lone surrogates (all databases)."""
    return text.replace("\x00", "\\x00").encode("utf-8", "backslashreplace").decode("utf-8")


def one_line(text: object, length: int = 500) -> str:
    """Make an untrusted text safe for a log line: cut it, and escape unprintable characters, above all line breaks."""
    try:
        said = str(text)
    except Exception as problem:  # an exception of the project: a line of the log must not cost more than the line
        said = f"{type(text).__name__}, which cannot be shown ({type(problem).__name__})"
    if len(said) > length:
        said = f"{said[:length]}…"
    if said.isprintable():
        return said
    return "".join(each if each.isprintable() else each.encode("unicode_escape").decode() for each in said)


def shortened(text: str, length: int) -> str:
    """Keep the beginning and the end: an exception may quote megabytes, and a database refuses packets that large."""
    if len(text) <= length:
        return text
    half = length // 2
    return f"{text[:half]}\n... {len(text) - 2 * half} characters left out ...\n{text[-half:]}"
