"""Look up what clients name. A client sees the definitions and instances of its tenants."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, NamedTuple, TypeVar
from uuid import UUID

from django.db.models import Model, QuerySet

from jobexec.exceptions import JobExecError, NotAllowed
from jobexec.gateways.zeebe_format import NO_KEY
from jobexec.identifiers import as_id
from jobexec.models import EXTERNAL_TABLES
from jobexec.operations.external.types import Caller

from ..models import ProcessDefinition, ProcessDeployment, ProcessInstance, ProcessResource, UserTask
from ..models.instance import RUNNING
from ..operations.deploy import Deployed
from ..store.flush import ENDED

M = TypeVar("M", bound=Model)


class NotFound(JobExecError, LookupError):
    """There is no such definition, instance or task, or the client may not see it."""


class StillRunning(JobExecError):
    """The instance has not ended in the time for which its client waits; it goes on."""


class WasCancelled(JobExecError):
    """The instance for whose result a client waits was cancelled, or has ended without one."""


class Scope(NamedTuple):
    """Where variables are: an instance, or an execution of it."""

    root: UUID
    instance: UUID
    id: UUID
    tenant: str


def visible(rows: QuerySet[M], caller: Caller) -> QuerySet[M]:
    """Rows of the caller's tenants."""
    return rows if caller.tenants is None else rows.filter(tenant_id__in=sorted(caller.tenants))


def definitions(using: str, caller: Caller) -> QuerySet[ProcessDefinition]:
    """The versions of deployed processes that the caller may see."""
    return visible(ProcessDefinition.objects.using(using).filter(version__isnull=False), caller)


def definition(using: str, caller: Caller, number: int) -> ProcessDefinition:
    """A version of a process by its number. Raises NotFound."""
    row = definitions(using, caller).filter(number=number).first()
    if row is None:
        raise NotFound(f"Expected to find process definition with key '{number}', but no such process was found.")
    return row


def named(using: str, caller: Caller, key: str, version: int | None, tenant: str, tag: str = "") -> ProcessDefinition:
    """A version of a process of a tenant by its id in the file, the latest of those that fit. Raises NotFound."""
    rows = definitions(using, caller).filter(key=key, tenant_id=tenant)
    rows = rows if version is None else rows.filter(version=version)
    row = (rows.filter(version_tag=tag) if tag else rows).order_by("-version").first()
    if row is None:
        told = "" if version is None else f" and version {version}"
        told += f" and version tag '{tag}'" if tag else ""
        raise NotFound(f"Expected to find process definition with process ID '{key}'{told}, but none was found.")
    return row


def wanted(
    using: str, caller: Caller, number: int, key: str, version: int | None, tenant: str, tag: str = ""
) -> ProcessDefinition:
    """The definition that a client starts, by its number, if that is not 0, or its id. Raises NotFound, NotAllowed."""
    if not caller.may_see(tenant):
        raise NotAllowed(f"The client {caller.name!r} may not act for the tenant {tenant!r}.")
    if not number:
        return named(using, caller, key, version, tenant, tag)
    row = definition(using, caller, number)
    if row.tenant_id != tenant:
        raise NotFound(f"Expected to find process definition with key '{number}', but no such process was found.")
    return row


def deployment_key(using: str, made: Sequence[Deployed]) -> int:
    """The key of the deployment of what is new; if nothing is, of the latest version."""
    if not made:
        return NO_KEY
    row = next((each for each in made if each.is_new), made[0]).definition
    keys = ProcessDeployment.objects.using(using).filter(pk__in=[row.deployment_id]).values_list("key", flat=True)
    return keys.first() or NO_KEY


def instances(using: str, caller: Caller) -> QuerySet[ProcessInstance]:
    return visible(ProcessInstance.objects.using(using), caller)


def instance(using: str, caller: Caller, key: int) -> ProcessInstance:
    """An instance by its key, also one that has ended. Raises NotFound."""
    row = instances(using, caller).filter(key=key).first()
    if row is None:
        raise NotFound(f"Expected to find process instance with key '{key}', but no such process was found.")
    return row


def tasks(using: str, caller: Caller) -> QuerySet[UserTask]:
    return visible(UserTask.objects.using(using), caller)


def task(using: str, caller: Caller, key: int) -> UserTask:
    """A user task by its key. Raises NotFound."""
    row = tasks(using, caller).filter(key=key).first()
    if row is None:
        raise NotFound(f"Expected to find user task with key '{key}', but no such user task was found.")
    return row


def scope(using: str, caller: Caller, key: int) -> Scope:
    """By the key of an instance, a user task, or an external job, which stands for its element. Raises NotFound."""
    of_instance = instances(using, caller).filter(key=key, state__in=RUNNING)
    of_task = tasks(using, caller).filter(key=key)
    row: Any = of_instance.values_list("root_id", "pk", "pk", "tenant_id").first()
    row = row or of_task.values_list("root_id", "instance_id", "owner_id", "tenant_id").first()
    row = row or _scope_of_job(using, caller, key)
    if row is None:
        raise NotFound(f"Expected to find element with key '{key}', but no such element was found.")
    return Scope(*row)


def _scope_of_job(using: str, caller: Caller, key: int) -> tuple[UUID, UUID, UUID, str] | None:
    for table in EXTERNAL_TABLES:
        jobs = visible(table._base_manager.using(using).filter(job_key=key), caller)
        for names in jobs.values_list("process_instance_id", "execution_id"):
            instance, owner = map(as_id, names)
            if instance is not None and owner is not None:
                rows = instances(using, caller).filter(pk=instance, state__in=RUNNING)
                root: Any = rows.values_list("root_id", "tenant_id").first()
                return (root[0], instance, owner, root[1]) if root else None
    return None


def resource(using: str, row: ProcessDefinition) -> ProcessResource:
    """The file of a definition. Raises NotFound."""
    found = ProcessResource.objects.using(using).filter(pk__in=[row.resource_id]).first()
    if found is None:
        raise NotFound(f"The process definition with key '{row.number}' has no file.")
    return found


def instance_keys(using: str, ids: Collection[str]) -> dict[str, int]:
    """The keys of instances, by their ids as jobs and incidents have them."""
    known = [id for text in ids if (id := as_id(text)) is not None]
    rows = ProcessInstance.objects.using(using).filter(pk__in=known, key__isnull=False)
    return {str(pk): key for pk, key in rows.values_list("pk", "key") if key is not None}


def ended(using: str, names: Collection[str]) -> set[str]:
    """Those of the names of awaited instances that have ended."""
    ids = {id: name for name in names if (id := as_id(name.removeprefix(ENDED))) is not None}
    rows = ProcessInstance.objects.using(using).filter(pk__in=ids).exclude(state__in=RUNNING)
    return {ids[id] for id in rows.values_list("pk", flat=True)}
