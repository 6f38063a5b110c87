"""Find inconsistent rows of processes. The rows that a step leaves are always consistent."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple, TypeVar
from uuid import UUID

from django.db import router
from django.db.models import Model, QuerySet

from jobexec.identifiers import as_id
from jobexec.models import JOB_TABLES, Batch, Job

from ..engine.rows import AT_JOBS, State
from ..models import EventSubscription, Execution, ProcessInstance, UserTask, Variable
from ..models.instance import RUNNING

_PAGE = 500
T = TypeVar("T")


class Discrepancy(NamedTuple):
    """One inconsistent row, with the reason. ``instance`` is its process instance."""

    instance: UUID
    message: str


def check(*, using: str | None = None) -> list[Discrepancy]:
    """All discrepancies. Rows that a running step is changing may be among them: check twice."""
    database = using or router.db_for_write(ProcessInstance)
    looks = (_tokens_without_jobs, _jobs_without_tokens, _of_nobody, _of_ended, _empty_scopes, _stuck_at_joins)
    return [each for look in looks for each in look(database)]


def _tokens_without_jobs(using: str) -> Iterator[Discrepancy]:
    states = [state.value for state in AT_JOBS]
    rows = Execution.objects.using(using).filter(state__in=states).order_by("pk")
    for page in _pages(rows.values_list("instance_id", "element_id", "job_id")):
        ids = [job for *_, job in page if job is not None]
        found = set(Batch.objects.using(using).filter(pk__in=ids).values_list("pk", flat=True))
        for table in JOB_TABLES:
            found |= set(table._base_manager.using(using).filter(pk__in=ids).values_list("pk", flat=True))
        for instance, element, job in page:
            if job not in found:
                yield Discrepancy(
                    instance, f"The execution at {element} waits for the job {job}, which does not exist."
                )


def _jobs_without_tokens(using: str) -> Iterator[Discrepancy]:
    """What runs, or is about to, finds out by itself that its token is gone."""
    for table in JOB_TABLES:
        if table is Job:
            continue
        rows = table._base_manager.using(using).filter(lock_owner=None).exclude(execution_id="")
        columns = ("process_instance_id", "execution_id", "failed_activity_id", "pk")
        for page in _pages(rows.order_by("pk").values_list(*columns)):
            owners = {owner: id for _, owner, *_ in page if (id := as_id(owner)) is not None}
            instances = {id for instance, *_ in page if (id := as_id(instance)) is not None}
            ours = set(ProcessInstance.objects.using(using).filter(pk__in=instances).values_list("pk", flat=True))
            known = set(Execution.objects.using(using).filter(pk__in=owners.values()).values_list("pk", flat=True))
            running = ProcessInstance.objects.using(using).filter(pk__in=set(owners.values()) - known)
            known |= set(running.filter(state__in=RUNNING).values_list("pk", flat=True))
            for instance, owner, element, pk in page:
                of = as_id(instance)
                if of in ours and owners.get(owner) not in known:
                    yield Discrepancy(of, f"The job {pk} at {element} belongs to {owner}, which is gone.")


def _of_nobody(using: str) -> Iterator[Discrepancy]:
    """Subscriptions, user tasks and variables whose execution or instance is gone."""
    kinds: tuple[tuple[type[Model], str, str], ...] = (
        (EventSubscription, "owner_id", "The subscription"),
        (UserTask, "owner_id", "The user task"),
        (Variable, "scope_id", "The variable"),
    )
    for model, column, named in kinds:
        rows = model._base_manager.using(using).exclude(instance_id=None).order_by("pk")
        for page in _pages(rows.values_list("instance_id", column, "pk")):
            owners = {owner for _, owner, _ in page}
            known = set(Execution.objects.using(using).filter(pk__in=owners).values_list("pk", flat=True))
            running = ProcessInstance.objects.using(using).filter(pk__in=owners - known, state__in=RUNNING)
            known |= set(running.values_list("pk", flat=True))
            for instance, owner, pk in page:
                if owner not in known:
                    yield Discrepancy(instance, f"{named} {pk} belongs to {owner}, which is gone.")


def _of_ended(using: str) -> Iterator[Discrepancy]:
    rows = Execution.objects.using(using).order_by("pk").values_list("instance_id", "element_id")
    for page in _pages(rows):
        instances = {instance for instance, _ in page}
        running = ProcessInstance.objects.using(using).filter(pk__in=instances, state__in=RUNNING)
        gone = instances - set(running.values_list("pk", flat=True))
        for instance, element in page:
            if instance in gone:
                yield Discrepancy(instance, f"The execution at {element} belongs to an instance that has ended.")


def _empty_scopes(using: str) -> Iterator[Discrepancy]:
    scopes = Execution.objects.using(using).filter(state=State.SCOPE.value).order_by("pk")
    for page in _pages(scopes.values_list("instance_id", "element_id", "pk")):
        ids = [pk for *_, pk in page]
        full = set(Execution.objects.using(using).filter(parent_id__in=ids).values_list("parent_id", flat=True))
        for instance, element, pk in page:
            if pk not in full:
                yield Discrepancy(instance, f"Nothing is left in the scope at {element}, and it has not ended.")
    running = ProcessInstance.objects.using(using).filter(state__in=RUNNING).order_by("pk")
    for instances in _pages(running.values_list("pk", flat=True)):
        found = Execution.objects.using(using).filter(instance_id__in=instances)
        standing = set(found.values_list("instance_id", flat=True))
        for pk in instances:
            if pk not in standing:
                yield Discrepancy(pk, "The instance is running, but has no execution.")


def _stuck_at_joins(using: str) -> Iterator[Discrepancy]:
    """Instances in which all executions have arrived at joins: there is none left that a join could wait for."""
    rows = Execution.objects.using(using)
    arrived = rows.filter(state=State.JOINED.value).order_by("instance_id")
    for page in _pages(arrived.values_list("instance_id", flat=True).distinct()):
        still = (State.JOINED.value, State.SCOPE.value, State.COMPENSABLE.value)
        others = rows.filter(instance_id__in=page).exclude(state__in=still)
        moving = set(others.values_list("instance_id", flat=True))
        for instance in page:
            if instance not in moving:
                yield Discrepancy(
                    instance, "All of its executions have arrived at joins, and no other execution can arrive."
                )


def _pages(rows: QuerySet[Any, T]) -> Iterator[list[T]]:
    page: list[T] = []
    for row in rows.iterator(chunk_size=_PAGE):
        page.append(row)
        if len(page) == _PAGE:
            yield page
            page = []
    if page:
        yield page
