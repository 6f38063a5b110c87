"""Real clients as processes: pyzeebe, @camunda8/sdk for Node, and zbctl, which is the client for Go."""

import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from tests.gateways import clients
from tests.support.machines.processes import Process
from tests.support.waiting import until

SCRIPTS = Path(__file__).parent / "workers"
LANGUAGES = ("python", "node", "go")


class Worker:
    """A worker in a process of its own; it does what the variable `act` of a job says."""

    def __init__(self, process: Process) -> None:
        self.process = process

    def keys(self, word: str) -> list[int]:
        """The keys of the jobs that it has `begun` or `ended`."""
        return [int(line.split()[1]) for line in self.lines(word)]

    def times(self, word: str) -> list[float]:
        """When it has begun or ended them."""
        return [float(line.split()[2]) for line in self.lines(word)]

    def lines(self, word: str) -> list[str]:
        return [line for line in self.process.out if line.startswith(f"{word} ")]

    @property
    def text(self) -> str:
        return self.process.text

    def works(self) -> "Worker":
        """Wait until it has started."""
        until(lambda: "works" in self.process.out or self.process.popen.poll() is not None)
        assert self.process.popen.poll() is None, self.text
        return self


class Workers:
    """Starts workers of the languages; all are killed at the end."""

    def __init__(self, port: int, host: str = "127.0.0.1", **variables: str) -> None:
        self.address, self._variables = f"{host}:{port}", variables
        self._stack = ExitStack()

    def start(
        self,
        language: str,
        type: str = "payment",
        name: str = "",
        timeout: int = 60_000,
        stream: bool = False,
        most: int = 100,
    ) -> Worker:
        """A worker of a language, when it has started. Only that in Python knows ``most``, the jobs at a time."""
        mode = "stream" if stream else "poll"
        arguments = [self.address, type, name or language, str(timeout), mode]
        if language == "go":
            return self._go(type, name or language, timeout, stream)
        if language == "python":
            line = clients.command(clients.python("pyzeebe"), SCRIPTS / "worker.py", *arguments, str(most))
            return self._process(line).works()
        folder = clients.node("@camunda8/sdk")
        line = clients.command(folder, SCRIPTS / "worker.js", *arguments)
        return self._process(line, NODE_PATH=str(folder / "node_modules")).works()

    def _go(self, type: str, name: str, timeout: int, stream: bool) -> Worker:
        handler = f"{sys.executable} -S {SCRIPTS / 'handler.py'}"
        options = ["--handler", handler, "--name", name, "--timeout", f"{timeout}ms", "--pollInterval", "100ms"]
        line = [*self.zbctl(), "create", "worker", type, *options]
        return Worker(self._started([*line, "--streamEnabled"] if stream else line))

    def zbctl(self) -> list[str]:
        """The command line of zbctl, as far as it is always the same."""
        binary = clients.node("zbctl") / "node_modules/zbctl/bin/zbctl-cli.linux"
        return [str(binary), "--insecure", "--address", self.address]

    def _process(self, line: list[str], **variables: str) -> Worker:
        return Worker(self._started(line, **variables))

    def _started(self, line: list[str], **variables: str) -> Process:
        process = Process(line, clients.environment(**self._variables, **variables))
        self._stack.callback(process.close)
        return process

    def close(self) -> None:
        self._stack.close()


@contextmanager
def workers(port: int, host: str = "127.0.0.1", **variables: str) -> Iterator[Workers]:
    """Workers that are killed at the end of the block; variables are those of their environment."""
    team = Workers(port, host, **variables)
    try:
        yield team
    finally:
        team.close()
