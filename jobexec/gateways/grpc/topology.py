"""Topology: clients ask for it at their start, and want to see one broker that leads one partition."""

from __future__ import annotations

import jobexec
from jobexec.gateways.zeebe_format import CONTRACT

from . import gateway_pb2 as pb


def topology(host: str, port: int) -> pb.TopologyResponse:
    """This gateway as a cluster of one."""
    leader = pb.Partition(partitionId=1, role=pb.Partition.LEADER, health=pb.Partition.HEALTHY)
    return pb.TopologyResponse(
        brokers=[pb.BrokerInfo(nodeId=0, host=host, port=port, partitions=[leader], version=CONTRACT)],
        clusterSize=1,
        partitionsCount=1,
        replicationFactor=1,
        gatewayVersion=CONTRACT,
        clusterId=f"jobexec-{jobexec.__version__}",
    )
