"""Deployments, and the node names that take their jobs; job definitions, written when a node starts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Any

from django.db import IntegrityError

from jobexec import clock
from jobexec.models import Deployment, DeploymentRegistration, Job, JobDefinition

from .audit import audited, note, part
from .locking import atomic, names_conflict_target

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
    names = sorted(handlers)
    defaults = {"name": name, "version": version, "handlers": names, "deploy_time": clock.now(using)}
    table = Deployment.objects.using(using)
    if not table.filter(pk=deployment_id).exists():
        with suppress(IntegrityError), part(using):  # another node has just done so
            deployment = table.create(id=deployment_id, **defaults)
            note(using, "deployment", deployment_id, new={"handlers": names})
            return deployment
    deployment = table.get(pk=deployment_id)
    if deployment.handlers != names:
        with atomic(using):
            table.filter(pk=deployment_id).update(handlers=names)
            note(using, "deployment", deployment_id, old={"handlers": deployment.handlers}, new={"handlers": names})
    return deployment


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
    deployment = Deployment.objects.using(using).get(pk=deployment_id)
    with atomic(using):
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
    versions = Deployment.objects.using(using).filter(name=own.name, deploy_time__lte=own.deploy_time)
    with atomic(using):
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
