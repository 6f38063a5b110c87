"""The processes beside the executors, which are nodes as everywhere: workers and gateways."""

import socket

from tests.chaos.nodes import Node


class Worker(Node):
    """A worker; each process of it has a name of its own, which ends with its number."""

    command = ("-m", "tests.chaos.outside.worker")


class Gateway(Node):
    """A gateway; it comes back at the same port."""

    command = ("-m", "tests.chaos.outside.gateway")


def free_ports(names: tuple[str, ...]) -> dict[str, int]:
    """A port for each name, which nobody has just now."""
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in names]
    ports = {name: each.getsockname()[1] for name, each in zip(names, sockets, strict=True)}
    for each in sockets:
        each.close()
    return ports


def answers(port: int) -> bool:
    """Whether somebody listens there."""
    with socket.socket() as probe:
        probe.settimeout(1)
        return probe.connect_ex(("127.0.0.1", port)) == 0
