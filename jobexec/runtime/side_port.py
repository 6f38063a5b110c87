"""A separate HTTP port, served by a thread: probes, metrics."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from socketserver import TCPServer
from typing import Any

from jobexec import clock
from jobexec.exceptions import NodeRefused

from .threads import Service, is_alive, spawn


class HttpPort(Service):
    """Runs the server returned by ``make``, from :meth:`start` to :meth:`stop`.

    ``option`` is the command line option of the port, for messages; ``thread`` names its thread. Port 0 takes any free
    one. Raises NodeRefused if it cannot listen there.
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
        """The address of the server."""
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


class BoundedServer(TCPServer):
    """Answers each request in its own thread, within ``deadline`` seconds, and ``most`` of them at a time.

    A client that sends a byte a second, on however many connections, does not block others: the oldest connection is
    closed for a new one.
    """

    allow_reuse_address = True  # the connections of a process before us may linger; a second listener is refused
    deadline = 2.0
    most = 16

    def __init__(self, *arguments: Any) -> None:
        self._open: dict[Any, float] = {}
        self._changed = threading.Lock()
        super().__init__(*arguments)

    def process_request(self, request: Any, client_address: Any) -> None:
        with self._changed:
            for oldest in list(self._open)[: max(0, len(self._open) - self.most + 1)]:
                self._end(oldest)
            self._open[request] = clock.monotonic()
        spawn("jobexec-http-request", lambda: self._answer(request, client_address))

    def _answer(self, request: Any, client_address: Any) -> None:
        try:
            self.finish_request(request, client_address)
        except Exception:
            self.handle_error(request, client_address)
        finally:
            with self._changed:
                self._open.pop(request, None)
            self.shutdown_request(request)

    def service_actions(self) -> None:
        """Called about five times a second: end requests that take too long."""
        with self._changed:
            for request, since in list(self._open.items()):
                if clock.monotonic() - since > self.deadline:
                    self._end(request)

    def _end(self, request: Any) -> None:
        del self._open[request]
        with suppress(OSError):  # its thread reads the end, and closes it
            request.shutdown(socket.SHUT_RDWR)


def place_of(host: str, port: int) -> tuple[Any, Any]:
    """The address family and the address to listen on."""
    family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
    return family, address[:2]
