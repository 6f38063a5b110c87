"""The open streams, in the format of Zeebe's ``/actuator/jobstreams``."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from jobexec.gateways import worker_registry
from jobexec.gateways.worker_registry.writing import database, gateway_name
from jobexec.models import ExternalWorker
from jobexec.operations.reports.worker_table import PRESENT_FOR
from jobexec.operations.sql.server_time import time_of

#: The ids of the brokers that a gateway is connected to; the database acts as the only one.
_BROKERS = [0]
_MOST = 1000
_METADATA = ("timeout", "fetchVariables", "tenantIds", "tenantFilter")


@dataclass(frozen=True, slots=True)
class OpenStream:
    """A worker's stream at any gateway."""

    type: str
    id: str
    gateway: str
    metadata: dict[str, Any]


def open_streams(using: str | None = None) -> list[OpenStream]:
    """The current streams of this process, and those of all others as last written to the table, seconds ago."""
    own = gateway_name()
    return [*_of_this_process(own), *_of_others(using or database(), own)]


def _of_this_process(gateway: str) -> Iterator[OpenStream]:
    for sight in worker_registry.registry.sights():
        for stream in sight.streams.values():
            yield _stream(sight.key.type, sight.key.worker, gateway, stream.as_dict())


def _of_others(using: str, own: str) -> Iterator[OpenStream]:
    rows = ExternalWorker.objects.using(using).filter(last_seen__gte=time_of(using) - PRESENT_FOR, streams__gt=0)
    names = ("type", "worker", "gateway", "open_streams")
    for type, worker, gateway, streams in rows.exclude(gateway=own).order_by("pk").values_list(*names)[:_MOST]:
        for stream in streams:
            yield _stream(type, worker, gateway, stream)


def _stream(type: str, worker: str, gateway: str, said: dict[str, Any]) -> OpenStream:
    metadata = {"worker": worker, **{name: said.get(name) for name in _METADATA}}
    return OpenStream(type, str(said.get("id", "")), gateway, metadata)


def client_streams(streams: list[OpenStream]) -> list[dict[str, Any]]:
    """Each stream at the gateways as a separate item."""
    return [
        {"jobType": each.type, "id": each.id, "metadata": each.metadata, "connectedTo": _BROKERS} for each in streams
    ]


def remote_streams(streams: list[OpenStream]) -> list[dict[str, Any]]:
    """The streams as a broker sees them: equal ones are a single stream with several consumers."""
    found: dict[tuple[str, str], dict[str, Any]] = {}
    for each in streams:
        key = each.type, json.dumps(each.metadata, sort_keys=True)
        stream = found.setdefault(key, {"jobType": each.type, "metadata": each.metadata, "consumers": []})
        stream["consumers"].append({"id": each.id, "receiver": each.gateway})
    return list(found.values())
