"""Nodes, as the benchmark sees them."""

from __future__ import annotations

import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from types import TracebackType
from typing import Any

from django.utils import autoreload

from ..measure import BenchError
from .line import Line, LineCut, Message

_PATIENCE = 60.0
_TURN = 0.02
_END = 20.0


class NodeProcess:
    """A child that runs :func:`~demo_project.benchmarks.nodes.node.serve`."""

    def __init__(self, number: int, command: Sequence[str]) -> None:
        self.number = number
        self.done = 0
        ours, theirs = socket.socketpair()
        self._line = Line(ours)
        try:
            self._process = _start(command, theirs.fileno())
        except OSError as error:
            self._line.close()
            raise BenchError(f"Node {number} could not be started: {error}.") from error
        finally:
            theirs.close()

    def send(self, **message: Any) -> None:
        """Raises BenchError if the node has ended."""
        try:
            self._line.send(**message)
        except LineCut:
            self._receive(0)  # its last words say more
            raise

    def hear(self, timeout: float) -> bool:
        """Take in how far it is; whether it said something."""
        message = self._receive(timeout)
        if message is None:
            return False
        self.done = message.get("done", self.done)
        return True

    def wait_for(self, key: str) -> Message:
        """The message with this key. Raises BenchError if it does not come."""
        end = time.monotonic() + _PATIENCE
        while (message := self._receive(end - time.monotonic())) is not None:
            if key in message:
                return message
        raise BenchError(f"Node {self.number} did not say {key!r} within {_PATIENCE:.0f} s.")

    def _receive(self, timeout: float) -> Message | None:
        try:
            message = self._line.receive(timeout)
        except LineCut:
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(_END)
            raise BenchError(f"Node {self.number} has ended with exit code {self._process.returncode}.") from None
        if message is not None and "error" in message:
            raise BenchError(f"Node {self.number}: {message['error']}")
        return message

    def hang_up(self) -> None:
        """The node ends in order if it has not ended yet."""
        self._line.close()

    def end(self) -> None:
        """Wait for the end, and enforce it."""
        try:
            self._process.wait(_END)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


class Nodes(AbstractContextManager["Nodes"]):
    """So many nodes; all have ended at the end of the block, however it ends.

    ``role`` is what each is to do: "cluster", "external", or in a drain "ours" or "raw"; ``more`` is
    what the role has to know.
    """

    def __init__(
        self, count: int, alias: str, overrides: Mapping[str, Any], role: str = "cluster", **more: Any
    ) -> None:
        self._nodes: list[NodeProcess] = []
        command = _this_command()
        try:
            for number in range(1, count + 1):
                self._nodes.append(NodeProcess(number, command))
            for node in self._nodes:
                node.send(alias=alias, overrides=dict(overrides), role=role, **more)
        except BaseException:
            self._close()
            raise

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._close()

    def _close(self) -> None:
        for node in self._nodes:
            node.hang_up()
        for node in self._nodes:
            node.end()

    def wait_until_ready(self) -> list[Message]:
        """Until all could begin at once; what each says of itself."""
        return [node.wait_for("ready") for node in self._nodes]

    def go(self) -> float:
        """Let all begin; returns when that was, by the monotonic clock, which all processes share."""
        began = time.monotonic()
        for node in self._nodes:
            node.send(go=True)
        return began

    def wait_until_done(self, jobs: int) -> None:
        """Until so many jobs have run; BenchError if none did for a minute."""
        self._poll(lambda: self.done() >= jobs, jobs)

    def done(self) -> int:
        """How many jobs have run, as far as we have heard."""
        return sum(node.done for node in self._nodes)

    def _poll(self, done: Callable[[], bool], jobs: int) -> None:
        heard = time.monotonic()
        while not done():
            heard_from = [node for node in self._nodes if node.hear(_TURN)]
            if heard_from:
                heard = time.monotonic()
            elif time.monotonic() - heard > _PATIENCE:
                raise BenchError(f"No job ran for {_PATIENCE:.0f} s; {self.done()} of {jobs} did before.")

    def stop(self) -> list[Message]:
        """Let all end in order; returns their reports."""
        for node in self._nodes:
            node.send(stop=True)
        return [node.wait_for("cpu") for node in self._nodes]


def _start(command: Sequence[str], descriptor: int) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [*command, "--node-line", str(descriptor)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        pass_fds=[descriptor],
        start_new_session=True,  # Ctrl-C is for the benchmark, whose end then ends the node
    )


def _this_command() -> list[str]:
    """The command line of this process. Raises BenchError if it is no ``manage.py jobbench``."""
    if "jobbench" not in sys.argv:
        raise BenchError("The nodes are started with the command line of this process: run it as manage.py jobbench.")
    return autoreload.get_child_arguments()
