"""Topology: clients request it when they start, and expect a broker that leads a partition."""

from __future__ import annotations

import jobexec
from jobexec.gateways.zeebe_format import CONTRACT

from . import gateway_pb2 as pb


def topology(host: str, port: int) -> pb.TopologyResponse:
    """Describe this gateway as a cluster with a single broker."""
    leader = pb.Partition(partitionId=1, role=pb.Partition.LEADER, health=pb.Partition.HEALTHY)
    return pb.TopologyResponse(
        brokers=[pb.BrokerInfo(nodeId=0, host=host, port=port, partitions=[leader], version=CONTRACT)],
        clusterSize=1,
        partitionsCount=1,
        replicationFactor=1,
        gatewayVersion=CONTRACT,
        clusterId=f"jobexec-{jobexec.__version__}",
    )
