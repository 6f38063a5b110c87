"""Notifications to systemd for a service of Type=notify; see sd_notify(3). Without a dependency."""

from __future__ import annotations

import logging
import os
import socket
from contextlib import suppress

from jobexec import clock

from .report import Report

logger = logging.getLogger("jobexec.executor")

_VARIABLES = ("NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID")


class Notifier:
    """Notifies the service manager: READY=1, STOPPING=1, STATUS=, WATCHDOG=1.

    ``address`` is a path, or an abstract name after '@'. ``watchdog`` is the manager's timeout in seconds; WATCHDOG=1
    is sent after half of it, as long as the report says that the process is alive.
    """

    def __init__(self, address: str, watchdog: float | None = None) -> None:
        self._address = "\0" + address[1:] if address.startswith("@") else address
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.setblocking(False)  # a manager that does not read must not block us
        self._said: set[str] = set()
        self._pause = watchdog / 2 if watchdog else None
        self._next_sign = 0.0
        #: The longest time between two calls of :meth:`tell`, in seconds.
        self.interval = self._pause / 2 if self._pause else 1.0

    @classmethod
    def from_environment(cls) -> Notifier | None:
        """The notifier, or None; removes the variables, so that no child and no job's command notifies in our name."""
        given = {name: os.environ.pop(name, "") for name in _VARIABLES}
        address = given["NOTIFY_SOCKET"]
        if not address:
            return None
        if address[0] not in "/@" or not hasattr(socket, "AF_UNIX"):
            logger.warning("NOTIFY_SOCKET=%s: expected a path or @name; systemd is not notified", address)
            return None
        return cls(address, _watchdog(given["WATCHDOG_USEC"], given["WATCHDOG_PID"]))

    def tell(self, report: Report) -> None:
        """Send the changes of this report, and WATCHDOG=1 when it is time."""
        lines = []
        if not report.startup:
            lines += self._once("READY=1")
        if report.draining:
            lines += self._once("STOPPING=1")
        lines += self._once(f"STATUS={' '.join(report.status.split())}", "STATUS=")
        if self._pause and not report.live and clock.monotonic() >= self._next_sign:
            self._next_sign = clock.monotonic() + self._pause
            lines.append("WATCHDOG=1")
        if lines:
            self._send("\n".join(lines))

    def close(self) -> None:
        """Close the socket."""
        self._socket.close()

    def _once(self, line: str, instead_of: str = "") -> list[str]:
        if line in self._said:
            return []
        if instead_of:
            self._said = {said for said in self._said if not said.startswith(instead_of)}
        self._said.add(line)
        return [line]

    def _send(self, text: str) -> None:
        with suppress(OSError):  # the manager does not read, or not fast enough: systemd decides what that means
            self._socket.sendto(text.encode(errors="replace"), self._address)


def _watchdog(microseconds: str, pid: str) -> float | None:
    mine = not pid or pid == str(os.getpid())
    return int(microseconds) / 1_000_000 or None if mine and microseconds.isdecimal() else None
