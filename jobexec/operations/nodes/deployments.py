"""Deployments, and the node names that take their jobs; job definitions, written when a node starts.

A node that starts locks all versions of its deployment, in one order, so that none is retired under it.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Mapping
from datetime import timedelta
from typing import Any

from django.db.models import Exists, OuterRef, Q, QuerySet, TextField
from django.db.models.functions import Cast
from django.utils.translation import gettext_noop

from jobexec import clock
from jobexec.conf import get_settings
from jobexec.exceptions import NotAllowed
from jobexec.models import (
    JOB_TABLES,
    AbstractJob,
    DeadLetterJob,
    Deployment,
    DeploymentRegistration,
    ExecutorNode,
    ExternalWorkerJob,
    Job,
    JobDefinition,
    NodeState,
    SuspendedJob,
)

from ..audit import audited, note, note_rows, part
from ..sql.locks import atomic, delete_rows, lock_rows, names_conflict_target
from ..targets.for_each import OperationResult

#: The columns of a JobDefinition that its handler does not write anew.
_KEPT = ("id", "overriding_priority", "overriding_since")


def split_deployment_id(deployment_id: str) -> tuple[str, str]:
    """The name and the version in ``name:version``; ValueError if it is not that."""
    name, colon, version = deployment_id.partition(":")
    if not (name and colon and version):
        raise ValueError(f"deployment: expected 'name:version', got {deployment_id!r}.")
    return name, version


@audited
def deploy(deployment_id: str, handlers: Iterable[str], *, using: str = "default") -> Deployment:
    """Record that this version of the code exists, with the handlers in it; the first node that has it does so."""
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

    Persisted, other than in Camunda, and seen by running nodes at their next heartbeat. Raises
    ``Deployment.DoesNotExist`` for an unknown deployment.
    """
    _set_registered(deployment_id, node_name, True, using)


@audited
def unregister_deployment(deployment_id: str, node_name: str, *, using: str = "default") -> None:
    """Keep the nodes of this name from taking the deployment's jobs, also after they restart."""
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
    """What a node does when it starts: register its deployment and all older versions of the same name.

    New code runs old jobs by default, as Camunda's process applications resume previous versions. What an operator
    has unregistered stays unregistered.
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
    """The ids of the deployments whose jobs the nodes of this name take."""
    registrations = DeploymentRegistration.objects.using(using).filter(node_name=node_name, registered=True)
    return sorted(registrations.values_list("deployment_id", flat=True))


def all_deployments(categories: Iterable[str] = (), *, using: str = "default") -> list[str]:
    """The ids of all deployments: what a node that is not deployment aware takes.

    Those that a node has recorded, and those that a job in one of the categories names though no node has: created by
    code that is newer than its executors', or whose deployment was removed.
    """
    known = set(Deployment.objects.using(using).values_list("id", flat=True))
    return sorted(known.union(*(_named_by_jobs(category, using) for category in categories)))


def _named_by_jobs(category: str, using: str) -> set[str]:
    # From one to the next along the index of acquisition: as many looks as there are deployments, however many jobs.
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
    """Delete deployments that nobody needs any more, with their registrations: ``ids``, or all that are superseded.

    A deployment is superseded when there is a newer version of its name. It is needed as long as a job in any table
    names it, a living node has it in its code, or a living node was registered for it by hand: what a node takes
    because it is an older version of its own does not count. Such ones are skipped, with the reason.
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
    """Each in a transaction of its own: who holds one row waits for no other."""
    with part(using):
        rows = Deployment.objects.using(using).filter(pk=id)
        if not lock_rows(rows).values_list("pk").first():
            return gettext_noop("there is no such deployment")
        # Asked again: a node that was just starting has committed by the time that the row is ours.
        reason = _of_living_nodes(using, [id]).get(id)
        if reason is None:
            _delete_registrations(using, DeploymentRegistration.objects.using(using).filter(deployment_id=id))
            delete_rows(rows)
            note_rows(using, Deployment, [id], [""])
        return reason


def _needed(using: str, ids: Collection[str]) -> dict[str, str]:
    """Those of the deployments that cannot be retired, with the reason.

    Reads each job table once, and for each deployment that is left those with jobs of workers outside.
    """
    if not ids:
        return {}
    found = _of_living_nodes(using, ids)
    for table in JOB_TABLES:
        named = table._base_manager.using(using).filter(deployment_id__in=ids)
        for id in named.order_by().values_list("deployment_id", flat=True).distinct():
            found[id] = gettext_noop("jobs name it")
    for id in set(ids) - found.keys():
        if any(_called_by(table, id, using) for table in (ExternalWorkerJob, SuspendedJob, DeadLetterJob)):
            found[id] = gettext_noop("jobs name it")
    return found


def _called_by(table: type[AbstractJob], id: str, using: str) -> bool:
    """Whether what follows a job of workers outside may name the deployment: its text stands in the arguments."""
    rows = table._base_manager.using(using).filter(job_key__isnull=False)
    written = {json.dumps(id), json.dumps(id, ensure_ascii=False)}  # databases write other letters as they like
    either = Q(*(("text__contains", text) for text in written), _connector=Q.OR)
    return rows.annotate(text=Cast("handler_configuration", TextField())).filter(either).exists()


def _of_living_nodes(using: str, ids: Collection[str]) -> dict[str, str]:
    nodes = dict[str, set[str]]()
    for name, own in _living(using).values_list("name", "deployment"):
        nodes.setdefault(name, set()).add(own)
    owned = set[str]().union(*nodes.values())
    found = {id: gettext_noop("a living node has it in its code") for id in owned.intersection(ids)}
    registrations = DeploymentRegistration.objects.using(using).filter(registered=True, node_name__in=nodes)
    versions = Deployment.objects.using(using).in_bulk({*owned, *ids})
    for id, node in registrations.filter(deployment_id__in=ids).values_list("deployment_id", "node_name"):
        if not any(_comes_with(versions.get(own), versions.get(id)) for own in nodes[node]):
            found.setdefault(id, gettext_noop("a living node is registered for it"))
    return found


def _comes_with(own: Deployment | None, other: Deployment | None) -> bool:
    """Whether a node registers the other deployment by itself, as an older version of its own."""
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
    """Delete the registrations of a node name that no living node has, or of all such names; returns how many.

    ``deployments``: only for these; ``older_than``: only those that have not changed for so long. What an operator has
    unregistered stays when all names are meant. Raises :class:`~jobexec.exceptions.NotAllowed` if the named node lives.
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
        # A node that starts holds this row until its own is there to be seen.
        lock_rows(Deployment.objects.using(using).filter(pk=id)).values_list("pk").first()
        found = list(rows.filter(deployment_id=id).values_list("pk", "node_name"))
        note_rows(using, DeploymentRegistration, [pk for pk, _ in found], [f"{id} on {node}" for _, node in found])
        return _delete_registrations(using, rows.filter(deployment_id=id))


def _delete_registrations(using: str, rows: QuerySet[DeploymentRegistration]) -> int:
    found = list(rows.values_list("pk", flat=True))
    return delete_rows(DeploymentRegistration.objects.using(using).filter(pk__in=found)) if found else 0


def retiring(using: str) -> Iterator[int]:
    """What DEPLOYMENT_TIME_TO_LIVE says, with the cleanup of the history; yields how many rows were deleted."""
    age = get_settings().deployment_time_to_live
    if age is not None:
        if deleted := retire_registrations(older_than=age, using=using):
            yield deleted
        if retired := retire_deployments(superseded_for=age, using=using).changed:
            yield len(retired)


def write_job_definitions(definitions: Iterable[Mapping[str, Any]], *, using: str = "default") -> None:
    """Insert or update one row per handler; each mapping holds the columns of a JobDefinition.

    What a person has said of a definition stays.
    """
    # In one order, so that nodes that start together wait for each other and never in a circle.
    ordered = sorted(definitions, key=lambda columns: str(columns["id"]))
    rows = [JobDefinition(last_registered=clock.now(using), **columns) for columns in ordered]
    if not rows:
        return
    columns = [field.name for field in JobDefinition._meta.fields if field.name not in _KEPT]
    # MySQL and MariaDB name no conflict target; there the primary key is the only one there is.
    target = ["id"] if names_conflict_target(using) else None
    table = JobDefinition.objects.using(using)
    table.bulk_create(rows, update_conflicts=True, update_fields=columns, unique_fields=target)
