"""Suspend and activate processes: all instances of a definition, or one of them; jobexec holds their jobs."""

from __future__ import annotations

from contextlib import suppress
from datetime import datetime
from typing import Any, cast
from uuid import UUID

from django.db import router, transaction

from jobexec.exceptions import InvalidJob
from jobexec.operations import activate as activate_jobs
from jobexec.operations import suspend as suspend_jobs
from jobexec.operations.audit import audited

from ..exceptions import InstanceBusy, InstanceOver
from ..models import ProcessDefinition, ProcessInstance
from ..store import definitions, load, lock
from .named import which

#: An instance, or the key of a process.
Target = ProcessInstance | UUID | str


@audited
def suspend(
    target: Target,
    *,
    version: int | None = None,
    tenant_id: str | None = None,
    at: datetime | None = None,
    until: datetime | None = None,
    include_instances: bool = True,
    using: str | None = None,
) -> int:
    """Suspend an instance, or a process by its key, from now or from ``at``, without an end or ``until`` a date.

    Jobs do not run, including later ones; running jobs finish. No instance of a suspended process can be started, its
    tasks cannot be claimed or completed, and messages cannot be correlated: the callers get
    :class:`~jobexec.processes.exceptions.Suspended`. Variables can be set, and instances can be modified and cancelled.
    A suspension does not cover instances that a suspended instance has called (Camunda's rule).

    ``version`` restricts it to one version of the process, ``tenant_id`` to the process of one tenant ('': of none).
    With ``include_instances=False``, it does not cover existing instances, except for the jobs that they create from
    then on. In each case, timers, published messages and signals that would start an instance wait for the activation.
    Returns the number of jobs that it has moved. When it returns, the steps of an instance have ended; only one that
    takes longer than LOCK_TIMEOUT may still go on. Raises InstanceOver, UnknownProcess, InvalidJob for an invalid date,
    and InstanceBusy if it could not begin.
    """
    dates: dict[str, Any] = {"at": at, "until": until}
    if not isinstance(target, str):
        if not include_instances:
            raise InvalidJob("include_instances: expected with the key of a process, not with an instance.")
        database, id = _instance(target, version, tenant_id, using)
        _wait_for_step(database, id)
        moved = suspend_jobs(using=database, process_instance_id=str(id), **dates)
        assert isinstance(moved, int)
        try:  # a step that had begun has ended when this returns; the next one knows
            with suppress(InstanceBusy):  # the suspension holds all the same; the step that goes on is the last one
                _wait_for_step(database, id)
        except InstanceOver:
            activate_jobs(using=database, process_instance_id=str(id))
        return moved
    database, scope = _scope(target, version, tenant_id, using)
    moved = suspend_jobs(using=database, **dates, include_jobs=include_instances, **scope)
    assert isinstance(moved, int)
    return moved


@audited
def activate(
    target: Target,
    *,
    version: int | None = None,
    tenant_id: str | None = None,
    at: datetime | None = None,
    using: str | None = None,
) -> int:
    """End :func:`suspend` of the same target, now or ``at`` a date. Jobs that another suspension covers stay suspended.

    Returns the number of jobs that can run again.
    """
    if not isinstance(target, str):
        database, id = _instance(target, version, tenant_id, using)
        _wait_for_step(database, id)
        return cast(int, activate_jobs(using=database, process_instance_id=str(id), at=at))
    database, scope = _scope(target, version, tenant_id, using)
    moved = activate_jobs(using=database, at=at, **scope)
    assert isinstance(moved, int)
    return moved


def _instance(
    target: ProcessInstance | UUID, version: int | None, tenant_id: str | None, using: str | None
) -> tuple[str, UUID]:
    if version is not None or tenant_id is not None:
        raise InvalidJob("version and tenant_id: expected with the key of a process, not with an instance.")
    return which(target, ProcessInstance, using)


def _wait_for_step(using: str, id: UUID) -> None:
    """Wait until no step of the instance's hierarchy is under way. Raises InstanceOver.

    Suspending and activating have transactions of their own: they lock a suspension and then, page by page, jobs and
    all suspensions that cover them. In one transaction, two operators would meet in two orders.
    """
    with transaction.atomic(using=using):
        root = load.root_of(using, id)
        if root is None or lock.locked(using, root) is None:
            raise InstanceOver(f"The process instance {id} has ended or does not exist.")


def _scope(key: str, version: int | None, tenant: str | None, using: str | None) -> tuple[str, dict[str, Any]]:
    database = using or router.db_for_write(ProcessDefinition)
    if version is not None:
        return database, {"process_definition_id": definitions.version(database, key, version, tenant or "").pk}
    rows = ProcessDefinition.objects.using(database).filter(key=key)
    if tenant is not None:
        rows = rows.filter(tenant_id=tenant)
    if not rows.exists():
        raise definitions.unknown(key, "" if tenant is None else f" for the tenant {tenant!r}")
    scope = {"process_definition_key": key}
    return database, scope if tenant is None else scope | {"tenant_id": tenant}
