"""Hosts on a network of the test's own: Linux network namespaces on a bridge. The machine's network is not changed.

with network("a", "b") as net:
    net.listener()                  # a listening socket on the database's host, which is where the bridge is
    [*net.inside("a"), "command"]   # runs the command on host a
    net.cut("a"); net.join("a")     # silently: packets vanish without an error
"""

import contextlib
import ctypes
import os
import shutil
import socket
import subprocess
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

#: Addresses for documentation (RFC 5737), which lead nowhere outside the namespaces.
SERVER = "192.0.2.1"
_HOST = "192.0.2.{}"
_CLONE_NEWNET = 0x40000000


def _program() -> str:
    found = shutil.which("ip", path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin")
    if found is None:
        pytest.skip("there is no ip (package iproute2)")
    return found


class Network:
    """A network of hosts; use `network()`, which cleans up."""

    def __init__(self) -> None:
        self._ip = _program()
        self._made: list[str] = []
        self._hosts: dict[str, int] = {}
        self._server = self._name("db")

    def _name(self, host: str) -> str:
        return f"jobexec-{os.getpid()}-{host}"

    def _run(self, *arguments: str) -> None:
        done = subprocess.run([self._ip, *arguments], capture_output=True, text=True, timeout=30, check=False)
        if done.returncode:
            raise OSError(f"ip {' '.join(arguments)}: {done.stderr.strip()}")

    def _add_namespace(self, name: str) -> None:
        self._run("netns", "add", name)
        self._made.append(name)
        self._run("-n", name, "link", "set", "lo", "up")

    def build(self, hosts: tuple[str, ...]) -> None:
        """Create the bridge and the hosts on it. Raises OSError where the system does not allow it."""
        self._sweep()
        self._add_namespace(self._server)
        self._run("-n", self._server, "link", "add", "br0", "type", "bridge")
        self._run("-n", self._server, "addr", "add", f"{SERVER}/24", "dev", "br0")
        self._run("-n", self._server, "link", "set", "br0", "up")
        for number, host in enumerate(hosts, 11):
            self._add_host(host, number)

    def _add_host(self, host: str, number: int) -> None:
        name, port = self._name(host), f"port{number}"
        self._add_namespace(name)
        self._hosts[host] = number
        # Both ends are created inside the namespaces.
        self._run("link", "add", "eth0", "netns", name, "type", "veth", "peer", "name", port, "netns", self._server)
        self._run("-n", self._server, "link", "set", port, "master", "br0", "up")
        self._run("-n", name, "addr", "add", f"{_HOST.format(number)}/24", "dev", "eth0")
        self._run("-n", name, "link", "set", "eth0", "up")

    def _sweep(self) -> None:
        """Delete namespaces left behind by killed runs."""
        for path in Path("/run/netns").glob("jobexec-*-*"):
            pid = path.name.split("-")[1]
            if not Path("/proc", pid).exists():
                with contextlib.suppress(OSError):
                    self._run("netns", "del", path.name)

    def remove(self) -> None:
        while self._made:
            with contextlib.suppress(OSError):
                self._run("netns", "del", self._made.pop())

    def inside(self, host: str) -> list[str]:
        """Return the command prefix that runs a command on this host."""
        return [self._ip, "netns", "exec", self._name(host)]

    def cut(self, host: str) -> None:
        """Unplug the host from the bridge at the far end: the host's own interface notices nothing."""
        self._run("-n", self._server, "link", "set", f"port{self._hosts[host]}", "nomaster")

    def join(self, host: str) -> None:
        self._run("-n", self._server, "link", "set", f"port{self._hosts[host]}", "master", "br0")

    def listener(self) -> socket.socket:
        """Return a listening socket on the database's host, owned by this process but in that network."""
        made: socket.socket = self.call(None, lambda: socket.create_server((SERVER, 0)))
        return made

    def call(self, host: str | None, function: Callable[[], Any]) -> Any:
        """Call a function of this process in a thread on a host's network (None: the database's)."""
        result: Future[Any] = Future()
        name = self._server if host is None else self._name(host)

        def work() -> None:
            try:
                with open(f"/run/netns/{name}") as namespace:
                    if ctypes.CDLL(None, use_errno=True).setns(namespace.fileno(), _CLONE_NEWNET):
                        raise OSError(ctypes.get_errno(), "setns")
                result.set_result(function())
            except BaseException as error:
                result.set_exception(error)

        # Each thread has its own network namespace, and this thread ends at once.
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
        return result.result()


@contextmanager
def network(*hosts: str) -> Iterator[Network]:
    """Create a network with these hosts; skip the test where that is not possible."""
    if os.geteuid() != 0:
        pytest.skip("network namespaces need root")
    net = Network()
    try:
        try:
            net.build(hosts)
        except OSError as error:
            pytest.skip(f"network namespaces cannot be made here: {error}")
        yield net
    finally:
        net.remove()
