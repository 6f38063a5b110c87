"""Topology: clients ask for it at their start, and want to see one broker that leads one partition."""

from __future__ import annotations

import jobexec

from . import gateway_pb2 as pb

#: The release of Zeebe whose interface this is; clients compare it with what they need.
INTERFACE = "8.9.0"


def topology(host: str, port: int) -> pb.TopologyResponse:
    """This gateway as a cluster of one."""
    leader = pb.Partition(partitionId=1, role=pb.Partition.LEADER, health=pb.Partition.HEALTHY)
    return pb.TopologyResponse(
        brokers=[pb.BrokerInfo(nodeId=0, host=host, port=port, partitions=[leader], version=INTERFACE)],
        clusterSize=1,
        partitionsCount=1,
        replicationFactor=1,
        gatewayVersion=INTERFACE,
        clusterId=f"jobexec-{jobexec.__version__}",
    )
