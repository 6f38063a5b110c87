"""The tutorial of processes, step by step as a reader follows it: each file is written, and each command is run."""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.suite.databases import ROOT

pytest.importorskip("lxml")
pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

PAGE = ROOT / "docs" / "tutorial" / "first-process.md"
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
FILE = re.compile(r"`([\w/]+\.\w+)`")
#: What prepares a reader's machine; here jobexec is installed.
PREPARES = ("mkdir", "python3 -m venv", "pip install")


def blocks():
    """Kind and content of each block, with the file that the paragraph before it names last, if it names one."""
    text, at = PAGE.read_text(), 0
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


def run(command, folder):
    """The output of one command."""
    if command.startswith(PREPARES):
        return ""
    name, *arguments = shlex.split(command)
    program = [sys.executable] if name == "python" else [sys.executable, "-m", "django"]
    assert name in ("python", "django-admin"), command
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("DJANGO", "JOBEXEC"))}
    environment |= {"PYTHONPATH": str(ROOT), "PYTHONWARNINGS": "ignore"}
    done = subprocess.run(
        [*program, *arguments], cwd=folder, env=environment, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
    return done.stdout


def write(content, path, folder):
    """Write a file, or add to one that is there already."""
    file = folder / path
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.open("a", encoding="utf-8") as opened:
        opened.write(f"\n{content}" if file.exists() and file.stat().st_size else content)


@pytest.mark.nightly
def test_each_file_and_each_command(tmp_path: Path):
    ran = 0
    for kind, content, path in blocks():
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
