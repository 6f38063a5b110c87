"""Calls on a single task: a worker's reports, locks, and its details."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

from django.http import HttpRequest, HttpResponse

from jobexec.exceptions import WrongWorker
from jobexec.gateways.auth import REPORTS, RESULTS
from jobexec.gateways.rest import common
from jobexec.gateways.rest.common import caller_of, database, json_answer, nothing
from jobexec.operations import external
from jobexec.operations.external.types import Caller, Completion

from .bodies import Body, body_of
from .conditions import key_of
from .endpoint import endpoint, guarded, said
from .errors import EngineError, no_such_task, refused
from .queries import one
from .shown import task
from .variables import to_json


# Calls that end a task or extend its lock have separate allowances: if they were refused, the work would be lost.
@guarded("POST", counts=RESULTS)
async def complete(request: HttpRequest, id: str) -> HttpResponse:
    body = body_of(request)
    worker, (variables, local) = body.needed_text("workerId"), _variables(body)
    key, caller = _task(request, id)
    try:
        with said(id):
            await common.complete(request, Completion(key, variables, local, worker, caller=caller))
    except WrongWorker:
        message = "External Task {id} cannot be completed by worker '{worker}'"
        raise await common.with_database(request, _held_by_another, caller, id, worker, message) from None
    return nothing()


@endpoint("POST", counts=REPORTS)
def failure(request: HttpRequest, id: str) -> HttpResponse:
    body = body_of(request)
    worker, (variables, local) = body.needed_text("workerId"), _variables(body)
    retries = body.integer("retries", 0, least=0) or 0
    back_off = body.milliseconds("retryTimeout") if body.has("retryTimeout") else timedelta(0)
    message = "Failure of External Task {id} cannot be reported by worker '{worker}'"
    with _about(request, id, worker, message) as (key, caller):
        external.fail_external_job(
            database(),
            key,
            retries=retries,
            message=body.text("errorMessage") or "",
            details=body.text("errorDetails") or "",
            back_off=back_off,
            variables=variables,
            local_variables=local,
            worker=worker,
            caller=caller,
        )
    return nothing()


@endpoint("POST", counts=RESULTS)
def bpmn_error(request: HttpRequest, id: str) -> HttpResponse:
    body = body_of(request)
    worker, code = body.needed_text("workerId"), body.needed_text("errorCode")
    variables, _ = _variables(body)
    message = "Bpmn error of External Task {id} cannot be reported by worker '{worker}'"
    with _about(request, id, worker, message) as (key, caller):
        external.throw_external_error(
            database(),
            key,
            code=code,
            message=body.text("errorMessage") or "",
            variables=variables,
            worker=worker,
            caller=caller,
        )
    return nothing()


@endpoint("POST", counts=REPORTS)
def extend_lock(request: HttpRequest, id: str) -> HttpResponse:
    body = body_of(request)
    worker, duration = body.needed_text("workerId"), body.milliseconds("newDuration", least=1)
    message = "The lock of the External Task {id} cannot be extended by worker '{worker}'"
    with _about(request, id, worker, message) as (key, caller):
        external.extend_external_deadline(database(), key, duration, worker=worker, caller=caller)
    return nothing()


@endpoint("POST")
def lock(request: HttpRequest, id: str) -> HttpResponse:
    body = body_of(request)
    worker, duration = body.needed_text("workerId"), body.milliseconds("lockDuration", least=1)
    with _about(request, id, worker, "External Task {id} cannot be locked by worker '{worker}'") as (key, caller):
        external.lock_external_job(database(), key, worker, duration, caller=caller)
    return nothing()


@endpoint("POST", counts=REPORTS)
def unlock(request: HttpRequest, id: str) -> HttpResponse:
    with _about(request, id, "", "") as (key, caller):
        external.unlock_external_job(database(), key, caller=caller)
    return nothing()


@endpoint("GET", permission="search")
def show(request: HttpRequest, id: str) -> HttpResponse:
    return json_answer(task(one(database(), caller_of(request), id)))


@endpoint("GET", permission="search")
def error_details(request: HttpRequest, id: str) -> HttpResponse:
    """The details of the last failure as text; 204 if there are none."""
    details = one(database(), caller_of(request), id, "exception_stack").exception_stack
    return HttpResponse(details, content_type="text/plain") if details else nothing()


def _variables(body: Body) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
    names = ("variables", "localVariables")
    outer, local = (to_json(body.mapping(name), name) for name in names)
    return outer, local


@contextmanager
def _about(request: HttpRequest, id: str, worker: str, message: str) -> Iterator[tuple[int, Caller]]:
    """Yield the task's key and the caller. ``message`` is the error for a worker that does not hold the lock."""
    key, caller = _task(request, id)
    try:
        with said(id):
            yield key, caller
    except WrongWorker:
        raise _held_by_another(caller, id, worker, message) from None


def _task(request: HttpRequest, id: str) -> tuple[int, Caller]:
    """The key for an id, and the caller. Raises EngineError."""
    key = key_of(id)
    if key is None:
        raise no_such_task(id)
    return key, caller_of(request)


def _held_by_another(caller: Caller, id: str, worker: str, message: str) -> EngineError:
    owner = one(database(), caller, id).lock_owner
    refusal = message.format(id=id, worker=worker)
    return refused(f"{refusal}. It is locked by worker '{'null' if owner is None else owner}'.")
