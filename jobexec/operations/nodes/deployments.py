"""Deployments, the node names that take their jobs, and job definitions, written when a node starts.

A starting node locks all versions of its deployment, always in the same order, so that none is retired meanwhile.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from datetime import timedelta
from typing import Any, TypeAlias

from django.db.models import Exists, OuterRef, Q, QuerySet, TextField
from django.db.models.functions import Cast
from django.utils.translation import gettext_noop

from jobexec import clock
from jobexec.conf import get_settings
from jobexec.exceptions import NotAllowed
from jobexec.models import (
    EXTERNAL_TABLES,
    JOB_TABLES,
    AbstractJob,
    Deployment,
    DeploymentRegistration,
    ExecutorNode,
    Job,
    JobDefinition,
    NodeState,
)

from ..audit import audited, note, note_rows, part
from ..sql.delete import delete_rows
from ..sql.locks import atomic, lock_rows, names_conflict_target
from ..targets.for_each import OperationResult

#: Of these deployments in a database, those that must be kept, with the reason.
Needed: TypeAlias = Callable[[str, Collection[str]], Mapping[str, str]]

_needed_by_others: list[Needed] = []

#: The columns of a JobDefinition that a new registration of its handler does not overwrite.
_KEPT = ("id", "overriding_priority", "overriding_since")


def split_deployment_id(deployment_id: str) -> tuple[str, str]:
    """Split ``name:version`` into name and version. Raises ValueError for another format."""
    name, colon, version = deployment_id.partition(":")
    if not (name and colon and version):
        raise ValueError(f"deployment: expected 'name:version', got {deployment_id!r}.")
    return name, version


def keep_deployments(needed: Needed) -> None:
    """Let another app say which deployments it needs, so that they are not retired; a second call is ignored."""
    if needed not in _needed_by_others:
        _needed_by_others.append(needed)


@audited
def deploy(deployment_id: str, handlers: Iterable[str], *, using: str = "default") -> Deployment:
    """Record this version of the code and its handlers; called by the first node that has it."""
    name, version = split_deployment_id(deployment_id)
    rows, known = Deployment.objects.using(using), sorted(handlers)
    with atomic(using):
        _lock_versions(using, name)
        values = {"name": name, "version": version, "handlers": known, "deploy_time": clock.now(using)}
        deployment, created = rows.get_or_create(id=deployment_id, defaults=values)
        if created:
            note(using, "deployment", deployment_id, new={"handlers": known})
        elif deployment.handlers != known:
            rows.filter(pk=deployment_id).update(handlers=known)
            note(using, "deployment", deployment_id, old={"handlers": deployment.handlers}, new={"handlers": known})
    return deployment


def _lock_versions(using: str, name: str) -> list[Deployment]:
    return list(lock_rows(Deployment.objects.using(using).filter(name=name).order_by("pk"), no_key=True))


@audited
def register_deployment(deployment_id: str, node_name: str, *, using: str = "default") -> None:
    """Let the nodes of this name take the deployment's jobs (Camunda: registerDeploymentForJobExecutor).

    Unlike Camunda's, the registration is persisted; running nodes see it at their next heartbeat. Raises
    ``Deployment.DoesNotExist`` for an unknown deployment.
    """
    _set_registered(deployment_id, node_name, True, using)


@audited
def unregister_deployment(deployment_id: str, node_name: str, *, using: str = "default") -> None:
    """Keep the nodes of this name from taking the deployment's jobs, even after a restart."""
    _set_registered(deployment_id, node_name, False, using)


def _set_registered(deployment_id: str, node_name: str, registered: bool, using: str) -> None:
    with part(using):
        deployment = lock_rows(Deployment.objects.using(using), no_key=True).get(pk=deployment_id)
        DeploymentRegistration.objects.using(using).update_or_create(
            deployment=deployment,
            node_name=node_name,
            defaults={"registered": registered, "changed_at": clock.now(using)},
        )
        note(using, "deployment", deployment_id, new={"node_name": node_name, "registered": registered})


def register_own_deployment(deployment_id: str, node_name: str, *, using: str = "default") -> None:
    """Register the deployment of a starting node and all older versions of the same name.

    New code runs old jobs by default, as Camunda's process applications resume previous versions. A deployment that an
    operator has unregistered stays unregistered.
    """
    own = Deployment.objects.using(using).get(pk=deployment_id)
    with atomic(using):
        versions = [each for each in _lock_versions(using, own.name) if each.deploy_time <= own.deploy_time]
        DeploymentRegistration.objects.using(using).bulk_create(
            [
                DeploymentRegistration(deployment=version, node_name=node_name, changed_at=clock.now(using))
                for version in versions
            ],
            ignore_conflicts=True,
        )


def registered_deployments(node_name: str, *, using: str = "default") -> list[str]:
    """Return the ids of the deployments whose jobs the nodes of this name take."""
    registrations = DeploymentRegistration.objects.using(using).filter(node_name=node_name, registered=True)
    return sorted(registrations.values_list("deployment_id", flat=True))


def all_deployments(categories: Iterable[str] = (), *, using: str = "default") -> list[str]:
    """Return the ids of all deployments, whose jobs a node that is not deployment aware takes.

    These are the deployments recorded by nodes, and those that only jobs in these categories name: such jobs were
    created by code newer than the executors', or their deployment was removed.
    """
    known = set(Deployment.objects.using(using).values_list("id", flat=True))
    return sorted(known.union(*(_named_by_jobs(category, using) for category in categories)))


def _named_by_jobs(category: str, using: str) -> set[str]:
    # Skips from one to the next in the acquisition index: one query per deployment, however many jobs there are.
    named: set[str] = set()
    rows = Job.objects.using(using).filter(category=category).order_by("deployment_id")
    ids = rows.values_list("deployment_id", flat=True)
    following = ids.filter(deployment_id__gt="").first()
    while following:
        named.add(following)
        following = ids.filter(deployment_id__gt=following).first()
    return named


@audited
def retire_deployments(
    ids: Iterable[str] | None = None, *, superseded_for: timedelta | None = None, using: str = "default"
) -> OperationResult:
    """Delete deployments that are no longer needed, with their registrations: ``ids``, or all superseded ones.

    A deployment is superseded by a newer version of the same name, deployed at least ``superseded_for`` ago. It is
    needed as long as a job in any table or another app names it, a living node has it in its code, or a living node was
    registered for it by hand; a registration as an older version of the node's own deployment does not count. Those
    still needed are skipped, with the reason.
    """
    if (ids is None) == (superseded_for is None):
        raise ValueError("retire_deployments: expected either ids or superseded_for.")
    found = list(dict.fromkeys(ids or ())) if superseded_for is None else _superseded(using, superseded_for)
    needed = _needed(using, found)
    result = OperationResult()
    for id in found:
        reason = needed.get(id) or _retire(using, id)
        if reason is None:
            result.changed.append(id)
        else:
            result.skipped[id] = reason
    return result


def _superseded(using: str, age: timedelta) -> list[str]:
    moment = clock.now(using) - age
    rows = Deployment.objects.using(using)
    newer = rows.filter(name=OuterRef("name"), deploy_time__gt=OuterRef("deploy_time"), deploy_time__lte=moment)
    return list(rows.filter(Exists(newer)).order_by("deploy_time").values_list("pk", flat=True))


def _retire(using: str, id: str) -> str | None:
    """Retire one deployment in its own transaction, which holds one row and never waits for another."""
    with part(using):
        rows = Deployment.objects.using(using).filter(pk=id)
        if not lock_rows(rows).values_list("pk").first():
            return gettext_noop("there is no such deployment")
        # Checked again: a node that was just starting has committed by the time we hold the row.
        reason = _of_living_nodes(using, [id]).get(id)
        if reason is None:
            _delete_registrations(using, DeploymentRegistration.objects.using(using).filter(deployment_id=id))
            delete_rows(rows)
            note_rows(using, Deployment, [id], [""])
        return reason


def _needed(using: str, ids: Collection[str]) -> dict[str, str]:
    """Return the deployments that cannot be retired, with the reason.

    Reads each job table once, and for each remaining deployment the tables that may hold external jobs.
    """
    if not ids:
        return {}
    found = _of_living_nodes(using, ids)
    for table in JOB_TABLES:
        named = table._base_manager.using(using).filter(deployment_id__in=ids)
        for id in named.order_by().values_list("deployment_id", flat=True).distinct():
            found[id] = gettext_noop("jobs refer to it")
    for needed in _needed_by_others:
        found = {**needed(using, ids), **found}
    for id in set(ids) - found.keys():
        if any(_called_by(table, id, using) for table in EXTERNAL_TABLES):
            found[id] = gettext_noop("jobs refer to it")
    return found


def _called_by(table: type[AbstractJob], id: str, using: str) -> bool:
    """Whether a follow-up of an external job may name the deployment: searches the job's arguments for its text."""
    rows = table._base_manager.using(using).filter(job_key__isnull=False)
    written = {json.dumps(id), json.dumps(id, ensure_ascii=False)}  # databases may or may not escape non-ASCII letters
    either = Q(*(("text__contains", text) for text in written), _connector=Q.OR)
    return rows.annotate(text=Cast("handler_configuration", TextField())).filter(either).exists()


def _of_living_nodes(using: str, ids: Collection[str]) -> dict[str, str]:
    nodes = dict[str, set[str]]()
    for name, own in _living(using).values_list("name", "deployment"):
        nodes.setdefault(name, set()).add(own)
    owned = set[str]().union(*nodes.values())
    found = {id: gettext_noop("it is in the code of a living node") for id in owned.intersection(ids)}
    registrations = DeploymentRegistration.objects.using(using).filter(registered=True, node_name__in=nodes)
    versions = Deployment.objects.using(using).in_bulk({*owned, *ids})
    for id, node in registrations.filter(deployment_id__in=ids).values_list("deployment_id", "node_name"):
        if not any(_comes_with(versions.get(own), versions.get(id)) for own in nodes[node]):
            found.setdefault(id, gettext_noop("a living node is registered for it"))
    return found


def _comes_with(own: Deployment | None, other: Deployment | None) -> bool:
    """Whether a node registers the other deployment automatically, as an older version of its own."""
    return own is not None and other is not None and own.name == other.name and other.deploy_time <= own.deploy_time


def _living(using: str) -> QuerySet[ExecutorNode]:
    return ExecutorNode.objects.using(using).exclude(state=NodeState.DEAD)


@audited
def retire_registrations(
    node_name: str | None = None,
    deployments: Iterable[str] | None = None,
    *,
    older_than: timedelta | None = None,
    using: str = "default",
) -> int:
    """Delete the registrations of a node name without a living node, or of all such names; return how many.

    ``deployments`` limits this to these deployments, ``older_than`` to registrations unchanged for at least that time.
    For all names, entries that an operator has unregistered stay. Raises :class:`~jobexec.exceptions.NotAllowed` if the
    named node lives.
    """
    if node_name is not None and _living(using).filter(name=node_name).exists():
        raise NotAllowed(f"Node {node_name!r} is alive, and keeps its registrations.")
    rows = DeploymentRegistration.objects.using(using).exclude(node_name__in=_living(using).values("name"))
    rows = rows.filter(registered=True) if node_name is None else rows.filter(node_name=node_name)
    if older_than is not None:
        rows = rows.filter(changed_at__lt=clock.now(using) - older_than)
    if deployments is not None:
        rows = rows.filter(deployment_id__in=list(deployments))
    return sum(_unregister_gone(using, id, rows) for id in rows.values_list("deployment_id", flat=True).distinct())


def _unregister_gone(using: str, id: str, rows: QuerySet[DeploymentRegistration]) -> int:
    with part(using):
        # A starting node locks this row until its own row is visible.
        lock_rows(Deployment.objects.using(using).filter(pk=id)).values_list("pk").first()
        found = list(rows.filter(deployment_id=id).values_list("pk", "node_name"))
        note_rows(using, DeploymentRegistration, [pk for pk, _ in found], [f"{id} on {node}" for _, node in found])
        return _delete_registrations(using, rows.filter(deployment_id=id))


def _delete_registrations(using: str, rows: QuerySet[DeploymentRegistration]) -> int:
    found = list(rows.values_list("pk", flat=True))
    return delete_rows(DeploymentRegistration.objects.using(using).filter(pk__in=found)) if found else 0


def retiring(using: str) -> Iterator[int]:
    """Apply DEPLOYMENT_TIME_TO_LIVE, as part of the history cleanup; yield the numbers of deleted rows."""
    age = get_settings().deployment_time_to_live
    if age is not None:
        if deleted := retire_registrations(older_than=age, using=using):
            yield deleted
        if retired := retire_deployments(superseded_for=age, using=using).changed:
            yield len(retired)


def write_job_definitions(
    definitions: Iterable[Mapping[str, Any]], *, using: str = "default", update: bool = True
) -> None:
    """Insert or update one row per handler; each mapping holds the columns of a JobDefinition.

    Values that an operator has set on a definition are kept. Without ``update``, only new rows are inserted.
    """
    # Always in the same order, so that nodes that start together wait for each other without a deadlock.
    ordered = sorted(definitions, key=lambda columns: str(columns["id"]))
    rows = [JobDefinition(last_registered=clock.now(using), **columns) for columns in ordered]
    if not rows:
        return
    table = JobDefinition.objects.using(using)
    if not update:
        table.bulk_create(rows, ignore_conflicts=True)
        return
    columns = [field.name for field in JobDefinition._meta.fields if field.name not in _KEPT]
    # MySQL and MariaDB name no conflict target; the primary key is the only one that exists.
    target = ["id"] if names_conflict_target(using) else None
    table.bulk_create(rows, update_conflicts=True, update_fields=columns, unique_fields=target)
