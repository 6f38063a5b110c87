"""The properties of a database that our own SQL depends on, with the values for an unknown one.

These answers select the portable forms, which use the ORM. A database gets faster forms by overriding the answers in a
module of its own. What jobexec needs of any database: SELECT … FOR UPDATE with a limit, INSERT of several rows, and
empty texts that are not NULL (which Oracle lacks).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Any, ClassVar, NamedTuple
from uuid import UUID

from django.db.models import Q


class ArgumentIndex(NamedTuple):
    """An index of a JSON column by its values, formatted with the names of index and table; see .argument_index."""

    create: str
    drop: str
    is_valid: str


class Dialect:
    """The dialect of an unknown database.

    Connections are Django's. SQL fragments are used only where :meth:`returns_rows` returns True.
    """

    #: What people call the database.
    name: ClassVar[str] = ""
    #: The options by which a client notices that the network is gone, with values in the driver's units.
    network_options: ClassVar[Mapping[str, int]] = {}
    #: Whether one writer locks the whole database.
    single_writer: ClassVar[bool] = False
    #: Whether WITH may contain UPDATE, DELETE and INSERT, and FROM array parameters and LATERAL.
    writes_in_with: ClassVar[bool] = False
    #: The function of SQL that notifies a channel of a text; None without LISTEN and NOTIFY.
    notify: ClassVar[str | None] = None
    #: Whether an automatic primary key is never reused, even if its transaction is rolled back.
    numbers_are_final: ClassVar[bool] = False
    #: Whether rows may be locked through any index; InnoDB then locks index and primary key in reverse order of DELETE.
    locks_by_any_index: ClassVar[bool] = False
    #: Whether an index serves an ORDER BY only if it also names a column that is NULL in all of the rows (PostgreSQL;
    #: SQLite allows it), or only if it does not (MariaDB).
    orders_by_nulls: ClassVar[bool] = True
    #: Whether the driver converts ids, flags, durations and datetimes in the results of our own statements.
    native_types: ClassVar[bool] = False
    #: How INSERT ... SELECT joins given rows ("arrays", "values", "hinted values"); None if it cannot.
    given_rows: ClassVar[str | None] = None
    #: The column that finds a row fastest within one statement.
    row_place: ClassVar[str] = "id"
    #: After a table in FROM: reads it by an index, formatted with its name; "" where the planner finds it itself.
    by_index: ClassVar[str] = ""
    #: A table that is joined by its key to given rows, so that each is looked up there, one after the other.
    looked_up: ClassVar[str] = "JOIN {}"
    #: The end of a SELECT that locks its rows; "" where one writer locks everything.
    locks: ClassVar[str] = ""
    #: The end of a SELECT that locks its rows and skips those that are locked.
    skip_locked: ClassVar[str] = ""
    #: Up to how many (category, deployment) pairs one statement of our own finds jobs; 0: the ORM finds them.
    most_pairs: ClassVar[int] = 0
    #: The end of a SELECT whose rows other transactions may lock in the same way, but not delete; "" without such.
    shares: ClassVar[str] = ""
    #: The keyword that makes a subquery in WITH run once.
    materialized: ClassVar[str] = ""
    #: The function that returns the position of one text in another.
    text_position: ClassVar[str] = "instr"
    #: The character between a tenant and its process instance.
    separator: ClassVar[str] = "chr(31)"
    #: The rank of a row ``source``, see :func:`~jobexec.operations.values.ranking.rank_sql`; None where Python computes
    #: it. Formatted with the least and the largest rank; its parameters are the time for rows without a due date and
    #: the interval.
    rank: ClassVar[str | None] = None
    #: The query for the number of connections that ordinary users may open.
    capacity: ClassVar[str | None] = None

    #: The query for about how many rows a table has, formatted with its name; None without.
    row_estimate: ClassVar[str | None] = None
    #: Whether EXPLAIN says how many rows a query will have, by statistics of each column.
    expects_rows: ClassVar[bool] = False
    #: How arguments are indexed; None if they cannot be.
    argument_index: ClassVar[ArgumentIndex | None] = None

    #: The database's own clock; None if it is this machine's.
    current_time: ClassVar[str | None] = "SELECT CURRENT_TIMESTAMP"
    #: Counts equal parts of time, see :func:`~jobexec.operations.sql.time_buckets.sums_by_slot`; None if it cannot.
    time_slot: ClassVar[str | None] = None
    #: Whether LIKE, and so ``startswith`` and ``contains``, compares ASCII letters without their case.
    like_ignores_case: ClassVar[bool] = False
    #: The collation in which texts are sorted as in Python; None if they are anyway.
    code_point_collation: ClassVar[str | None] = None
    #: How long a statement waits for locks: the statements that read and set it, the unit that follows a number of
    #: seconds, and whether the setting survives an error. None if it cannot be set.
    lock_timeout: ClassVar[tuple[str, str, str, bool] | None] = None
    #: How many rows are inserted: "copy", "executemany" in this process, or "values", many in one statement.
    bulk_insert: ClassVar[str] = "values"
    #: At the end of INSERT: leave out rows whose unique key is taken; formatted with a column. None: row by row.
    skip_conflicts: ClassVar[str | None] = None
    #: Whether the number of inserted rows leaves those out.
    counts_skipped: ClassVar[bool] = True
    #: Whether DELETE with a list of values reads and locks other rows, too, so that it needs :meth:`delete_listed`.
    scans_to_delete: ClassVar[bool] = False

    def missing_options(self, database: Mapping[str, Any]) -> dict[str, str]:
        """Return what OPTIONS in the settings of a database lack for several writers at a time."""
        return {}

    def notification(self, channel: str, text: str) -> tuple[str, list[str] | None]:
        """The statement that notifies a channel of a text, with its parameters; for those that have ``notify``."""
        return f"SELECT {self.notify}(%s, %s)", [channel, text]

    def is_behind_pooler(self, driver: Any) -> bool:
        """Whether the driver's connection goes to a pooler and not to the server itself. Raises the driver's errors."""
        return False

    def delete_listed(self, connection: Any, is_primary_key: bool) -> str:
        """Return the beginning of a DELETE from ``{table}`` by a list of values of one indexed column."""
        return "DELETE FROM {table}"

    def in_transaction(self, connection: Any) -> bool:
        """Whether a transaction is open, also one that a statement of SQL has begun; if it cannot be known, False."""
        return False

    def reads_snapshots(self, connection: Any) -> bool:
        """Whether a transaction goes on reading what there was at its beginning, as far as Django's settings say."""
        return False

    def is_closed(self, connection: Any) -> bool:
        """Whether the driver's connection was closed behind Django's back."""
        return False

    def ids_sort_by_time(self, connection: Any) -> bool:
        """Whether UUIDs of version 7 are sorted by time."""
        return True

    def returns_rows(self, connection: Any) -> bool:
        """Whether UPDATE and DELETE can return the changed rows.

        Only together with ``writes_in_with`` or ``single_writer``: the forms without writes in WITH lock no rows that
        they select.
        """
        return False

    def counts_commits(self, connection: Any) -> bool:
        """Whether a counter shows commits by other processes (``PRAGMA data_version``)."""
        return False

    def increments(self, connection: Any) -> tuple[str, str] | None:
        """Return the upsert syntax: how it refers to the new value, and the clause for an existing row.

        The first is formatted with the column, the second with the columns of the unique key. None without upserts.
        """
        return None

    def prepares_sessions(self, connection: Any) -> bool:
        """Whether the backend sets something for each cursor, as that of django-tenants sets the search path."""
        return False

    def seen_table(self, connection: Any, table: str) -> str:
        """Identify the table that a session means by a name, if schemas may have several; otherwise return ""."""
        return ""

    def cursor(self, connection: Any, *, prepared: bool = False) -> Any:
        """Return a cursor for many rows of numbers, flags and ids.

        ``prepared``: the statement is often executed, for few rows; see :meth:`keep_plans`.
        """
        return connection.cursor()

    def prepared_cursor(self, connection: Any) -> Any:
        """Return a cursor for a statement that is often executed, whose plan is kept after :meth:`keep_plans`.

        Then the server binds the parameters: one whose type it cannot tell needs a cast.
        """
        return connection.cursor()

    def keep_plans(self, connection: Any) -> None:
        """Keep the plans of statements for which that is asked from now on, if this database can.

        To be called outside a transaction, for a connection that only serves a loop of an executor: its settings are
        changed. May be called again and again.
        """

    def pipeline(self, connection: Any) -> AbstractContextManager[None]:
        """Send the statements of the block together, if the driver can: each answer costs a wait for the interpreter.

        Rows are to be fetched after the block; the number of changed rows is unknown within it.
        """
        return nullcontext()

    @property
    def has_lists(self) -> bool:
        """Whether :meth:`among`, :meth:`among_texts` and what else our own statements need are answered."""
        return self.most_pairs > 0

    def quoted(self, column: str) -> str:
        """Return the name of a column that may be a reserved word."""
        return column

    def id_list(self, ids: Iterable[UUID]) -> Any:
        """Return the parameter for :meth:`among`, for a :meth:`cursor`."""
        raise NotImplementedError

    def float_list(self, numbers: Iterable[float]) -> Any:
        """Return an array of numbers as a parameter for a :meth:`cursor`, where FROM may contain arrays."""
        raise NotImplementedError

    def among(self, name: str) -> str:
        """Return the condition that ``id`` is in a list, the parameter ``name``, which may be long."""
        raise NotImplementedError

    def not_among(self, name: str) -> str:
        """Return the condition that ``id`` is not in a list, the parameter ``name``, which may be long."""
        raise NotImplementedError

    def with_ids(self, ids: Collection[UUID]) -> Any:
        """Return the condition to have one of these ids, for ``filter()`` of a queryset without joins."""
        return Q(pk__in=ids)

    def text_list(self, texts: Collection[str]) -> Any:
        """Return the parameter for :meth:`text_among`."""
        raise NotImplementedError

    def text_among(self, column: str, mark: str) -> str:
        """Return the condition that a text is in a list; ``mark`` is the placeholder of the list."""
        raise NotImplementedError

    def among_texts(self, column: str, texts: Collection[str], name: str, parameters: dict[str, Any]) -> str:
        """Return the condition that a text is one of these; adds their parameters, whose names begin with ``name``."""
        parameters[name] = self.text_list(texts)
        return self.text_among(column, f"%({name})s")

    def texts(self, mark: str) -> str:
        """Return a FROM item with the column ``value`` for a list of texts, in its order; ``mark`` as above."""
        raise NotImplementedError

    def chosen(self, select: str) -> str:
        """Return the condition, without its column, to be in a SELECT that runs once, before any row changes."""
        raise NotImplementedError

    def given(self, table: str, columns: Mapping[str, str], mark: str = "%s") -> str | None:
        """Return a FROM item for rows that are passed as JSON, an array of arrays; None if not supported.

        ``columns`` says of each what it holds: "text", "id" (32 hexadecimal digits), "time" (as the connection adapts
        it) or "number". ``mark`` is the placeholder of the JSON.
        """
        return None

    def seconds(self, since: str, until: str) -> str:
        """Return the expression for the seconds between two times, 0 if there are less."""
        raise NotImplementedError

    def short_json(self, column: str, length: int) -> str:
        """Return an expression for a JSON column as text, NULL if it is longer than ``length``."""
        raise NotImplementedError

    def has_json_key(self, column: str, key: str) -> str:
        """Return the condition that a JSON object has this key."""
        raise NotImplementedError

    def different(self, table: str, column: str) -> str:
        """Return the query for the different values of an indexed column of texts; NULL may be among them."""
        return f"SELECT DISTINCT {column} FROM {table}"

    def serial_key(self, table: str) -> str:
        """Return :func:`~jobexec.models.locks.serial_key_expression` of a job table as SQL."""
        of_tenant = f"{table}.tenant_id || {self.separator} || {table}.process_instance_id"
        return f"CASE WHEN {table}.tenant_id = '' THEN {table}.process_instance_id ELSE {of_tenant} END"
