"""Health of the job engines, for a monitor that polls the web site: see ``docs/how-to/executors/run-in-production.md``.

The executor's own probes are different: they report on one process and use no database (``--health-port``).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from datetime import timedelta
from functools import cache
from importlib import import_module
from pkgutil import iter_modules
from typing import Any

from django.db import DatabaseError, InterfaceError, connections
from django.db.migrations.loader import MigrationLoader
from django.db.migrations.recorder import MigrationRecorder
from django.http import HttpRequest, HttpResponseNotAllowed, JsonResponse
from django.http.response import HttpResponseBase

from jobexec.conf import get_settings
from jobexec.models import ExecutorNode, NodeState
from jobexec.operations.reports.counts import oldest_due
from jobexec.operations.reports.unserved_types import types_without_worker
from jobexec.operations.sql.server_time import time_of
from jobexec.runtime.connections import own_transactions
from jobexec.tenancy import is_restricted

_TYPES_NAMED = 10


@dataclass(slots=True)
class EngineHealth:
    """The health of one engine. ``problems`` explains why it is not healthy; ages are in seconds."""

    reachable: bool = False
    living_nodes: int | None = None
    oldest_due_age: float | None = None
    unapplied_migrations: list[str] = field(default_factory=list)
    types_without_worker: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)

    def as_dict(self) -> dict[str, Any]:
        """The fields as a JSON object for the response."""
        return {"ok": not self.problems, **asdict(self)}


def engine_health(using: str, max_due_age: timedelta | None = None) -> EngineHealth:
    """The health of an engine, in a few bounded statements. It is healthy if its database answers and has our
    migrations, a node holds a valid lease, no job has been due for longer than ``max_due_age``, and external workers
    poll for each type of waiting external jobs. Never raises for a database."""
    health = EngineHealth()
    try:
        health.problems += _problems(using, health, max_due_age)
    except (DatabaseError, InterfaceError) as error:
        what = "its tables cannot be read" if health.reachable else "its database does not answer"
        health.problems.append(f"{what} ({type(error).__name__})")
    return health


def _problems(using: str, health: EngineHealth, max_due_age: timedelta | None) -> Iterator[str]:
    connections[using].ensure_connection()
    now = time_of(using)
    health.unapplied_migrations = _unapplied(using)
    health.reachable = True
    if health.unapplied_migrations:
        yield f"migrations are not applied: {', '.join(health.unapplied_migrations)}"
    leases = ExecutorNode.objects.using(using).filter(lease_expiration_time__gt=now).exclude(state=NodeState.DEAD)
    health.living_nodes = leases.count()
    if not health.living_nodes:
        yield "no executor holds a valid lease"
    due = oldest_due(using, now)
    health.oldest_due_age = None if due is None else round(max(0.0, (now - due).total_seconds()), 1)
    if max_due_age is not None and (health.oldest_due_age or 0) > max_due_age.total_seconds():
        yield f"a job has been due for {health.oldest_due_age} s, more than {max_due_age.total_seconds():.0f} s"
    if health.unapplied_migrations:  # the table of external jobs may be among them
        return
    unserved = types_without_worker(using, get_settings().external_worker_alert_after)
    health.types_without_worker = [each.type for each in unserved]
    if unserved:
        named = ", ".join(health.types_without_worker[:_TYPES_NAMED])
        yield f"no external worker polls for waiting jobs of the types: {named}"


def _unapplied(using: str) -> list[str]:
    applied = MigrationRecorder(connections[using]).migration_qs.filter(app="jobexec").values_list("name", flat=True)
    return sorted(_migrations() - set(applied))


@cache
def _migrations() -> frozenset[str]:
    """The names of our migrations; none if the project has disabled them."""
    module, _ = MigrationLoader.migrations_module("jobexec")
    if module is None:
        return frozenset()
    found = iter_modules(import_module(module).__path__)
    return frozenset(each.name for each in found if not each.ispkg and not each.name.startswith("_"))


@own_transactions
def view(request: HttpRequest, max_due_age: timedelta | float | None = None) -> HttpResponseBase:
    """200 if all engines are healthy, otherwise 503. Other clients get only ``ok``, staff the details.

    Staff must have the permission to view nodes, for all tenants: ages and nodes are not limited to some.
    ``max_due_age``, a timedelta or seconds, overrides HEALTH_MAX_DUE_AGE:
    ``path("health/", health.view, {"max_due_age": 60})``. Not for the probe of a load balancer: a site is not unhealthy
    because its jobs wait.
    """
    if request.method not in ("GET", "HEAD"):
        return HttpResponseNotAllowed(["GET", "HEAD"])
    settings = get_settings()
    limit = settings.health_max_due_age
    if max_due_age is not None:
        limit = max_due_age if isinstance(max_due_age, timedelta) else timedelta(seconds=max_due_age)
    engines = {using: engine_health(using, limit) for using in settings.engines}
    answer: dict[str, Any] = {"ok": not any(health.problems for health in engines.values())}
    if _may_see(request):
        answer["engines"] = {using: health.as_dict() for using, health in engines.items()}
    return JsonResponse(answer, status=200 if answer["ok"] else 503, headers={"Cache-Control": "no-store"})


def _may_see(request: HttpRequest) -> bool:
    user: Any = getattr(request, "user", None)  # a project may have no users
    try:
        allowed = user and user.is_active and user.is_staff and user.has_perm("jobexec.view_executornode")
        return bool(allowed) and not is_restricted(request)  # nodes and ages are those of all tenants
    except (DatabaseError, InterfaceError):  # sessions and users may be in the database that is away
        return False
