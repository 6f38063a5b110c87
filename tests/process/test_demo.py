"""``manage.py demo`` as a real process: what it prints, how it ends, and that nothing of it is left."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from urllib.request import urlopen

import pytest

from tests.support.suite import databases
from tests.support.waiting import TIMEOUT, until

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(600),
    pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="looks for left processes in /proc"),
]
MARK = "JOBEXEC_TEST_DEMO"


@dataclass
class Playground:
    """A temporary folder for a demo, and a mark by which its processes are known."""

    folder: Path
    processes: list[subprocess.Popen[str]] = field(default_factory=list)

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        command = [sys.executable, str(databases.ROOT / "manage.py"), "demo", *arguments]
        environment = {name: value for name, value in os.environ.items() if not name.startswith(("DJANGO", "DEMO_"))}
        environment |= {MARK: str(self.folder), "TMPDIR": str(self.folder), "PYTHONUNBUFFERED": "1"}
        process = subprocess.Popen(
            command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace"
        )
        self.processes.append(process)
        return process

    def left(self) -> dict[int, str]:
        """The processes with the mark, or with the folder in their command line, as a database server has it."""
        found = {}
        for entry in Path("/proc").iterdir():
            try:
                command = (entry / "cmdline").read_text(errors="replace").replace("\0", " ").strip()
                environment = (entry / "environ").read_text(errors="replace")
            except OSError:
                continue
            if command and (f"{MARK}={self.folder}" in environment or str(self.folder) in command):
                found[int(entry.name)] = command
        return found

    def assert_clean(self) -> None:
        assert self.left() == {}
        assert list(self.folder.iterdir()) == []


@pytest.fixture
def playground() -> Iterator[Playground]:
    # Not tmp_path: the path of a PostgreSQL socket must be short, and the server's user must be able to reach it.
    with tempfile.TemporaryDirectory(prefix="jobexec-test-", ignore_cleanup_errors=True) as folder:
        playground = Playground(Path(folder))
        yield playground
        for process in playground.processes:
            if process.poll() is None:
                process.kill()
            process.wait()
            if process.stdout is not None:
                process.stdout.close()
        for pid in playground.left():
            os.kill(pid, signal.SIGKILL)


def _read_until(process: subprocess.Popen[str], text: str) -> str:
    assert process.stdout is not None
    read = ""
    for line in process.stdout:
        read += line
        if text in line:
            return read
    raise AssertionError(f"The demo ended without {text!r}:\n{read}")


@pytest.mark.parametrize("database", ["postgresql", pytest.param("sqlite", marks=pytest.mark.nightly)])
def test_once_works_off_every_booking_and_prints_a_table(playground, database):
    if database not in databases.covered:
        pytest.skip(databases.missing[database])
    process = playground.start("--once", "--bookings", "60", "--database", database)
    output, _ = process.communicate()
    assert process.returncode == 0, output
    # The flight service's bad days are seeded: it fails booking 57 three times.
    rows = {row[0]: row[1:] for row in re.findall(r"^(\w+) +(\d+) +(\d+) +(\d+) +(\d+) +(\d+)", output, re.MULTILINE)}
    assert rows["book_hotel"] == rows["book_concert_tickets"] == ("60", "0", "0", "60", "0")
    assert rows["book_flight"][:3] == ("59", "0", "1")
    assert rows["confirm_booking"][:3] == ("59", "0", "0")
    assert rows["remind_of_payment"][:3] == ("0", "59", "0")
    assert "booking-57: book_flight, 3 attempts." in output
    # The worker outside has done the orders, and the rule has decided the refunds that no manager approved in time.
    processes = re.findall(r"^(\w+) +(\d+) +(.+?) +(\d+) +(\d+)$", output.partition("process  ")[2], re.MULTILINE)
    assert processes == [
        ("travel", "3", "3 booked", "0", "0"),
        ("order", "4", "1 refused, 3 shipped", "0", "0"),
        ("approval", "3", "1 rejected, 1 transferred", "0", "1"),
        ("offer", "3", "-", "3", "0"),
    ]
    assert "transfer, 1 attempts. DoNotRetry: There is no account unknown." in output
    assert "60 bookings: 59 confirmed, 1 with a dead letter, 0 problems. 179 tickets" in output
    playground.assert_clean()


@pytest.mark.nightly
def test_ctrl_c_drains_and_leaves_nothing(playground):
    process = playground.start("--bookings", "20", "--database", "sqlite")
    said = _read_until(process, "Press Ctrl-C to drain")
    address = re.search(r"The site +(\S+)", said)
    assert address is not None
    with urlopen(address[1], timeout=TIMEOUT) as answer:
        assert "Encore Trips" in answer.read().decode()
    process.send_signal(signal.SIGINT)
    output, _ = process.communicate()
    assert process.returncode == 0, output
    assert "The executor has drained." in output
    playground.assert_clean()


@pytest.mark.nightly
def test_a_child_that_dies_ends_the_demo_with_its_last_words(playground):
    process = playground.start("--bookings", "20", "--database", "sqlite")
    _read_until(process, "Press Ctrl-C to drain")
    (executor,) = [pid for pid, command in playground.left().items() if "runjobexecutor" in command]
    os.kill(executor, signal.SIGKILL)
    output, _ = process.communicate()
    assert process.returncode == 1
    assert "executor ended with exit code -9. Its last output:" in output
    playground.assert_clean()


@pytest.mark.nightly
@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells children that their parent is gone")
def test_nothing_runs_on_when_the_demo_is_killed(playground):
    process = playground.start("--bookings", "20")
    _read_until(process, "Press Ctrl-C to drain")
    assert len(playground.left()) >= 4
    process.kill()
    process.wait()
    until(lambda: not playground.left(), turn=0.1)


@pytest.mark.nightly
def test_a_port_that_is_taken_is_said(playground):
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen()
        port = server.getsockname()[1]
        process = playground.start("--bookings", "1", "--database", "sqlite", "--port", str(port))
        output, _ = process.communicate()
    assert process.returncode == 1
    assert f"Port {port} is taken." in output
    playground.assert_clean()
