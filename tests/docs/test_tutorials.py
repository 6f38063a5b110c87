"""The tutorials, step by step as a reader follows them: each file is written, and each command is run."""

import os
import re
import shlex
import signal
import socket
import subprocess
import sys
from http.cookiejar import CookieJar
from pathlib import Path
from urllib.error import URLError
from urllib.parse import urlencode
from urllib.request import HTTPCookieProcessor, build_opener

import pytest

from tests.support.machines.processes import Process
from tests.support.suite.databases import ROOT
from tests.support.waiting import TIMEOUT, until

pytestmark = [pytest.mark.nightly, pytest.mark.slow, pytest.mark.timeout(900)]

TUTORIALS = ROOT / "docs" / "tutorial"
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
FILE = re.compile(r"`([\w/]+\.\w+)`")
#: What prepares a reader's machine; here jobexec is installed.
PREPARES = ("mkdir first-", "python3 -m venv", ". .venv/bin/activate", "pip install")


def blocks(page):
    """Kind and content of each block, with the file that the paragraph before it names last, if it names one."""
    text, at = (TUTORIALS / page).read_text(), 0
    for found in BLOCK.finditer(text):
        paragraph = text[at : found.start()].strip().rpartition("\n\n")[2]
        files = FILE.findall(paragraph)
        yield found[1], found[2], files[-1] if files else None
        at = found.end()


def commands(block):
    """Each command with the output that the page shows below it."""
    for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
        lines = part.splitlines()
        last = 1
        while '"' in lines[0] and "\n".join(lines[:last]).count('"') % 2:  # goes on until its quote is closed
            last += 1
        yield "\n".join(lines[:last]), "\n".join(lines[last:])


def environment():
    found = {name: value for name, value in os.environ.items() if not name.startswith(("DJANGO", "JOBEXEC"))}
    return found | {"PYTHONPATH": str(ROOT), "PYTHONWARNINGS": "ignore", "PYTHONUNBUFFERED": "1"}


def run(command, folder, *more, **variables):
    """The output of one command."""
    if command.startswith(PREPARES):
        return ""
    name, *arguments = shlex.split(command)
    program = [sys.executable] if name == "python" else [sys.executable, "-m", "django"]
    assert name in ("python", "django-admin"), command
    done = subprocess.run(
        [*program, *arguments, *more],
        cwd=folder,
        env=environment() | variables,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
    return done.stdout


def write(content, path, folder):
    """Write a file, or add to one that is there already."""
    file = folder / path
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.open("a", encoding="utf-8") as opened:
        opened.write(f"\n{content}" if file.exists() and file.stat().st_size else content)


def test_the_first_process(tmp_path: Path):
    pytest.importorskip("lxml")
    ran = 0
    for kind, content, path in blocks("first-process.md"):
        if kind != "console":
            assert path is not None, content
            write(content, path, tmp_path)
            continue
        for command, shown in commands(content):
            output = run(command, tmp_path)
            assert shown.strip() in output, f"{command}\nshows\n{shown}\nand not\n{output}"
            ran += 1
    assert ran > 15
    told = run(
        'python manage.py shell -c "from jobexec.processes.models import ProcessInstance as P; '
        "print(*[(i.business_key, i.state, (i.final_variables or {}).get('ship') or i.final_variables.get('parcel')) "
        "for i in P.objects.order_by('start_time')], sep='\\n')\"",
        tmp_path,
    )
    assert told.strip().splitlines()[-3:] == [
        "('4711', 'completed', 'box for 4711 shipped, approved by nobody')",
        "('4712', 'completed', 'box for 4712 shipped, approved by anna')",
        "('4713', 'completed', '4713 to Rome')",
    ]


class Browser:
    """A reader's browser: it keeps cookies, and sends the fields of the page that it shows as they are filled in."""

    def __init__(self, address):
        self._address, self._opener = address, build_opener(HTTPCookieProcessor(CookieJar()))
        self.page = ""

    def get(self, path):
        self._url = self._address + path
        self.page = self._opener.open(self._url, timeout=TIMEOUT).read().decode()

    def submit(self, **fields):
        inputs = [dict(re.findall(r'(\w+)="([^"]*)"', tag)) for tag in re.findall(r"<input [^>]+>", self.page)]
        kept = [each for each in inputs if each.get("type") in ("hidden", "number") and each.get("name")]
        filled = {each["name"]: each.get("value", "") for each in kept}
        answer = self._opener.open(self._url, urlencode(filled | fields).encode(), timeout=TIMEOUT)
        self.page, self._url = answer.read().decode(), answer.url

    def is_there(self):
        try:
            self.get("/")
        except URLError:
            return False
        return True


class FirstJob:
    """The reader of the tutorial, with the processes in her terminals."""

    def __init__(self, folder):
        self.folder, self.processes = folder, []
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self._port = str(free.getsockname()[1])
        self.browser = Browser(f"http://127.0.0.1:{self._port}")

    def start(self, command, *more):
        manage, *arguments = shlex.split(command)[1:]
        started = Process([sys.executable, str(self.folder / manage), *arguments, *more], environment())
        self.processes.append(started)
        return started

    def follow(self, command, shown):
        """Do what a line of the page says; what it shows below must come."""
        if command == "mkdir receipts":
            (self.folder / "receipts").mkdir()
        elif command.endswith("createsuperuser"):
            named = ("--noinput", "--username", "reader", "--email", "reader@example.org")
            run(command, self.folder, *named, DJANGO_SUPERUSER_PASSWORD="first job")
        elif command.endswith("runserver"):
            self.start(command, self._port)
            until(self.browser.is_there, TIMEOUT)
            self.browser.submit(item="teapot", email="ada@example.org")
            assert self.ask("print(*Job.objects.values_list('handler_type', flat=True))") == "shop.jobs.write_receipt"
        elif "runjobexecutor" in command:
            self.says(self.start(command), shown)
        else:
            assert shown.strip() in run(command, self.folder)

    def says(self, process, shown):
        """Wait until a process has written lines like these."""
        wanted = [like(line) for line in shown.strip().splitlines()]
        until(lambda: all(re.search(line, process.text) for line in wanted) or process.popen.poll() is not None)
        assert [line for line in wanted if not re.search(line, process.text)] == [], process.text

    def requeue(self):
        """In the admin, as the page describes it."""
        browser = self.browser
        browser.get("/admin/login/?next=/admin/jobexec/deadletterjob/")
        browser.submit(username="reader", password="first job")
        assert "Requeue selected dead letter jobs" in browser.page
        (job,) = re.findall(r'name="_selected_action" value="([^"]+)"', browser.page)
        browser.submit(action="requeue", _selected_action=job)
        browser.submit()
        told = re.search(r"The admin says `([^`]+)`", (TUTORIALS / "first-job.md").read_text())
        assert told[1] in browser.page

    def ask(self, code):
        code = f"from jobexec.models import Job, DeadLetterJob, JobLog; {code}"
        return run(f"python manage.py shell -c {shlex.quote(code)}", self.folder).splitlines()[-1]

    def close(self):
        for process in self.processes:
            process.close()


def like(line):
    """A pattern for lines that differ from this one by dates, times, ids and numbers of processes."""
    pattern = re.escape(line)
    for shown, meant in (
        (r"\d{4}\\-\d\d\\-\d\d", r"\d{4}-\d\d-\d\d"),
        (r"\d\d:\d\d:\d\d,\d{3}", r"\d\d:\d\d:\d\d,\d{3}"),
        (r"[0-9a-f]{8}\\-…", "[0-9a-f-]{36}"),
        ("…", ".*"),
        (r"\d\\\.\d+\\ s", r"\d+\.\d+ s"),
        (r"laptop", r"\S+"),
        (r"process\\ \d+", r"process \d+"),
    ):
        pattern = re.sub(shown, lambda _, meant=meant: meant, pattern)
    return pattern


@pytest.fixture
def reader(tmp_path):
    reader = FirstJob(tmp_path)
    yield reader
    reader.close()


def test_the_first_job(reader, tmp_path):
    for kind, content, path in blocks("first-job.md"):
        if kind == "console":
            for command, shown in commands(content):
                reader.follow(command, shown)
        elif kind == "text":
            reader.requeue()
            reader.says(reader.processes[-1], content)
        else:
            assert path is not None, content
            write(content, path, tmp_path)
    assert (tmp_path / "receipts" / "1.txt").read_text() == "ada@example.org has bought: teapot\n"
    assert reader.ask("print(Job.objects.count(), DeadLetterJob.objects.count(), JobLog.objects.count())") == "0 0 4"
    executor = reader.processes[-1]
    executor.send_group(signal.SIGINT)  # Ctrl-C
    assert executor.ended() == 0, executor.text
