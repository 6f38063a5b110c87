"""Programs that say what they do in lines of JSON: a worker of a real client, in a process of its own."""

import json
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from tests.gateways import clients
from tests.support.waiting import TIMEOUT, until

PROGRAMS = Path(__file__).parent / "programs"


class Talker:
    """A running program. `said` are the objects of its lines so far, `rest` the lines that are no JSON."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self._process = process
        self.said: list[dict[str, Any]] = []
        self.rest: list[str] = []
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        for line in self._process.stdout or ():
            try:
                self.said.append(dict(json.loads(line)))
            except (ValueError, TypeError):
                self.rest.append(line)

    def all(self, key: str) -> list[Any]:
        """What it said so far under this key."""
        return [each for each in list(self.said) if key in each]

    def wait(self, key: str, number: int = 1, timeout: float = TIMEOUT) -> Any:
        """The `number`-th thing that it says under this key."""
        until(lambda: len(self.all(key)) >= number or self._process.poll() is not None, timeout)
        assert len(self.all(key)) >= number, self.text
        return self.all(key)[number - 1]

    def tell(self, line: str = "") -> None:
        """A line to its standard input."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{line}\n")
        self._process.stdin.flush()

    @property
    def text(self) -> str:
        return "\n".join([*map(json.dumps, self.said), *self.rest])


@contextmanager
def talking(program: Path, script: str, *arguments: str) -> Iterator[Talker]:
    """Run a script of `programs`; it is killed at the end of the block."""
    command = clients.command(program, PROGRAMS / script, *arguments)
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
    process = subprocess.Popen(command, env=clients.environment(), text=True, **pipes)
    talker = Talker(process)
    try:
        yield talker
    finally:
        process.kill()
        process.wait(TIMEOUT)
        talker._reader.join(10)
        for stream in (process.stdin, process.stdout):
            if stream is not None:
                with suppress(BrokenPipeError):  # what was not read any more
                    stream.close()
