"""The databases on which the tests run, their addresses, and why some are missing.

`settings()` returns Django's DATABASES, depending on the process:

- pytest looks for the databases of the tier and starts servers for those that are not named, once per run: the
  processes of pytest-xdist use the servers of the process that started them;
- a child process of a test gets the test databases of its parent, through `environment()`;
- any other process (makemigrations, mypy) gets an empty SQLite database in memory.

Environment variables for a test run:

JOBEXEC_TEST_POSTGRESQL  address of a server, postgresql://user:password@host:port/database
JOBEXEC_TEST_MARIADB     address of a server, mysql://user:password@host:port
JOBEXEC_TEST_TIER        quick (the default), compat, gate or nightly; see tests/support/suite/tiers.py
JOBEXEC_TEST_DATABASES   use only these, for all tests: sqlite,postgresql,mariadb
JOBEXEC_TEST_REQUIRE     fail if one of these cannot be reached
"""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

from demo_project import postgresql_server
from tests.support.machines import servers
from tests.support.suite import run, tiers

if TYPE_CHECKING:
    import pytest

ROOT = Path(__file__).resolve().parents[3]
CONNECTION_KEYS = ("ENGINE", "NAME", "USER", "PASSWORD", "HOST", "PORT", "OPTIONS")


class Unreachable(Exception):
    """A database cannot be used; the message says why."""


@dataclass(frozen=True)
class Database:
    """A database that the tests can use: its name here, its alias in Django, the version of its server.

    `drop` removes a database from a server that outlives the run; it is None for servers that end with the run.
    """

    name: str
    alias: str
    version: str
    settings: dict[str, Any]
    drop: Callable[[str], None] | None = None


#: The databases that `settings()` found, by name (sqlite, postgresql, mariadb); `missing` holds the reasons.
covered: dict[str, Database] = {}
missing: dict[str, str] = {}


def settings() -> dict[str, dict[str, Any]]:
    """Return DATABASES for this process."""
    inherited = os.environ.get("JOBEXEC_TEST_CONNECTIONS")
    if inherited:
        return _with_mysql_driver(json.loads(inherited))
    if "pytest" not in sys.modules:
        options = {"transaction_mode": "IMMEDIATE"}
        return {"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:", "OPTIONS": options}}
    default = _sqlite()
    _look_for({"sqlite": lambda: default, "postgresql": _postgresql, "mariadb": _mariadb})
    found = {database.alias: database.settings for database in covered.values()}
    # Django needs a default database, whichever databases the tests are limited to.
    return _with_mysql_driver({"default": default.settings, **found})


def used_by(tests: Iterable[pytest.Item]) -> list[str]:
    """Return the aliases to which any of these tests has access."""
    marks = [mark for test in tests for mark in test.iter_markers("django_db")]
    named = {alias for mark in marks for alias in mark.kwargs.get("databases") or ["default"]}
    aliases = [database.alias for database in covered.values()]
    return aliases if "__all__" in named else sorted({"default", *named} & {"default", *aliases})


def environment(default: str | None = None, **overrides: Any) -> dict[str, str]:
    """Return the environment of a child process that uses this test's databases as they are.

    With `default`, an alias, the child has only that database, under the alias "default". Other keywords, as in
    `environment("postgresql", JOBEXEC={...})`, replace Django settings there; they are passed as JSON.
    """
    from django.db import connections

    aliases = {"default": default} if default else {alias: alias for alias in connections}
    addresses = {
        name: {key: connections[alias].settings_dict[key] for key in CONNECTION_KEYS} for name, alias in aliases.items()
    }
    return {
        **os.environ,
        "DJANGO_SETTINGS_MODULE": "tests.settings",
        "PYTHONPATH": os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")])),
        "JOBEXEC_TEST_CONNECTIONS": json.dumps(addresses, default=str),
        "JOBEXEC_TEST_SETTINGS": json.dumps(overrides),
    }


def overrides() -> dict[str, Any]:
    """Return the settings that the parent of this process passed to `environment()`."""
    given: dict[str, Any] = json.loads(os.environ.get("JOBEXEC_TEST_SETTINGS", "{}"))
    return given


def report() -> list[str]:
    """Return lines that list what this run covers and what it does not."""
    return [
        f"tier: {tiers.current().name} ({tiers.current().command})",
        "databases: " + ", ".join(f"{database.name} {database.version}" for database in covered.values()),
        *(f"not covered: {name}: {reason}" for name, reason in missing.items()),
    ]


def _look_for(finders: dict[str, Callable[[], Database]]) -> None:
    tier = tiers.current()
    named = _names("JOBEXEC_TEST_DATABASES", finders)
    for name, find in finders.items():
        try:
            if name not in (named or tier.databases):
                raise Unreachable("left out by JOBEXEC_TEST_DATABASES" if named else f"not in the tier {tier.name}")
            covered[name] = find()
        except Unreachable as error:
            missing[name] = str(error)
    lacking = [name for name in _names("JOBEXEC_TEST_REQUIRE", finders) if name in missing]
    if lacking:
        raise RuntimeError("; ".join(f"JOBEXEC_TEST_REQUIRE: {name}: {missing[name]}" for name in lacking))


def _names(variable: str, known: dict[str, Any]) -> list[str]:
    names = [name.strip() for name in os.environ.get(variable, "").split(",") if name.strip()]
    unknown = sorted(set(names) - set(known))
    if unknown:
        raise RuntimeError(f"{variable}: unknown {', '.join(unknown)}; known are {', '.join(known)}")
    return names


def _sqlite() -> Database:
    folder = run.folder()
    return Database(
        name="sqlite",
        alias="default",
        version=sqlite3.sqlite_version,
        settings={
            "ENGINE": "django.db.backends.sqlite3",
            "NAME": str(folder / "unused.sqlite3"),
            "OPTIONS": {
                "transaction_mode": "IMMEDIATE",
                "timeout": 20,
                "init_command": "PRAGMA journal_mode=WAL; PRAGMA synchronous=OFF;",
            },
            # A file, not Django's usual database in memory: threads and processes share it.
            "TEST": {"NAME": str(folder / "test.sqlite3")},
        },
    )


def _postgresql() -> Database:
    try:
        import psycopg
        from psycopg.conninfo import conninfo_to_dict
    except ImportError as error:
        raise Unreachable(str(error)) from error
    named = os.environ.get("JOBEXEC_TEST_POSTGRESQL")
    try:
        address = named or run.once("postgresql", lambda: postgresql_server.start()[0])
        with psycopg.connect(address, connect_timeout=10) as connection:
            version = connection.info.parameter_status("server_version") or "unknown"
    except (postgresql_server.ServerError, psycopg.Error) as error:
        raise Unreachable(str(error)) from error

    def drop(database: str) -> None:
        with psycopg.connect(address, autocommit=True) as connection:
            connection.execute(f'DROP DATABASE IF EXISTS "{database}"'.encode())

    parts = conninfo_to_dict(address)
    return Database(
        name="postgresql",
        alias="postgresql",
        version=f"{version} ({'named' if named else 'own server'})",
        settings={
            "ENGINE": "django.db.backends.postgresql",
            "NAME": parts.get("dbname", "postgres"),
            "USER": parts.get("user", ""),
            "PASSWORD": parts.get("password", ""),
            "HOST": parts.get("host", ""),
            "PORT": str(parts.get("port", "")),
            # The server will not lose power: do not wait for the disk at each commit.
            "OPTIONS": {"options": "-c synchronous_commit=off"},
            "TEST": {"NAME": run.database(), "DEPENDENCIES": []},
        },
        drop=drop if named else None,
    )


def _mariadb() -> Database:
    try:
        import pymysql
    except ImportError as error:
        raise Unreachable(str(error)) from error
    named = os.environ.get("JOBEXEC_TEST_MARIADB")
    own = "" if named else run.once("mariadb", _start_mariadb)
    address = urlsplit(named or own or "mysql://root@127.0.0.1:3306")
    server: dict[str, Any] = {
        "host": address.hostname or "127.0.0.1",
        "port": address.port or 3306,
        "user": unquote(address.username or "root"),
        "password": unquote(address.password or ""),
    }
    try:
        with pymysql.connect(**server, connect_timeout=5) as connection:
            version = connection.get_server_info().removeprefix("5.5.5-")  # a prefix for old replicas
    except pymysql.Error as error:
        raise Unreachable(str(error.args[-1])) from error

    def drop(database: str) -> None:
        with pymysql.connect(**server) as connection, connection.cursor() as cursor:
            cursor.execute(f"DROP DATABASE IF EXISTS `{database}`")

    return Database(
        name="mariadb",
        alias="mariadb",
        version=f"{version} ({'own server' if own else 'named' if named else 'found on port 3306'})",
        settings={
            "ENGINE": "django.db.backends.mysql",
            "NAME": "mysql",
            "USER": server["user"],
            "PASSWORD": server["password"],
            "HOST": server["host"],
            "PORT": str(server["port"]),
            "OPTIONS": {"charset": "utf8mb4"},
            "TEST": {"NAME": run.database(), "CHARSET": "utf8mb4", "DEPENDENCIES": []},
        },
        drop=None if own else drop,
    )


def _start_mariadb() -> str:
    """Start our own server if its programs are installed; return its address, or ''."""
    try:
        server = servers.Mariadb(run.folder(), *servers.Mariadb.IN_A_HURRY, port=servers.free_port())
    except (OSError, RuntimeError, subprocess.CalledProcessError):
        return ""
    run.at_the_end(server.close)
    return f"mysql://root@127.0.0.1:{server.port}"


def _with_mysql_driver(found: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Make Django's MySQL backend use PyMySQL, which needs no compiler, under the name of its own driver."""
    if any(database["ENGINE"].endswith(".mysql") for database in found.values()):
        import pymysql

        pymysql.install_as_MySQLdb()
    return found
