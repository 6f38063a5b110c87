"""The most database connections that an executor process uses: a pure function of its settings."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any

from django.apps import apps
from django.db import connections

from jobexec.conf import EngineSettings, Settings
from jobexec.operations.sql.dialect import dialect

#: The executor's threads for each engine, with one connection each; one of acquisition for each name. Promotion (with
#: RESOURCES), alerts (with DEAD_LETTER_ALERTS) and a second settlement (with jobexec.processes, whose steps end
#: together) come on top.
LOOPS = (
    "acquisition",
    "timers",
    "suspensions",
    "recovery",
    "heartbeat",
    "settlement",
    "monitor",
    "meters",
    "history",
    "cleanup",
)
#: Threads that use the database only briefly: the main thread (checks at the start, --until-empty), and the thread that
#: registers the node, releases jobs or deregisters.
HELPERS = ("main", "helper")

#: The default size of psycopg's pool.
_POOL_SIZE = 4


@dataclass(frozen=True, slots=True)
class ConnectionCount:
    """The most connections of one process to one engine's database at the same time.

    ``ordinary`` ones are made by Django (and come from its pool, if it has one): one for each worker thread, whichever
    engine's job it runs, one for each thread used by async handlers, and one for each of the executor's other threads.
    ``listening`` is 1 if a separate connection LISTENs, on LISTEN_DATABASE or otherwise here; it is never pooled.
    """

    ordinary: int
    listening: int

    @property
    def total(self) -> int:
        return self.ordinary + self.listening


def connections_needed(settings: Settings, engine: EngineSettings) -> ConnectionCount:
    """How many connections the executor needs for this engine, so that none of its threads waits for another's.

    A handler that opens connections in its own threads, or uses aliases that are not engines, needs more: at most one
    for each worker thread and alias. So does a thread that is stuck in a job past its timeout, in addition to its
    replacement.
    """
    return ConnectionCount(ordinary_connections(settings, engine), int(can_listen(engine)))


def ordinary_connections(settings: Settings, engine: EngineSettings) -> int:
    """The connections of one engine made by Django: worker threads, threads for async handlers, loops and helpers."""
    threads_for_async = settings.async_threads if settings.async_jobs else 0
    loops = len(LOOPS) - 1 + len(engine.acquirers) + bool(settings.resources) + bool(settings.dead_letter_alerts)
    loops += apps.is_installed("jobexec.processes")
    return settings.threads + threads_for_async + loops + len(HELPERS)


def can_listen(engine: EngineSettings) -> bool:
    """Whether the engine's executor keeps a connection that LISTENs (PostgreSQL, unless NOTIFY is off)."""
    return engine.notify and dialect(engine.listen_database or engine.alias).notify is not None


def pool_size(database: dict[str, Any]) -> int | None:
    """The most connections that psycopg's pool of a database (its settings) opens; None if it has no pool."""
    pool = database["OPTIONS"].get("pool")
    if not pool:
        return None
    options = pool if isinstance(pool, dict) else {}
    # Without max_size it never grows.
    size = options.get("max_size") or options.get("min_size", _POOL_SIZE)
    return size if isinstance(size, int) else None


def connections_by_alias(settings: Settings) -> dict[str, int]:
    """The most connections that one process opens through each alias: what it needs, limited by its pool."""
    count: Counter[str] = Counter()
    for engine in settings.engines.values():
        need, size = connections_needed(settings, engine), pool_size(connections[engine.alias].settings_dict)
        count[engine.alias] += need.ordinary if size is None else min(need.ordinary, size)
        if need.listening:
            count[engine.listen_database or engine.alias] += 1
    return dict(count)
