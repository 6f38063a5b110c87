"""`manage.py jobs top` in a terminal of its own."""

import fcntl
import os
import pty
import struct
import subprocess
import sys
import termios
import threading
from datetime import timedelta

import pytest

from jobexec import clock
from jobexec.operations import suspend
from tests.support.factories import make_job
from tests.support.machines import processes
from tests.support.waiting import until

pytestmark = [pytest.mark.transactional, pytest.mark.slow]

BEGIN, END = b"\x1b[?1049h", b"\x1b[?1049l"
COMMAND = [sys.executable, "-m", "django", "jobs", "top", "--interval", "0.2s"]


class Terminal:
    """A terminal of 80 columns and 24 lines in which a command runs."""

    def __init__(self, command, environment):
        self.master, self.slave = pty.openpty()
        fcntl.ioctl(self.slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
        self.before = termios.tcgetattr(self.slave)
        ends = {"stdin": self.slave, "stdout": self.slave, "stderr": self.slave}
        # Its controlling terminal, so that Ctrl-C is a signal.
        self.popen = subprocess.Popen(
            command,
            env=environment,
            start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
            **ends,
        )
        self.seen = b""
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self):
        while True:
            try:
                self.seen += os.read(self.master, 65_536)
            except OSError:
                return

    def press(self, key):
        os.write(self.master, key)

    def shows(self, text):
        until(lambda: text in self.seen.rpartition(b"\x1b[H")[2] or self.popen.poll() is not None, 60)
        assert self.popen.poll() is None, self.seen

    def ended(self):
        code = self.popen.wait(180)
        until(lambda: END in self.seen)
        return code

    def close(self):
        self.popen.kill()
        self.popen.wait()
        os.close(self.slave)
        os.close(self.master)


@pytest.fixture(params=[pytest.param("rich", marks=pytest.mark.nightly), "plain"])
def top(alias, request):
    environment = processes.environment(alias, JOBEXEC=processes.QUICK) | {"TERM": "xterm"}
    for name in ("COLUMNS", "LINES", "NO_COLOR", "DJANGO_COLORS"):
        environment.pop(name, None)
    terminal = Terminal(COMMAND if request.param == "rich" else [*COMMAND, "--plain"], environment)
    yield terminal
    terminal.close()


@pytest.mark.databases("sqlite", "postgresql")
def test_refreshes_until_q(alias, top):
    top.shows(b"q quits, p pauses")
    assert b"No executor is running" in top.seen
    make_job(alias, handler_type="shop.first", due_date=clock.now(alias) + timedelta(days=1))
    top.shows(b"shop.first")
    top.press(b"p")
    top.shows(b"paused: q quits, p resumes")
    make_job(alias, handler_type="shop.second", due_date=clock.now(alias) + timedelta(days=1))
    top.press(b"p")
    top.shows(b"shop.second")
    top.press(b"q")
    assert top.ended() == 0
    assert BEGIN in top.seen and END in top.seen
    assert termios.tcgetattr(top.slave) == top.before
    pages = [page.split(b"\n") for page in top.seen.split(b"\x1b[H")]
    assert max(len(_plain(line).strip("\r")) for page in pages for line in page) <= 80
    assert max(map(len, pages)) <= 24


@pytest.mark.databases("sqlite")
@pytest.mark.nightly
def test_what_does_not_fit_is_left_out_and_not_the_keys(alias, top):
    for number in range(30):
        make_job(alias, handler_type="shop.job", due_date=clock.now(alias) + timedelta(days=1))
        suspend(using=alias, tenant_id=f"tenant-{number}")
    top.shows(b"shop.job")
    top.shows(b"q quits, p pauses")
    assert top.seen.rpartition(b"\x1b[H")[2].count(b"\n") <= 23


def _plain(line):
    """Without escape codes."""
    text = line.decode()
    while "\x1b" in text:
        before, _, after = text.partition("\x1b[")
        text = before + after.lstrip("?;0123456789")[1:]
    return text


@pytest.mark.databases("sqlite")
@pytest.mark.nightly
def test_ctrl_c_ends_it_quietly(alias, top):
    top.shows(b"q quits, p pauses")
    top.press(b"\x03")
    assert top.ended() == 0
    assert b"Traceback" not in top.seen and b"Interrupted" not in top.seen
    assert termios.tcgetattr(top.slave) == top.before


@pytest.mark.databases("sqlite")
def test_without_a_terminal_it_is_one_plain_snapshot(alias):
    environment = processes.environment(alias, JOBEXEC=processes.QUICK) | {"TERM": "xterm"}
    ran = subprocess.run(COMMAND, env=environment, capture_output=True, timeout=180, check=True)
    assert b"\x1b" not in ran.stdout and ran.stdout.startswith(b"Engine default on ") and ran.stderr == b""


@pytest.mark.databases("sqlite")
def test_whoever_reads_may_have_seen_enough(alias):
    for _ in range(200):
        make_job(alias, exclusive=False)
    environment = processes.environment(alias, JOBEXEC=processes.QUICK)
    command = [sys.executable, "-m", "django", "jobs", "list", "--json"]
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as ran:
        assert ran.stdout.readline().startswith(b'{"id"')
        ran.stdout.close()
        assert (ran.stderr.read(), ran.wait(180)) == (b"", 0)
