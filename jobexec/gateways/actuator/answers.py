"""The actuator's responses, for the Django views and for a gateway's own port."""

from __future__ import annotations

import json
import logging
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

from django.db import DatabaseError, InterfaceError, connections

from jobexec.gateways.worker_registry.writing import database
from jobexec.operations.sql.errors import one_line

from .streams import client_streams, open_streams, remote_streams

logger = logging.getLogger("jobexec.gateway")

_JSON = "application/json"


@dataclass(frozen=True, slots=True)
class Answer:
    """An HTTP response."""

    status: int
    content_type: str
    body: bytes


def as_json(document: Any, status: int = HTTPStatus.OK) -> Answer:
    """Build a JSON response."""
    return Answer(int(status), _JSON, json.dumps(document).encode())


def job_streams(which: str = "") -> Answer:
    """All streams, or only ``client`` (each stream at the gateways) or ``remote`` (equal streams combined)."""
    made = {"client": client_streams, "remote": remote_streams}
    if which and which not in made:
        return as_json({"error": f"expected one of client, remote, got {which!r}"}, HTTPStatus.BAD_REQUEST)
    try:
        streams = open_streams()
    except (DatabaseError, InterfaceError) as error:
        logger.warning("Could not read the streams of other gateways: %s", one_line(error))
        return as_json({"error": "the database does not answer"}, HTTPStatus.SERVICE_UNAVAILABLE)
    if which:
        return as_json(made[which](streams))
    return as_json({"remote": remote_streams(streams), "client": client_streams(streams)})


def health() -> Answer:
    """Report whether the gateway's database answers."""
    try:
        with connections[database()].cursor() as cursor:
            cursor.execute("SELECT 1")
            cursor.fetchone()
    except (DatabaseError, InterfaceError):
        return as_json({"status": "DOWN"}, HTTPStatus.SERVICE_UNAVAILABLE)
    return as_json({"status": "UP"})


def metrics(accept: str = "") -> Answer:
    """The metrics of this process."""
    try:
        from prometheus_client.exposition import choose_encoder

        from .collector import gateway_registry
    except ImportError:
        text = "The metrics need prometheus_client: install jobexec with the extra 'metrics'."
        return as_json({"error": text}, HTTPStatus.NOT_IMPLEMENTED)
    encode, content_type = choose_encoder(accept)
    return Answer(int(HTTPStatus.OK), content_type, encode(gateway_registry()))
