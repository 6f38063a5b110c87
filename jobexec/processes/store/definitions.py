"""Definitions as the engine needs them, kept by each process."""

from __future__ import annotations

import json
from collections.abc import Collection
from functools import lru_cache
from typing import Any

from django.db.models import Q
from django.utils.translation import gettext_noop

from ..definition import Binding, Kind, Process, from_json
from ..engine.environment import Called
from ..exceptions import UnknownProcess
from ..models import ProcessDefinition

#: The property of a definition that was written in Python.
FLOW = "flow"
#: The variable of a flow with the arguments of its steps that are known when it starts.
CALLS = "calls"
#: At the end of the names of variables of a flow that keep a join from going on without what has failed.
MISSED = "$missed"
#: Rows whose files say that users do not start them (``isStartableInTasklist``), and how long their history is kept
#: (``historyTimeToLive``), by the JSON of :func:`to_json`. A text in a file that reads the same has escaped quotes.
NOT_STARTABLE = Q(model__contains='"startable": false')
KEEPS_HISTORY = Q(model__contains='"history_ttl": ')
#: Definitions that a process keeps.
_KEPT = 1_000


def process(using: str, id: str) -> Process:
    """The definition with this id; its row never changes. Raises ProcessDefinition.DoesNotExist."""
    return _read(using, id)[0]


def code_of(using: str, id: str) -> dict[str, str]:
    """The column of its jobs that names the code which has deployed it; none for a flow, and without a deployment.

    The jobs of a flow, whose shape all versions of the code share, are of the deployment that takes the step.
    """
    code = _read(using, id)[1]
    return {"deployment_id": code} if code else {}


def is_internal(process: Process, name: str) -> bool:
    """Whether a variable is what a flow has for itself, and neither a result nor of its caller."""
    return bool(process.properties.get(FLOW)) and (name == CALLS or name.endswith(MISSED))


def needing(using: str, deployments: Collection[str]) -> dict[str, str]:
    """Which of these deployments definitions name, with the reason to keep them."""
    rows = ProcessDefinition.objects.using(using).filter(code_deployment__in=deployments)
    found = rows.values_list("code_deployment", flat=True).distinct()
    return dict.fromkeys(found, gettext_noop("process definitions refer to it"))


def forget() -> None:
    """Forget the definitions that this process keeps: their rows have been deleted."""
    _read.cache_clear()


@lru_cache(maxsize=_KEPT)
def _read(using: str, id: str) -> tuple[Process, str]:
    model, code = ProcessDefinition.objects.using(using).values_list("model", "code_deployment").get(pk=id)
    return from_json(json.loads(model)), code


@lru_cache(maxsize=_KEPT)
def number(using: str, id: str) -> tuple[int | None, int | None]:
    """The number and the version of a definition; None for the shape of a flow."""
    row: Any = ProcessDefinition.objects.using(using).filter(pk=id).values_list("number", "version").first()
    return row or (None, None)


def latest(using: str, key: str, tenant: str = "") -> ProcessDefinition:
    """The latest version of a deployed process: that of the tenant, else that of no tenant. Raises UnknownProcess."""
    return _found(using, key, tenant, {}, "")


def resolve(using: str, tenant: str, called: Called) -> str:
    """The id of the definition that a call activity means. Raises UnknownProcess."""
    if called.binding is Binding.VERSION:
        return _found(using, called.key, tenant, {"version": int(called.version)}, f" in version {called.version}").pk
    if called.binding is Binding.VERSION_TAG:
        tag = str(called.version)
        return _found(using, called.key, tenant, {"version_tag": tag}, f" with version tag {tag!r}").pk
    if called.binding is Binding.DEPLOYMENT:
        caller = ProcessDefinition.objects.using(using).filter(pk=called.caller_definition)
        deployment = caller.values_list("deployment_id", flat=True).first()
        return _found(using, called.key, tenant, {"deployment_id": deployment}, " in the deployment of its caller").pk
    return latest(using, called.key, tenant).pk


def _found(using: str, key: str, tenant: str, which: dict[str, Any], told: str) -> ProcessDefinition:
    # The model may be long, and :func:`process` keeps it.
    rows = ProcessDefinition.objects.using(using).filter(key=key, version__isnull=False, **which).defer("model")
    # The tenant's own comes first; '' sorts before every name.
    found = rows.filter(tenant_id__in={tenant, ""}).order_by("-tenant_id", "-version").first()
    if found is None:
        if ProcessDefinition.objects.using(using).filter(key=key, version=None, tenant_id__in={tenant, ""}).exists():
            raise UnknownProcess(f"{key!r} is a flow: only the Python code that describes it can start it.")
        raise unknown(key, told)
    return found


def unknown(key: str, told: str = "") -> UnknownProcess:
    """The error for a key under which there is nothing."""
    return UnknownProcess(f"No process {key!r} is deployed{told}.")


@lru_cache(maxsize=_KEPT)
def results_of(using: str, id: str) -> frozenset[str]:
    """In a flow: the names of results, and of what tells of failures, which are None until they are there.

    In a file's process: none.
    """
    found = process(using, id)
    if not found.properties.get(FLOW):
        return frozenset()
    results = {node.id for node in found.nodes if node.kind in (Kind.SERVICE_TASK, Kind.RECEIVE_TASK)}
    told = {each.target for node in found.nodes if node.kind is Kind.BOUNDARY_EVENT for each in node.outputs}
    return frozenset(results | {name for name in told if name is not None})


def version(using: str, key: str, number: int | None, tenant: str = "") -> ProcessDefinition:
    """A version of a deployed process; None means the latest. Raises UnknownProcess."""
    if number is None:
        return latest(using, key, tenant)
    return _found(using, key, tenant, {"version": number}, f" in version {number}")
