"""Under which circumstances a benchmark ran."""

from __future__ import annotations

import os
import platform
from importlib import metadata
from typing import Any

import django
from django.db import connections

import jobexec
from jobexec.operations.sql.locks import has_skip_locked

from .measure import Plan

_DURABILITY = {
    "postgresql": {"synchronous_commit": "SHOW synchronous_commit", "fsync": "SHOW fsync"},
    "mysql": {"innodb_flush_log_at_trx_commit": "SELECT @@innodb_flush_log_at_trx_commit"},
    "sqlite": {"journal_mode": "PRAGMA journal_mode", "synchronous": "PRAGMA synchronous"},
}
_VERSION = {
    "postgresql": "SHOW server_version",
    "mysql": "SELECT VERSION()",
    "sqlite": "SELECT sqlite_version()",
}


def _waking(plan: Plan) -> str:
    if not plan.settings.engine(plan.alias).notify:
        return "polling"
    return {"postgresql": "NOTIFY", "sqlite": "watching commits"}.get(connections[plan.alias].vendor, "polling")


def settings_of(plan: Plan) -> dict[str, Any]:
    """The settings that decide how fast it is."""
    settings, engine = plan.settings, plan.settings.engine(plan.alias)
    skip_locked = engine.acquisition != "optimistic" and has_skip_locked(plan.alias)
    vendor = connections[plan.alias].vendor
    return {
        "threads": settings.threads,
        "queue": settings.queue_size,
        "page": plan.page,
        "raw page": plan.raw_page,
        "history": settings.history_level,
        "acquisition": "skip locked" if skip_locked else "optimistic",
        "waking": _waking(plan),
        **{name: _ask(plan.alias, statement) for name, statement in _DURABILITY[vendor].items()},
    }


def versions_of(alias: str) -> dict[str, str]:
    """The versions of everything in the way of a job."""
    connection = connections[alias]
    driver: Any = connection.Database  # type: ignore[attr-defined]
    return {
        "jobexec": jobexec.__version__,
        "Python": platform.python_version(),
        "Django": django.get_version(),
        **_driver(driver.__name__.split(".")[0]),
        server_name(alias): _ask(alias, _VERSION[connection.vendor]),
        "CPUs": str(os.cpu_count()),
    }


def _driver(module: str) -> dict[str, str]:
    """By its package: PyMySQL, asked itself, says that it is some mysqlclient. SQLite's comes with Python."""
    packages = metadata.packages_distributions().get(module, [])
    return {name: metadata.version(name) for name in packages[:1]}


def server_name(alias: str) -> str:
    """The database as people call it."""
    connection: Any = connections[alias]
    if connection.vendor == "mysql" and connection.mysql_is_mariadb:
        return "MariaDB"
    return str(connection.display_name)


def _ask(alias: str, statement: str) -> str:
    with connections[alias].cursor() as cursor:
        cursor.execute(statement)
        return str(cursor.fetchone()[0])
