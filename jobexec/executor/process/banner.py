"""The five lines that an executor prints when it starts."""

from __future__ import annotations

import os
from collections.abc import Iterator

from django.db import connections

import jobexec
from jobexec.broker.connection import broker_name
from jobexec.conf import EngineSettings, Settings
from jobexec.handlers.registry import OWN, all_handlers
from jobexec.operations.sql.locks import has_skip_locked

from ...runtime.connection_count import can_listen, connections_by_alias
from ...runtime.connections import reaches_pooler
from ..job_executor import JobExecutor
from ..loops.commits import can_watch


def banner(executor: JobExecutor) -> Iterator[str]:
    """Describe the jobs that this executor serves."""
    settings = executor.settings
    broker = broker_name(settings) if executor.from_broker else ""
    engines = "; ".join(_engine(engine, broker) for engine in settings.engines.values())
    yield f"jobexec {jobexec.__version__}, node {settings.node_name}, process {os.getpid()}"
    yield f"  engines:    {engines}"
    yield f"  categories: {_categories(settings)}; deployments: {_deployments(executor)}"
    yield (
        f"  pool:       {settings.threads} threads, queue of {settings.queue_size}; history: {settings.history_level}; "
        f"connections: {_connections(settings)}"
    )
    handlers = sum(not handler.name.startswith(OWN) for handler in all_handlers())
    yield f"  handlers:   {handlers} registered. Press Ctrl-C once to drain and stop, twice to stop immediately."


def _engine(engine: EngineSettings, broker: str) -> str:
    connection = connections[engine.alias]
    skip_locked = engine.acquisition != "optimistic" and has_skip_locked(engine.alias)
    waking = "LISTEN" if can_listen(engine) else "watching commits" if can_watch(engine) else "polling"
    if can_listen(engine) and reaches_pooler(engine.listen_database or engine.alias):
        waking = "polling behind a pooler"
    if broker:
        waking = f"announced by {broker}"
    facts = [connection.display_name, "skip locked" if skip_locked else "optimistic", waking]
    if engine.acquisitions:
        facts.append(f"acquisitions: {' and '.join(map(_acquisition, engine.acquisitions))}")
    return f"{engine.alias} ({', '.join(facts)})"


def _acquisition(settings: EngineSettings) -> str:
    return f"{settings.name} of {', '.join(settings.categories)}" if settings.categories else settings.name


def _connections(settings: Settings) -> str:
    return ", ".join(f"up to {count} on {alias}" for alias, count in connections_by_alias(settings).items())


def _categories(settings: Settings) -> str:
    if settings.category_order == "strict":
        return " before ".join(settings.categories)
    if settings.category_order == "weighted":
        return ", ".join(f"{name} (weight {weight})" for name, weight in settings.category_weights.items())
    return ", ".join(settings.categories)


def _deployments(executor: JobExecutor) -> str:
    aware = [engine.node for engine in executor.engines.values() if engine.node.engine.deployment_aware]
    if not aware:
        return "all"
    return ", ".join(sorted({name for node in aware for name in node.scope.deployments})) or "only jobs without one"
