"""JSON messages between the benchmark and one of its nodes."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from ..measure import BenchError

Message = dict[str, Any]
_CHUNK = 65536


class LineCut(BenchError):
    """The process at the other end is gone."""


class Line:
    """One end of a pair of sockets; each message is one line of JSON. Who dies cuts the line, however it dies."""

    def __init__(self, end: socket.socket) -> None:
        self._end, self._read = end, b""

    @classmethod
    def inherited(cls, descriptor: int) -> Line:
        """The end that a child was started with. Raises BenchError if it is none."""
        try:
            return cls(socket.socket(fileno=descriptor))
        except OSError as error:
            raise BenchError(f"This process was not started by a benchmark: {error}.") from None

    def send(self, **message: Any) -> None:
        """Raises LineCut."""
        self._end.settimeout(None)
        try:
            self._end.sendall(json.dumps(message).encode() + b"\n")
        except OSError as error:
            raise LineCut(f"The other end is gone: {error}.") from None

    def receive(self, timeout: float) -> Message | None:
        """The next message; None if none comes within ``timeout`` seconds. Raises LineCut."""
        end = time.monotonic() + timeout
        while b"\n" not in self._read:
            self._end.settimeout(max(0.0001, end - time.monotonic()))
            try:
                more = self._end.recv(_CHUNK)
            except TimeoutError:
                return None
            except OSError as error:
                raise LineCut(f"The other end is gone: {error}.") from None
            if not more:
                raise LineCut("The other end is gone.")
            self._read += more
        line, _, self._read = self._read.partition(b"\n")
        message: Message = json.loads(line)
        return message

    def tell_until_called(self, done: Callable[[], int], turn: float = 0.05) -> None:
        """Send, every ``turn`` seconds, how many jobs are done if there are more, until a message comes."""
        told = 0
        while self.receive(turn) is None:
            if (now := done()) != told:
                told = now
                self.send(done=told)

    def close(self) -> None:
        with suppress(OSError):
            self._end.close()
