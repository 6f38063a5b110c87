"""The demo from its first line to its last."""

from __future__ import annotations

import json
import os
import random
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TextIO
from urllib.error import URLError
from urllib.request import urlopen

from .children import Child
from .screen import Counts, Screen
from .stage import TURN, Interrupted, Stage, StageError
from .table import report

EXIT_DONE, EXIT_PROBLEMS, EXIT_INTERRUPTED = 0, 1, 130
PORT = 8000
#: The types of jobs that the worker of the orders does.
WORK = ("process-payment", "fetch-items", "ship-parcel")
HOST = "127.0.0.1"


@dataclass(frozen=True)
class Options:
    """What the command line says."""

    once: bool = False
    database: str | None = None
    bookings: int = 300
    port: int | None = None


class Demo:
    """`run()` plays it and returns the exit code. Raises StageError when it cannot go on."""

    def __init__(self, options: Options, out: TextIO) -> None:
        self.options = options
        self.screen = Screen(out)
        self.stage = Stage()

    def run(self) -> int:
        """Ends by itself with `once`, else when it is interrupted."""
        try:
            with self._farewell(), self.stage:
                self._prepare()
                return self._once() if self.options.once else self._live()
        except Interrupted:
            return EXIT_INTERRUPTED

    @contextmanager
    def _farewell(self) -> Iterator[None]:
        try:
            yield
        finally:
            code = self.stage.stopped.get("executor")
            drained = {None: "", 0: "The executor has drained. "}.get(code, f"The executor ended with {code}. ")
            self.screen.say(f"{drained}Everything is stopped; the temporary files are removed.")

    # Before the first job runs.

    def _prepare(self) -> None:
        stage, say = self.stage, self.screen.say
        say(f"Database: {stage.start_database(self.options.database)}")
        stage.run("migrate", "migrate", "-v", "0")
        stage.environment["DEMO_FLIGHTS"] = self._start_flights()
        say(stage.run("load_bookings", "load_bookings", "--limit", str(self.options.bookings)).strip())
        say(stage.run("load_processes", "load_processes").strip())

    def _start_flights(self) -> str:
        service = self.stage.start("flight service", "-m", "demo_project.flaky_service", "--port", "0")
        self.stage.wait(service.first_line, seconds=20)
        return service.first_line()

    def _start_status(self) -> Child:
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
        status = self.stage.manage("status", "demo_status", "--every", "1", **pipes)
        assert status.process.stdout is not None
        os.set_blocking(status.process.stdout.fileno(), False)
        return status

    # Once.

    def _once(self) -> int:
        self._start_worker(self._start_site())
        status = self._start_status()
        start = self.screen.seconds
        self._work(status)
        while self._has_more():
            self._work(status)
        seconds = self.screen.seconds - start
        accounts = json.loads(self.stage.run("accounts", "demo_status", "--accounts"))
        self.screen.say()
        for line in report(accounts, self._flight_report(), seconds):
            self.screen.say(line)
        return EXIT_PROBLEMS if accounts["problems"] else EXIT_DONE

    def _work(self, status: Child) -> None:
        executor = self.stage.manage("executor", "runjobexecutor", "--until-empty")
        while executor.exit_code is None:
            self._turn(status, executor)
        self.stage.ended(executor)

    def _has_more(self) -> bool:
        """Whether something is due that came from outside, or a timer; waits for those that come soon."""
        while True:
            counts = json.loads(self.stage.run("count", "demo_status"))
            if counts["due"] or not counts["later"]:
                return bool(counts["due"])

    def _flight_report(self) -> dict[str, Any]:
        with urlopen(self.stage.environment["DEMO_FLIGHTS"], timeout=10) as answer:
            found: dict[str, Any] = json.load(answer)
            return found

    # Live.

    def _live(self) -> int:
        self.stage.environment["DJANGO_SUPERUSER_PASSWORD"] = "admin"
        user = ("--noinput", "--username", "admin", "--email", "admin@example.com")
        self.stage.run("createsuperuser", "createsuperuser", *user)
        site = self._start_site()
        self._start_worker(site)
        status = self._start_status()
        executor = self.stage.manage("executor", "runjobexecutor")
        self.stage.wait(executor.first_line, seconds=30)
        self._say_where(site)
        while True:
            try:
                self._turn(status)
            except Interrupted:
                self.screen.say("Draining: running jobs finish, nothing new begins ...")
                return EXIT_DONE

    def _turn(self, status: Child, may_end: Child | None = None) -> None:
        self.stage.watch(besides=may_end)
        counts = _latest(status)
        if counts:
            self.screen.progress(counts)
        self.stage.pause(TURN)

    def _start_site(self) -> str:
        address = f"{HOST}:{_port(self.options.port, usual=self.screen.live)}"
        self.stage.environment["DEMO_DEBUG"] = "1"  # runserver serves the static files only with DEBUG
        self.stage.manage("site", "runserver", "--noreload", address)
        self.stage.environment["DEMO_DEBUG"] = "0"
        self.stage.wait(lambda: _answers(f"http://{address}/"), seconds=30)
        return f"http://{address}/"

    def _start_worker(self, site: str) -> None:
        """A program outside of Django, with a client of its own that may do nothing else."""
        types = [word for type in WORK for word in ("--type", type)]
        permissions = ("--permission", "work", "--permission", "publish")
        made = self.stage.run("client", "gatewayclient", "add", "shop", *types, *permissions, "--json")
        self.stage.environment["DEMO_WORKER"] = f"shop:{json.loads(made)['secret']}"
        self.stage.start("worker", "-m", "demo_project.worker", "--gateway", f"{site}camunda")

    def _say_where(self, site: str) -> None:
        say = self.screen.say
        say()
        say(f"  The site        {site}")
        say(f"  Book a trip     {site}book/")
        say(f"  Processes       {site}processes/")
        say(f"  The admin       {site}admin/   (user admin, password admin)")
        say(f"  Dead letters    {site}admin/jobexec/deadletterjob/")
        say(f"  Resources       {site}admin/jobexec/resource/")
        say(f"  Break flights   curl -X POST {self.stage.environment['DEMO_FLIGHTS']}/outage")
        say(f"  Vouchers, logs  {self.stage.folder}")
        say()
        say("For `python manage.py shell` and other commands on the same data:")
        say(f"  {self.stage.exports}")
        say()
        say("Press Ctrl-C to drain and stop.")


def _latest(status: Child) -> Counts | None:
    """The last line that has come. A pipe hands over lines of this length whole."""
    assert status.process.stdout is not None
    lines = (status.process.stdout.read() or b"").splitlines()
    return json.loads(lines[-1]) if lines else None


def _port(wanted: int | None, *, usual: bool) -> int:
    """A port that is free: the wanted one, or else 8000 if it is the ``usual`` demo of somebody at a terminal, or any.

    Programs start several demos at once, and a port is only taken when the site is up: so they get random ones, from
    below the range in which the system chooses.
    """
    others = [random.randrange(10_000, 32_000) for _ in range(100)]
    for port in (wanted,) if wanted else (*([PORT] if usual else []), *others):
        with socket.socket() as server:
            server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                server.bind((HOST, port))
                return int(port)
            except OSError:
                continue
    raise StageError(f"Port {wanted} is taken.")


def _answers(address: str) -> bool:
    try:
        with urlopen(address, timeout=10) as answer:
            return bool(answer.status == 200)
    except (URLError, OSError):
        return False
