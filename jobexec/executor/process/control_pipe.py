"""The pipe between a supervisor and one child: reports go up, orders go down.

A pair of sockets for whole messages, one end inherited. Neither side ever waits for the other: a message that does not
fit is dropped, and the next report contains the same. Orders are messages and not signals, because a service manager
may signal all processes of a service at once, and a child that receives SIGTERM twice abandons its jobs.
"""

from __future__ import annotations

import json
import logging
import os
import socket
import stat
from contextlib import suppress
from functools import cache

from jobexec.operations.sql.errors import one_line

from .report import Report

logger = logging.getLogger("jobexec.supervisor")

DRAIN, RECYCLE = "drain", "recycle"

_SUPERVISED = "JOBEXEC_SUPERVISED"
_LARGEST = 65536


class Upward:
    """The child's end."""

    def __init__(self, pid: int, end: socket.socket | None) -> None:
        self._pid, self._end = pid, end

    @property
    def gone(self) -> bool:
        """Whether the supervisor has died."""
        return os.getppid() != self._pid

    def tell(self, report: Report) -> None:
        """Send a report to the supervisor."""
        if self._end is not None:
            with suppress(OSError):
                self._end.send(json.dumps(report.as_json()).encode())

    def close(self) -> None:
        """Close the child's end."""
        if self._end is not None:
            self._end.close()

    def order(self) -> str | None:
        """The next order, DRAIN or RECYCLE, if there is one."""
        if self._end is None:
            return None
        with suppress(OSError):
            return self._end.recv(_LARGEST).decode()
        return None


class Downward:
    """The supervisor's end; :attr:`environment` and :attr:`inherited` are for the child about to start."""

    def __init__(self) -> None:
        self._end, self._other = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._end.setblocking(False)

    @property
    def inherited(self) -> int:
        """The file descriptor of the child's end."""
        return self._other.fileno()

    @property
    def environment(self) -> dict[str, str]:
        """The environment by which a child recognises its supervisor."""
        return os.environ | {_SUPERVISED: f"{os.getpid()}:{self.inherited}"}

    def started(self) -> None:
        """The child has its end; close our copy of it."""
        self._other.close()

    def reports(self) -> list[Report]:
        """The reports since the last call, oldest first."""
        found = []
        with suppress(OSError):
            while True:
                found.append(self._end.recv(_LARGEST))
        return [report for report in map(_read, found) if report is not None]

    def order(self, text: str) -> bool:
        """Send DRAIN or RECYCLE to the child; returns whether it could be sent."""
        try:
            return bool(self._end.send(text.encode()))
        except OSError:
            return False

    def close(self) -> None:
        self._end.close()
        self._other.close()


def _read(message: bytes) -> Report | None:
    try:
        return Report(**json.loads(message))
    except (ValueError, TypeError) as error:
        logger.debug("A child's report cannot be read: %s", one_line(error))
        return None


@cache
def supervisor() -> Upward | None:
    """The pipe to this process's supervisor; None without one. A supervised process must not become a supervisor.

    The supervisor's pid comes from the environment and not from the system: it may have died while this process was
    still starting. The variable is removed, because a command started by a job is not a supervised child.
    """
    pid, _, number = os.environ.pop(_SUPERVISED, "").partition(":")
    return Upward(int(pid), _inherited(number)) if pid.isdecimal() else None


def _inherited(number: str) -> socket.socket | None:
    if not number.isdecimal():
        return None
    try:
        if not stat.S_ISSOCK(os.fstat(int(number)).st_mode):
            return None
        end = socket.socket(fileno=int(number))
    except OSError:
        return None
    end.set_inheritable(False)  # commands that jobs start must not hold it
    end.setblocking(False)
    return end
