"""GET /topology: this process as the broker that Camunda's clients expect. GET /status, for their probes."""

from __future__ import annotations

import socket
from importlib.metadata import PackageNotFoundError, version

from django.http import HttpRequest, HttpResponse

from jobexec.gateways.auth import REPORTS
from jobexec.gateways.rest.common import json_answer, nothing
from jobexec.gateways.zeebe_format import CONTRACT

from .contract import Property, Response, constant
from .endpoint import Operation, endpoint
from .values import NUMBER, TEXT, nullable

# A broker that leads the only partition.
_PARTITION = Response(
    "Partition",
    partitionId=constant(NUMBER, 1),
    role=constant(TEXT, "leader"),
    health=constant(TEXT, "healthy"),
    state=constant(TEXT, "active"),
)
_BROKER = Response(
    "BrokerInfo",
    nodeId=constant(NUMBER, 0),
    brokerId=constant(TEXT, "0"),
    host=Property(TEXT, lambda request: socket.gethostname()),
    port=Property(NUMBER, lambda request: int(request.get_port())),
    partitions=_PARTITION.several(lambda request: [request]),
    version=Property(TEXT, lambda request: _version()),
)
_TOPOLOGY = Response(
    "TopologyResponse",
    brokers=_BROKER.several(lambda request: [request]),
    clusterId=constant(nullable(TEXT), None),
    clusterSize=constant(NUMBER, 1),
    partitionsCount=constant(NUMBER, 1),
    replicationFactor=constant(NUMBER, 1),
    gatewayVersion=constant(TEXT, CONTRACT),
    lastCompletedChangeId=constant(TEXT, "-1"),
)


@endpoint("work", counts=REPORTS, operation=Operation("getTopology", "Get the topology", gives=_TOPOLOGY))
def topology(request: HttpRequest) -> HttpResponse:
    """GET /topology."""
    return json_answer(_TOPOLOGY.of(request))


@endpoint("work", counts=REPORTS, operation=Operation("getStatus", "Get the status"))
def status(request: HttpRequest) -> HttpResponse:
    """GET /status: any response means that the gateway serves."""
    return nothing()


def _version() -> str:
    try:
        return version("jobexec")
    except PackageNotFoundError:
        return "0"
