"""The dialect of MariaDB and MySQL."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any
from uuid import UUID

from .portable import Dialect

_IN_TRANSACTION = 1
#: What holds the values of :meth:`MySQL.given`.
_TYPES = {
    "text": "VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin",
    "id": "CHAR(32)",
    "time": "DATETIME(6)",
    "number": "DOUBLE",
}


class MySQL(Dialect):
    """InnoDB locks every index entry that it scans. MariaDB has DELETE ... RETURNING, but not with an index hint."""

    name = "MariaDB or MySQL"
    network_options = {"connect_timeout": 5, "read_timeout": 120, "write_timeout": 30}  # the last two limit all queries
    numbers_are_final = True
    orders_by_nulls = False
    given_rows = "hinted values"
    # It would rather read a small table as a whole.
    looked_up = "STRAIGHT_JOIN {} FORCE INDEX (PRIMARY)"
    locks = "FOR UPDATE"
    skip_locked = "FOR UPDATE SKIP LOCKED"
    most_pairs = 100
    shares = "LOCK IN SHARE MODE"
    separator = "char(31 USING utf8mb4)"
    rank = (
        "greatest({0}, least({1}, "
        "floor(timestampdiff(MICROSECOND, '1970-01-01', coalesce(source.due_date, %s)) / 1000)"
        " - cast(source.priority AS decimal(20)) * %s"
        "))"
    )
    capacity = (
        "SELECT IF(@@max_user_connections > 0, LEAST(@@max_user_connections, @@max_connections), @@max_connections)"
    )

    row_estimate = (
        "SELECT table_rows FROM information_schema.tables WHERE table_schema = DATABASE() AND table_name = '{table}'"
    )
    current_time = "SELECT UTC_TIMESTAMP(6)"  # CURRENT_TIMESTAMP is in the session's time zone
    time_slot = "(timestampdiff(SECOND, '1970-01-01', %(expressions)s) - %(since)d) DIV %(seconds)d"
    lock_timeout = (
        "SELECT @@SESSION.innodb_lock_wait_timeout",
        "SET SESSION innodb_lock_wait_timeout = %s",
        "",
        True,
    )
    # INSERT IGNORE would share the lock of a row that is there, and of the gap before it: two transactions that then
    # want to write there would wait for each other. A change that changes nothing locks the row for one.
    skip_conflicts = "ON DUPLICATE KEY UPDATE {0} = {0}"
    counts_skipped = False
    scans_to_delete = True

    def delete_listed(self, connection: Any, is_primary_key: bool) -> str:
        # For DELETE ... WHERE id IN (...) MariaDB reads a small table as a whole, with FORCE INDEX (PRIMARY), too, and
        # waits for each row that another transaction has locked: two nodes that deleted only their own rows deadlocked.
        # In safe mode, which refuses a DELETE without a key, it looks up one value after the other.
        if connection.mysql_is_mariadb:
            return "SET STATEMENT sql_safe_updates = 1 FOR DELETE FROM {table}"
        return "DELETE {table} FROM {table}" + (" FORCE INDEX (PRIMARY)" if is_primary_key else "")

    def in_transaction(self, connection: Any) -> bool:
        # mysqlclient cannot tell.
        return bool(getattr(connection.connection, "server_status", 0) & _IN_TRANSACTION)

    def reads_snapshots(self, connection: Any) -> bool:
        return connection.isolation_level not in ("read committed", "read uncommitted")  # None: the server's default

    def is_closed(self, connection: Any) -> bool:
        return not getattr(connection.connection, "open", True)

    def ids_sort_by_time(self, connection: Any) -> bool:
        """Not on MariaDB before 10.11.6, which compared the last digits first."""
        if not connection.features.has_native_uuid_field:
            return True
        earlier, later = "01890000-0000-7000-8000-00000000ffff", "01890000-0001-7000-8000-000000000000"
        with connection.cursor() as cursor:
            cursor.execute("SELECT CAST(%s AS UUID) < CAST(%s AS UUID)", (earlier, later))
            return bool(cursor.fetchone()[0])

    def increments(self, connection: Any) -> tuple[str, str]:
        if connection.mysql_is_mariadb:
            return "VALUES({})", "ON DUPLICATE KEY UPDATE"
        return "incoming.{}", "AS incoming ON DUPLICATE KEY UPDATE"

    def quoted(self, column: str) -> str:
        return f"`{column}`"

    # The client writes a list into the statement; an empty one is an error.
    def id_list(self, ids: Iterable[UUID]) -> list[str]:
        return [id.hex for id in ids]

    def among(self, name: str) -> str:
        return f"id IN %({name})s"

    def not_among(self, name: str) -> str:
        return f"id NOT IN %({name})s"

    def among_texts(self, column: str, texts: Collection[str], name: str, parameters: dict[str, Any]) -> str:
        # Not as a list: in lists, some versions of PyMySQL escape texts with backslashes whatever the sql_mode says.
        names = {f"{name}{number}": text for number, text in enumerate(texts)}
        parameters |= names
        return f"{column} IN ({', '.join(f'%({each})s' for each in names)})"

    def short_json(self, column: str, length: int) -> str:
        text = f"CAST({column} AS CHAR)"
        return f"CASE WHEN char_length({text}) <= {length} THEN {text} END"

    def serial_key(self, table: str) -> str:
        # || is OR here.
        of_tenant = f"concat({table}.tenant_id, {self.separator}, {table}.process_instance_id)"
        return f"CASE WHEN {table}.tenant_id = '' THEN {table}.process_instance_id ELSE {of_tenant} END"

    def given(self, table: str, columns: Mapping[str, str], mark: str = "%s") -> str:
        values = (f"{name} {_TYPES[kind]} PATH '$[{place}]'" for place, (name, kind) in enumerate(columns.items()))
        return f"JSON_TABLE({mark}, '$[*]' COLUMNS ({', '.join(values)})) AS {table}"

    def seconds(self, since: str, until: str) -> str:
        return f"greatest(0.0, timestampdiff(MICROSECOND, {since}, {until}) / 1e6)"
