"""From an address to an entry of DATABASES."""

from typing import Any
from urllib.parse import unquote, urlsplit


def database(address: str) -> dict[str, Any]:
    """The settings for `postgresql://...` and `mysql://...`; anything else is the path of a SQLite file."""
    if address.startswith(("postgresql://", "postgres://")):
        return _postgresql(address)
    return _mysql(address) if address.startswith("mysql://") else _sqlite(address)


def _postgresql(address: str) -> dict[str, Any]:
    from psycopg.conninfo import conninfo_to_dict

    parts = conninfo_to_dict(address)
    return {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": parts.get("dbname", "postgres"),
        "USER": parts.get("user", ""),
        "PASSWORD": parts.get("password", ""),
        "HOST": parts.get("host", ""),
        "PORT": str(parts.get("port", "")),
        "CONN_MAX_AGE": 60,
    }


def _mysql(address: str) -> dict[str, Any]:
    try:
        import MySQLdb  # type: ignore[import-untyped]  # noqa: F401 (mysqlclient, if it is there)
    except ImportError:
        import pymysql

        pymysql.install_as_MySQLdb()
    parts = urlsplit(address)
    return {
        "ENGINE": "django.db.backends.mysql",
        "NAME": parts.path.strip("/"),
        "USER": unquote(parts.username or ""),
        "PASSWORD": unquote(parts.password or ""),
        "HOST": parts.hostname or "",
        "PORT": str(parts.port or ""),
        "CONN_MAX_AGE": 60,
    }


def _sqlite(path: str) -> dict[str, Any]:
    # Readers beside one writer, and a writer that waits for its turn: what threads and views need of SQLite.
    return {
        "ENGINE": "django.db.backends.sqlite3",
        "NAME": path,
        "OPTIONS": {
            "transaction_mode": "IMMEDIATE",
            "timeout": 20,
            "init_command": "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL;",
        },
    }
