"""Production's transactions inside the transaction of a test."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from django.db import DatabaseError, connections, transaction

logger = logging.getLogger("jobexec.testing")


@contextmanager
def own_transaction(using: str) -> Iterator[None]:
    """A transaction of the executor inside that of a test: a savepoint, rolled back alone if it fails.

    Hooks on its commit run at its end. If the test has no transaction, this does nothing: the operations have theirs.
    """
    connection = connections[using]
    if not connection.in_atomic_block:
        yield
        return
    start = len(connection.run_on_commit)
    with transaction.atomic(using=using):
        yield
    run_hooks(connection, start)


def run_hooks(connection: Any, start: int) -> None:
    """Run and remove the hooks registered for the commit from position ``start`` on, and those that they register.

    The first error of a hook is raised, unless it was registered as robust, as Django does at a commit; later hooks run
    first, so that none is left for the next job.
    """
    error: BaseException | None = None
    while len(connection.run_on_commit) > start:
        _, function, robust = connection.run_on_commit.pop(start)
        try:
            function()
        except Exception as problem:
            if robust:
                logger.exception("Error calling %r in on_commit() during a job", function)
            else:
                error = error or problem
    if error is not None:
        raise error


class Enclosure:
    """Lets a handler that expects its own connection run inside the transaction of a test.

    On every database in whose transaction the test is, a savepoint encloses the handler. It is kept, whatever the
    outcome of the job, so writes before a failure stay, as they do in production; it is rolled back only if the
    database refuses to go on, as PostgreSQL does after an error. In a test without such a transaction, only a
    transaction that the handler has left open is ended.
    """

    def __init__(self) -> None:
        self._enclosed = [
            (connection, len(connection.run_on_commit), connection.savepoint(), _blocks(connection))
            for connection in connections.all(initialized_only=True)
            if connection.in_atomic_block
        ]

    def close(self) -> str | None:
        """The handler has ended; returns the problem if its writes are rolled back."""
        problems = [self._close(*each) for each in self._enclosed]
        problems += [_abandon(each) for each in connections.all(initialized_only=True) if self._left_open(each)]
        return next(filter(None, problems), None)

    def run_hooks(self) -> None:
        """Run the handler's hooks on its commits, which in production have run by now."""
        for connection, start, _, _ in self._enclosed:
            run_hooks(connection, start)

    def _left_open(self, connection: Any) -> bool:
        return connection.in_atomic_block and all(connection is not enclosed for enclosed, *_ in self._enclosed)

    def _close(self, connection: Any, start: int, savepoint: Any, blocks: tuple[list[Any], list[Any]]) -> str | None:
        left_open = _blocks(connection) != blocks
        connection.savepoint_ids, connection.atomic_blocks = blocks
        connection.needs_rollback = False
        try:
            if not left_open:
                connection.savepoint_commit(savepoint)
                return None
        except DatabaseError:
            pass
        connection.savepoint_rollback(savepoint)
        connection.run_on_commit = connection.run_on_commit[:start]
        if left_open:
            return _left(connection)
        return (
            f"The handler continued after an error of the database {connection.alias}, which therefore rolled back "
            "everything that it did in the transaction of the test. Wrap the statement in transaction.atomic(), or "
            "run the test without a transaction (TransactionTestCase, transactional_db)."
        )


def _blocks(connection: Any) -> tuple[list[Any], list[Any]]:
    """The open transactions and savepoints."""
    return list(connection.savepoint_ids), list(connection.atomic_blocks)


def _left(connection: Any) -> str:
    return f"The handler left a transaction open on {connection.alias}; it was rolled back."


def _abandon(connection: Any) -> str:
    """Roll back a transaction that a handler has begun and not ended."""
    connection.in_atomic_block, connection.needs_rollback = False, False
    connection.savepoint_ids, connection.atomic_blocks = [], []
    connection.rollback()
    connection.set_autocommit(True)
    return _left(connection)
