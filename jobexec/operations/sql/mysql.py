"""The dialect of MariaDB and MySQL."""

from __future__ import annotations

from typing import Any

from .portable import Dialect

_TEXT = "VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin"


class MySQL(Dialect):
    """InnoDB locks every index entry that it scans. MariaDB has DELETE ... RETURNING, but not with an index hint."""

    numbers_are_final = True
    orders_by_constants = False
    native_types = True
    given_rows = "hinted values"
    rank = (
        "greatest({0}, least({1}, "
        "floor(timestampdiff(MICROSECOND, '1970-01-01', coalesce(source.due_date, %s)) / 1000)"
        " - cast(source.priority AS decimal(20)) * %s"
        "))"
    )
    capacity = (
        "SELECT IF(@@max_user_connections > 0, LEAST(@@max_user_connections, @@max_connections), @@max_connections)"
    )

    def increments(self, connection: Any) -> tuple[str, str]:
        if connection.mysql_is_mariadb:
            return "VALUES({})", "ON DUPLICATE KEY UPDATE"
        return "incoming.{}", "AS incoming ON DUPLICATE KEY UPDATE"

    def pairs(self, table: str, columns: tuple[str, str]) -> str:
        first, second = columns
        return f"JSON_TABLE(%s, '$[*]' COLUMNS ({first} {_TEXT} PATH '$[0]', {second} {_TEXT} PATH '$[1]')) AS {table}"
