"""A network connection between an executor and its database that a test can cut and repair."""

import contextlib
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


class Proxy:
    """Forward a TCP port of its own to a server's address: a (host, port) or the path of a Unix socket.

    ``listener`` is a listening socket to use instead, for example of another network.
    """

    def __init__(self, server: tuple[str, int] | str, listener: socket.socket | None = None) -> None:
        self._server = server
        self._lock = threading.Lock()
        self._open: set[socket.socket] = set()
        self._whole = True
        self._listener = listener or socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self.connections = 0
        self._thread = threading.Thread(target=self._accept, daemon=True, name="proxy")
        self._thread.start()

    def cut(self) -> None:
        """Break all connections and refuse new ones."""
        with self._lock:
            self._whole = False
            for each in self._open:
                with contextlib.suppress(OSError):
                    each.shutdown(socket.SHUT_RDWR)

    def repair(self) -> None:
        with self._lock:
            self._whole = True

    def close(self) -> None:
        self.cut()
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)  # closing a socket does not end a blocking accept()
        self._listener.close()
        self._thread.join(10)

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            with self._lock:
                if not self._whole:
                    client.close()
                    continue
                try:
                    server = self._connect()
                except OSError:
                    client.close()
                    continue
                self._open |= {client, server}
                self.connections += 1
            for pair in ((client, server), (server, client)):
                threading.Thread(target=self._forward, args=pair, daemon=True).start()

    def _connect(self) -> socket.socket:
        if isinstance(self._server, str):
            server = socket.socket(socket.AF_UNIX)
            server.connect(self._server)
            return server
        return socket.create_connection(self._server, timeout=None)

    def _forward(self, source: socket.socket, target: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                target.sendall(data)
        with contextlib.suppress(OSError):
            target.shutdown(socket.SHUT_RDWR)
        with self._lock:
            self._open -= {source, target}
        source.close()


@contextmanager
def in_front_of(address: dict[str, Any], listener: socket.socket | None = None) -> Iterator[Proxy]:
    """Run a proxy in front of a database given as Django settings; `moved()` returns settings that use it."""
    host, port = str(address["HOST"]), int(address["PORT"] or 5432)
    proxy = Proxy(f"{host}/.s.PGSQL.{port}" if host.startswith("/") else (host, port), listener)
    try:
        yield proxy
    finally:
        proxy.close()


def moved(address: dict[str, Any], proxy: Proxy) -> dict[str, Any]:
    """Return the same settings with the address of the proxy."""
    return {**address, "HOST": "127.0.0.1", "PORT": str(proxy.port)}
