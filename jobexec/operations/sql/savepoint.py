"""Savepoints that are taken only if there is something to undo."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from django.db import connections

from .session import changes_transaction


class Savepoint:
    """Precedes the first statement of a block, if that sends any: on a busy process each statement costs a thread its
    turn at the interpreter."""

    def __init__(self, using: str) -> None:
        self._connection = connections[using]
        self._id: str | None = None
        self._taking = False
        self._hooks = len(self._connection.run_on_commit)
        #: A statement was sent which later ones in the transaction may feel: SET LOCAL, for example.
        self.changed = False

    def take_before(self, factory: Callable[..., Any]) -> Callable[..., Any]:
        def make(*arguments: Any, **options: Any) -> Any:
            if not self._taking:
                self._taking = True
                self._id = self._connection.savepoint()
            return factory(*arguments, **options)

        return make

    def watch(self, execute: Callable[..., Any], sql: Any, params: Any, many: bool, context: dict[str, Any]) -> Any:
        """An execute wrapper of Django."""
        self.changed = self.changed or changes_transaction(sql)
        return execute(sql, params, many, context)

    @property
    def is_broken(self) -> bool:
        """Whether the transaction can only be rolled back: an error was hidden, or somebody has asked for it."""
        raw = self._connection.connection
        return self._connection.needs_rollback or raw is None or raw.info.transaction_status.name != "INTRANS"

    def undo(self) -> None:
        """Undo what the block has written; forget its hooks on the commit."""
        if self._id is not None:
            self._connection.savepoint_rollback(self._id)
        self._connection.set_rollback(False)
        del self._connection.run_on_commit[self._hooks :]

    def wrap_hooks(self, wrap: Callable[[Callable[[], object]], Callable[[], object]]) -> None:
        """Replace the hooks on the commit that the block has registered."""
        hooks: list[Any] = self._connection.run_on_commit
        hooks[self._hooks :] = [(ids, wrap(hook), robust) for ids, hook, robust in hooks[self._hooks :]]


@contextmanager
def savepoint(using: str) -> Iterator[Savepoint]:
    """A block of statements that can be undone alone, within a transaction on a database whose driver is psycopg.

    Whatever uses the connection makes a cursor: Django, code that has it send COPY, and code that takes psycopg's own
    connection.
    """
    point, raw = Savepoint(using), connections[using].connection
    factories = raw.cursor_factory, raw.server_cursor_factory
    raw.cursor_factory, raw.server_cursor_factory = map(point.take_before, factories)
    try:
        with connections[using].execute_wrapper(point.watch):
            yield point
    finally:
        raw.cursor_factory, raw.server_cursor_factory = factories
