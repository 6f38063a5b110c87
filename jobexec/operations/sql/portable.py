"""What statements of our own ask about a database, with the answers that are safe for any.

The answers lead to the portable forms, which the ORM sends. A database gets faster forms by answering otherwise, in a
module of its own; nothing outside this room asks for a vendor.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any, ClassVar
from uuid import UUID


class Dialect:
    """The answers for a database about which nothing is known.

    Connections are Django's. Fragments of SQL are only asked for where :meth:`returns_rows` says yes.
    """

    #: Whether one writer locks the whole database.
    single_writer: ClassVar[bool] = False
    #: Whether UPDATE, DELETE and INSERT can stand in a WITH, and arrays of parameters in place of a table (LATERAL).
    writes_in_with: ClassVar[bool] = False
    #: Whether it has LISTEN and NOTIFY.
    notifies: ClassVar[bool] = False
    #: Whether a number of an automatic primary key is never given again, also if its transaction is rolled back.
    numbers_are_final: ClassVar[bool] = False
    #: Whether a row may be locked by way of any index: the primary key is not locked in another order then.
    locks_by_any_index: ClassVar[bool] = False
    #: Whether an index serves an ORDER BY only if what is NULL in all of the rows is named, too.
    orders_by_constants: ClassVar[bool] = True
    #: Whether the driver returns ids, flags, durations and moments as such, from statements of our own.
    native_types: ClassVar[bool] = False
    #: Rows given as VALUES or arrays, joined in INSERT ... SELECT: how it is spelled, None for not at all.
    given_rows: ClassVar[str | None] = None
    #: What a row is found by fastest within one statement.
    row_place: ClassVar[str] = "id"
    #: At the end of a SELECT: lock its rows, and pass over those that others have locked.
    skip_locked: ClassVar[str] = ""
    #: Before a subquery in WITH: run it once.
    materialized: ClassVar[str] = ""
    #: A function: where one text begins in another.
    text_position: ClassVar[str] = "instr"
    #: The character between a tenant and its process instance.
    separator: ClassVar[str] = "chr(31)"
    #: The rank of a row ``source``, see :func:`~jobexec.operations.values.ranking.rank_sql`; None where Python has to.
    #: Formatted with the least and the most; its parameters are the moment for rows without a due date, the interval.
    rank: ClassVar[str | None] = None
    #: How many connections ordinary users may open.
    capacity: ClassVar[str | None] = None

    def returns_rows(self, connection: Any) -> bool:
        """Whether UPDATE and DELETE can return the rows that they have changed."""
        return False

    def counts_commits(self, connection: Any) -> bool:
        """Whether a counter tells of commits by other processes (``PRAGMA data_version``)."""
        return False

    def increments(self, connection: Any) -> tuple[str, str] | None:
        """For INSERT on top of a row: how the value that was to be inserted is called, and how to go on if it is there.

        Both are formatted, with the column, and with the columns of the unique key. None if there is no such INSERT.
        """
        return None

    def cursor(self, connection: Any) -> Any:
        """A cursor for many rows of numbers, flags and ids."""
        return connection.cursor()

    def id_list(self, ids: Iterable[UUID]) -> Any:
        """The parameter for :meth:`among`."""
        raise NotImplementedError

    def among(self, name: str) -> str:
        """The condition that ``id`` is in a list, which is the parameter ``name`` and may be long."""
        raise NotImplementedError

    def text_list(self, texts: Collection[str]) -> Any:
        """The parameter for :meth:`text_among`."""
        raise NotImplementedError

    def text_among(self, column: str, mark: str) -> str:
        """The condition that a text is in a list; ``mark`` is the placeholder of the list."""
        raise NotImplementedError

    def chosen(self, select: str) -> str:
        """The condition on a column, without it, to be among the rows of a SELECT that runs once, before any change."""
        raise NotImplementedError

    def pairs(self, table: str, columns: tuple[str, str]) -> str | None:
        """What follows FROM for pairs of texts, the next parameter, as JSON; None if there is no such form."""
        return None

    def short_json(self, column: str, length: int) -> str:
        """A column of JSON as text, NULL if it is longer than ``length``."""
        raise NotImplementedError

    def has_json_key(self, column: str, key: str) -> str:
        """The condition that an object of JSON has this key."""
        raise NotImplementedError

    def serial_key(self, table: str) -> str:
        """:func:`~jobexec.models.exclusive_lock.serial_key_expression` of a table of jobs."""
        of_tenant = f"{table}.tenant_id || {self.separator} || {table}.process_instance_id"
        return f"CASE WHEN {table}.tenant_id = '' THEN {table}.process_instance_id ELSE {of_tenant} END"
