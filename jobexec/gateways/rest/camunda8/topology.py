"""GET /topology: this process as the broker that Camunda's clients expect. GET /status, for their probes."""

from __future__ import annotations

import socket
from importlib.metadata import PackageNotFoundError, version

from django.http import HttpRequest, HttpResponse

from jobexec.gateways.auth import REPORTS
from jobexec.gateways.rest.common import json_answer, nothing
from jobexec.gateways.zeebe_format import CONTRACT

from .endpoint import endpoint


@endpoint("work", counts=REPORTS)
def topology(request: HttpRequest) -> HttpResponse:
    """Describe a broker that leads the only partition."""
    partition = {"partitionId": 1, "role": "leader", "health": "healthy", "state": "active"}
    broker = {
        "nodeId": 0,
        "brokerId": "0",
        "host": socket.gethostname(),
        "port": int(request.get_port()),
        "partitions": [partition],
        "version": _version(),
    }
    return json_answer(
        {
            "brokers": [broker],
            "clusterId": None,
            "clusterSize": 1,
            "partitionsCount": 1,
            "replicationFactor": 1,
            "gatewayVersion": CONTRACT,
            "lastCompletedChangeId": "-1",
        }
    )


@endpoint("work", counts=REPORTS)
def status(request: HttpRequest) -> HttpResponse:
    """GET /status: any response means that the gateway serves."""
    return nothing()


def _version() -> str:
    try:
        return version("jobexec")
    except PackageNotFoundError:
        return "0"
