"""A port of its own for HTTP, answered from a thread: probes, metrics."""

from __future__ import annotations

import socket
from collections.abc import Callable
from socketserver import TCPServer
from typing import Any

from jobexec.exceptions import NodeRefused

from .service import Service, is_alive, spawn


class HttpPort(Service):
    """Serves what ``make`` makes, from :meth:`start` to :meth:`stop`.

    ``option`` is by what the command line names the port, for messages; ``thread`` names its thread. Port 0 takes any
    that is free. Raises NodeRefused if it cannot listen there.
    """

    def __init__(self, option: str, thread: str, host: str, port: int, make: Callable[[], TCPServer]) -> None:
        try:
            self._server = make()
        except OSError as error:
            reason = error.strerror or str(error)
            raise NodeRefused(f"{option} {port}: cannot listen on {host!r}: {reason}.") from error
        self._name = thread
        self._thread: Any = None

    @property
    def url(self) -> str:
        """Where it answers."""
        host, port = self._server.server_address[:2]
        return f"http://[{host!s}]:{port}" if ":" in str(host) else f"http://{host!s}:{port}"

    def start(self) -> None:
        if self._thread is None:
            self._thread = spawn(self._name, lambda: self._server.serve_forever(poll_interval=0.2))

    def stop(self, timeout: float = 2.0) -> bool:
        if is_alive(self._thread):
            self._server.shutdown()
            self._thread.join(timeout)
        self._server.server_close()
        return not is_alive(self._thread)


def place_of(host: str, port: int) -> tuple[Any, Any]:
    """The family of addresses and the address to listen on."""
    family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
    return family, address[:2]
