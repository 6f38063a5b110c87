"""The dialect of PostgreSQL."""

from __future__ import annotations

import struct
import sys
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from typing import Any
from uuid import UUID
from weakref import WeakKeyDictionary, WeakSet

from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.models import BooleanField
from django.db.models.expressions import RawSQL

from .portable import ArgumentIndex, Dialect

#: What holds the values of :meth:`PostgreSQL.given`.
_TYPES = {"text": "text", "id": "uuid", "time": "timestamptz", "number": "float8"}
_INLINE = 1000  # bytes: a value this short is stored inline, and its length as text need not be computed


#: Started, active, in an error: all of libpq's states except idle (0) and unknown (4), that of a dead connection.
_OPEN = frozenset({1, 2, 3})
_DJANGOS_CURSOR: Any = vars(BaseDatabaseWrapper)["_cursor"]

# An array in binary: one dimension, without NULL, the type and number of elements, from 1; before each its length.
_HEAD = struct.Struct("!IIIII")
_LENGTH = struct.Struct("!I")
_FLOAT = struct.Struct("!d")


class _Ids(list[UUID]):
    """Ids that :meth:`PostgreSQL.cursor` sends in binary."""


class _Floats(list[float]):
    """Numbers that :meth:`PostgreSQL.cursor` sends in binary."""


#: The driver's connections that send them so.
_send_arrays: WeakSet[Any] = WeakSet()


#: The driver's connections that keep the plans of their statements.
_keep_plans: WeakKeyDictionary[Any, bool] = WeakKeyDictionary()
#: A plan that was made while a table was empty must be good for a million rows, too: by the index, in its order. What
#: must be read as a whole nevertheless gets such a cost that the server would compile the statement. After an ANALYZE
#: the server would compare the cost of this plan with those of the first executions, when the table was empty, and go
#: back to planning each execution, which takes longer than the execution.
_BY_INDEX = (
    "SET enable_seqscan = off; SET enable_bitmapscan = off; SET enable_sort = off; SET jit = off;"
    " SET plan_cache_mode = force_generic_plan"
)


@cache
def _preparing(driver: Any) -> Any:
    """A cursor that has the server keep the plans of its statements, which takes longer to make than to execute."""
    base: Any = driver.Cursor

    class Preparing(base):  # type: ignore[misc]
        def execute(self, *args: Any, **options: Any) -> Any:
            connection = self.connection
            # The second time, so as not to keep the plans of what varies.
            before, connection.prepare_threshold = connection.prepare_threshold, 1
            try:
                return super().execute(*args, **options)
            except (driver.errors.FeatureNotSupported, driver.errors.InvalidSqlStatementName) as error:
                # A migration has changed a column that the plan returns; or a pooler that looks like a server.
                _keep_plans[connection] = False
                raise driver.errors.SerializationFailure(f"A prepared statement is out of date: {error}") from error
            finally:
                connection.prepare_threshold = before

    return Preparing


def _wrapped(connection: Any, cursor: Any) -> Any:
    return connection.make_debug_cursor(cursor) if connection.queries_logged else connection.make_cursor(cursor)


@cache
def _array_dumpers(driver: Any) -> dict[type, Any]:
    """How arrays are sent.

    As text the server takes 0.7 µs for an id, ten times as long as for one in binary. The driver's own arrays ask
    another object for each element, which takes a microsecond.
    """
    base: Any = driver.adapt.Dumper
    types = driver.adapters.types

    def dumper(of: str, size: int, elements: Any) -> Any:
        before, head = _LENGTH.pack(size), (1, 0, types[of].oid)

        class Array(base):  # type: ignore[misc]
            format = driver.pq.Format.BINARY

            def __init__(self, cls: type, context: Any = None) -> None:
                super().__init__(cls, context)
                self.oid = types[of].array_oid  # not of the class: lists of others are sent as ever

            def dump(self, obj: Any) -> bytes:
                if not obj:
                    return _HEAD.pack(*head, 0, 1)
                return b"".join((_HEAD.pack(*head, len(obj), 1), before, before.join(elements(obj))))

        return Array

    pack = _FLOAT.pack
    return {
        _Ids: dumper("uuid", 16, lambda ids: [id.bytes for id in ids]),
        _Floats: dumper("float8", 8, lambda numbers: [pack(number) for number in numbers]),
    }


class PostgreSQL(Dialect):
    """PostgreSQL: RETURNING in every statement, writes in WITH, NOTIFY."""

    name = "PostgreSQL"
    network_options = {"connect_timeout": 5, "keepalives_idle": 10, "tcp_user_timeout": 20_000}  # s, s, ms
    writes_in_with = True
    notify = "pg_notify"
    numbers_are_final = True
    locks_by_any_index = True
    native_types = True
    most_pairs = sys.maxsize
    given_rows = "arrays"
    row_place = "ctid"
    locks = "FOR UPDATE"
    skip_locked = "FOR UPDATE SKIP LOCKED"
    shares = "FOR KEY SHARE"
    materialized = "MATERIALIZED"
    text_position = "strpos"
    rank = (
        "greatest({0}, least({1}, "
        "floor(extract(epoch FROM coalesce(source.due_date, %s)) * 1000) - source.priority::numeric * %s"
        "))::bigint"
    )
    # PostgreSQL reserves some connections for superusers, and since version 16 some for a role.
    capacity = (
        "SELECT current_setting('max_connections')::int"
        " - current_setting('superuser_reserved_connections')::int"
        " - coalesce(current_setting('reserved_connections', true), '0')::int"
    )

    # As the planner does: the rows of a page at the last ANALYZE, times the pages of now.
    row_estimate = (
        "SELECT (reltuples / greatest(relpages, 1)"
        " * (pg_relation_size(oid) / current_setting('block_size')::int))::bigint"
        " FROM pg_class WHERE oid = to_regclass('{table}')"
    )
    expects_rows = True
    argument_index = ArgumentIndex(
        "CREATE INDEX CONCURRENTLY {name} ON {table} USING gin (handler_configuration)",
        "DROP INDEX CONCURRENTLY IF EXISTS {name}",
        "SELECT indisvalid FROM pg_index WHERE indexrelid = to_regclass(%s)",
    )
    current_time = "SELECT clock_timestamp()"  # now() would be the start of the transaction
    time_slot = "floor((extract(epoch FROM %(expressions)s) - %(since)d) / %(seconds)d)::integer"
    code_point_collation = "C"
    lock_timeout = ("SHOW lock_timeout", "SELECT set_config('lock_timeout', %s, true)", "s", False)
    bulk_insert = "copy"
    skip_conflicts = "ON CONFLICT DO NOTHING"

    def notification(self, channel: str, text: str) -> tuple[str, list[str] | None]:
        # NOTIFY needs no plan, and takes no parameters.
        if text.isascii() and (text.isalpha() or not text):
            return f"NOTIFY {channel}, '{text}'", None
        return super().notification(channel, text)

    def is_behind_pooler(self, driver: Any) -> bool:
        # A pooler (PgBouncer) uses many server processes, and therefore reports an id of its own at login.
        with driver.cursor() as cursor:
            cursor.execute("SELECT pg_backend_pid()")
            return bool(cursor.fetchone()[0] != driver.info.backend_pid)

    def in_transaction(self, connection: Any) -> bool:
        return connection.connection.pgconn.transaction_status in _OPEN

    def reads_snapshots(self, connection: Any) -> bool:
        from django.db.backends.postgresql.psycopg_any import IsolationLevel  # other databases have no psycopg

        return bool(connection.isolation_level > IsolationLevel.READ_COMMITTED)

    def is_closed(self, connection: Any) -> bool:
        return bool(connection.connection.closed)

    def returns_rows(self, connection: Any) -> bool:
        return True

    def increments(self, connection: Any) -> tuple[str, str]:
        return "excluded.{}", "ON CONFLICT ({}) DO UPDATE SET"

    def cursor(self, connection: Any, *, prepared: bool = False) -> Any:
        """Return a cursor like the backend's own, with its wrappers and query log, that fetches in the binary format.

        Numbers, flags and ids need no parsing then. Parameters are bound by the server.
        """
        if self.prepares_sessions(connection):
            connection.cursor().close()
        else:
            connection.ensure_connection()
        driver = connection.Database  # psycopg, as Django has imported it
        if connection.connection not in _send_arrays:
            for kind, dumper in _array_dumpers(driver).items():
                connection.connection.adapters.register_dumper(kind, dumper)
            _send_arrays.add(connection.connection)
        with connection.wrap_database_errors:
            keeps = prepared and _keep_plans.get(connection.connection)
            cursor = (_preparing(driver) if keeps else driver.Cursor)(connection.connection)
        cursor.format = driver.pq.Format.BINARY
        return _wrapped(connection, cursor)

    def prepared_cursor(self, connection: Any) -> Any:
        driver = connection.connection
        if driver is None or not _keep_plans.get(driver):
            return connection.cursor()
        with connection.wrap_database_errors:
            return _wrapped(connection, _preparing(connection.Database)(driver))

    def keep_plans(self, connection: Any) -> None:
        connection.ensure_connection()
        driver = connection.connection
        if driver in _keep_plans:
            return
        with connection.wrap_database_errors:  # else Django would keep a connection that has broken here
            # Behind a pooler each statement may meet another server process, and psycopg's pool lends to other threads.
            pooled = connection.settings_dict["OPTIONS"].get("pool") or self.is_behind_pooler(driver)
            keep = not (pooled or self.prepares_sessions(connection))
            if keep:
                with driver.cursor() as cursor:
                    cursor.execute(_BY_INDEX)
        _keep_plans[driver] = keep

    @contextmanager
    def pipeline(self, connection: Any) -> Iterator[None]:
        connection.ensure_connection()
        if self.prepares_sessions(connection) or not connection.Database.Pipeline.is_supported():
            yield
            return
        with connection.wrap_database_errors, connection.connection.pipeline():
            yield

    def prepares_sessions(self, connection: Any) -> bool:
        return type(connection)._cursor is not _DJANGOS_CURSOR

    def seen_table(self, connection: Any, table: str) -> str:
        if not self.prepares_sessions(connection):
            return ""
        with connection.cursor() as cursor:
            cursor.execute("SELECT to_regclass(%s)::oid", [table])
            return str(cursor.fetchone()[0] or "")

    def id_list(self, ids: Iterable[UUID]) -> list[UUID]:
        # One parameter: otherwise a list of a thousand ids costs a thousand parameters.
        return _Ids(ids)

    def float_list(self, numbers: Iterable[float]) -> list[float]:
        return _Floats(numbers)

    def among(self, name: str) -> str:
        return f"id = ANY(%({name})s::uuid[])"

    def not_among(self, name: str) -> str:
        # Not "<> ALL", which compares each with each where the plan is made for any parameter.
        return f"id NOT IN (SELECT unnest(%({name})s::uuid[]))"

    def with_ids(self, ids: Collection[UUID]) -> RawSQL:
        # As id_list: the ORM would spell, and the client bind, a parameter for each.
        return RawSQL("id = ANY(%s::uuid[])", [list(ids)], BooleanField())

    def text_list(self, texts: Collection[str]) -> list[str]:
        return list(texts)

    def text_among(self, column: str, mark: str) -> str:
        return f"{column} = ANY({mark})"

    def texts(self, mark: str) -> str:
        return f"unnest({mark}::text[]) AS given(value)"

    def chosen(self, select: str) -> str:
        # An array, because the planner could reverse a join.
        return f"= ANY (ARRAY({select}))"

    def given(self, table: str, columns: Mapping[str, str], mark: str = "%s") -> str:
        values = (f"(value->>{place})::{_TYPES[kind]} AS {name}" for place, (name, kind) in enumerate(columns.items()))
        return f"(SELECT {', '.join(values)} FROM json_array_elements({mark}::json)) AS {table}"

    def seconds(self, since: str, until: str) -> str:
        return f"greatest(0.0, date_part('epoch', {until} - {since}))"

    def short_json(self, column: str, length: int) -> str:
        text = f"{column}::text"
        short = f"WHEN pg_column_size({column}) <= {_INLINE} THEN {text}"
        return f"CASE {short} WHEN length({text}) <= {length} THEN {text} END"

    def different(self, table: str, column: str) -> str:
        # From one value to the next along the index: DISTINCT would read all rows, of which there may be a million.
        # From the first text on: if the statistics know none, the planner would read the table instead of the index.
        first = f"SELECT min({column}) AS value FROM {table} WHERE {column} >= ''"
        following = f"SELECT min({column}) FROM {table} WHERE {column} > seen.value"
        rest = f"SELECT ({following}) FROM seen WHERE seen.value IS NOT NULL"
        return f"WITH RECURSIVE seen AS (({first}) UNION ALL {rest}) SELECT value FROM seen"

    def has_json_key(self, column: str, key: str) -> str:
        return f"jsonb_exists({column}, '{key}')"
