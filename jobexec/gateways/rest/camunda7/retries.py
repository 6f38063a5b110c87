"""Set retries and priorities of a single task or of many."""

from __future__ import annotations

from collections.abc import Iterator
from math import ceil
from typing import Any
from uuid import UUID

from django.http import HttpRequest, HttpResponse

from jobexec.conf import get_settings
from jobexec.gateways.asks import MOST_VALUES
from jobexec.gateways.auth import client_of
from jobexec.gateways.rest.common import caller_of, database, json_answer, nothing
from jobexec.models import Batch
from jobexec.operations import external
from jobexec.operations.batches.control import start_batch
from jobexec.operations.external.types import Caller
from jobexec.operations.manage.adjust import set_retries
from jobexec.operations.manage.dead_letters import move_to_dead_letter
from jobexec.operations.targets.for_each import OperationResult

from .bodies import Body, body_of
from .conditions import key_of
from .endpoint import endpoint, said
from .errors import EngineError, invalid, no_such_task, refused
from .queries import MOST, TaskQuery, one
from .times import shown

_NONE_LEFT = "An operator has set its retries to 0."
#: Camunda's further ways to select tasks, which are not supported.
_QUERIES_OF_PROCESSES = ("processInstanceQuery", "historicProcessInstanceQuery")
_WAYS = "externalTaskIds, processInstanceIds or externalTaskQuery"


@endpoint("PUT", permission="update")
def of_one(request: HttpRequest, id: str) -> HttpResponse:
    """Set the retries. A task that had none left can be fetched again; with 0 the task becomes an incident."""
    number = _number(body_of(request), "RestException")
    row = one(database(), caller_of(request), id)
    with said(id):
        result = _set([row.pk], number)
    if result.skipped:
        raise refused(f"External task with id {id}: {next(iter(result.skipped.values()))}")
    return nothing()


@endpoint("PUT", permission="update")
def priority(request: HttpRequest, id: str) -> HttpResponse:
    value, key = body_of(request).integer("priority"), key_of(id)
    if value is None:
        raise EngineError(400, "RestException", "The priority cannot be null.")
    if key is None:
        raise no_such_task(id)
    with said(id):
        external.set_external_priority(database(), key, value, caller=caller_of(request))
    return nothing()


@endpoint("PUT", permission="update")
def of_many(request: HttpRequest) -> HttpResponse:
    """Set the retries of many tasks synchronously; locked tasks keep theirs if the new number is 0."""
    body = body_of(request)
    number = _number(body, "InvalidRequestException")
    _set(_chosen(body, caller_of(request)), number)
    return nothing()


@endpoint("POST", permission="update")
def of_many_later(request: HttpRequest) -> HttpResponse:
    """Set the retries of any number of tasks in a batch."""
    body, caller = body_of(request), caller_of(request)
    number = _number(body, "InvalidRequestException")
    operation, arguments = ("set_retries", {"retries": number}) if number else ("move_to_dead_letter", _WHY)
    chosen = _chosen(body, caller)
    batch = start_batch(operation, chosen, arguments=arguments, using=database(), user=client_of(request).user_name)
    return json_answer(_batch(batch, len(chosen)))


_WHY = {"reason": _NONE_LEFT}


def _set(target: list[Any], number: int) -> OperationResult:
    if number:
        return set_retries(target, number, using=database())
    return move_to_dead_letter(target, _NONE_LEFT, using=database())


def _number(body: Body, type: str) -> int:
    number = body.integer("retries", least=0)
    if number is None:
        raise EngineError(400, type, "The number of retries cannot be null.")
    return number


def _chosen(body: Body, caller: Caller) -> list[UUID]:
    """The tasks that the body selects in any of the three ways, without duplicates."""
    for name in _QUERIES_OF_PROCESSES:
        if body.has(name):
            raise invalid(f"{name}: is not supported; expected {_WAYS}.")
    chosen: dict[UUID, None] = {}
    ids, instances = (body.texts(name, most=MOST) for name in ("externalTaskIds", "processInstanceIds"))
    if ids:
        chosen |= dict.fromkeys(_named(ids, caller))
    if instances:
        queries = _queries("processInstanceIdIn", instances, caller)
        chosen |= dict.fromkeys(pk for query in queries for pk in query.ids())
    if body.has("externalTaskQuery"):
        query = Body(body.mapping("externalTaskQuery"), "externalTaskQuery.")
        chosen |= dict.fromkeys(TaskQuery(database(), caller, query).ids())
    if not chosen:
        raise invalid(f"externalTaskIds is empty: expected {_WAYS} that name at least one task.")
    return list(chosen)


def _named(ids: list[str], caller: Caller) -> list[UUID]:
    found: dict[str, UUID] = {}
    for query in _queries("externalTaskIdIn", ids, caller):
        found |= query.ids_by_key()
    for id in ids:
        if id not in found:
            raise EngineError(404, "InvalidRequestException", f"Cannot find external task with id {id}")
    return [found[id] for id in ids]


def _queries(name: str, values: list[str], caller: Caller) -> Iterator[TaskQuery]:
    """Queries for the values, each with as many as a query accepts."""
    for start in range(0, len(values), MOST_VALUES):
        yield TaskQuery(database(), caller, Body({name: values[start : start + MOST_VALUES]}))


def _batch(batch: Batch, tasks: int) -> dict[str, Any]:
    """A batch that has just been started, in Camunda's format."""
    settings = get_settings()
    return {
        "id": str(batch.pk),
        "type": "set-external-task-retries",
        "totalJobs": ceil(tasks / settings.invocations_per_batch_job),
        "jobsCreated": 0,
        "batchJobsPerSeed": settings.batch_jobs_per_seed,
        "invocationsPerBatchJob": settings.invocations_per_batch_job,
        "seedJobDefinitionId": None,
        "monitorJobDefinitionId": None,
        "batchJobDefinitionId": None,
        "suspended": False,
        "tenantId": batch.tenant_id or None,
        "createUserId": batch.create_user or None,
        "startTime": shown(batch.create_time),
        "executionStartTime": None,
    }
