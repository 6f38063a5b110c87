"""mypy checks the arguments of `enqueue` against the function."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.suite.databases import ROOT

# Not called .py, so that only this test and not the gate has mypy read it.
SNIPPET = Path(__file__).with_name("snippet.txt")
EXPECTED = re.compile(r"# error: \[(.+)\]$")
REPORTED = re.compile(r"snippet\.py:(\d+): error: .*\[([\w-]+)\]$")


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_mypy_finds_these_errors_and_no_others(tmp_path):
    pytest.importorskip("mypy")
    pytest.importorskip("mypy_django_plugin")
    code = tmp_path / "snippet.py"
    code.write_text(SNIPPET.read_text())
    cache = os.environ.get("MYPY_CACHE_DIR") or tmp_path  # that of the gate, which has read the package
    command = [sys.executable, "-m", "mypy", f"--cache-dir={cache}", "--no-error-summary", str(code)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    found: dict[int, set[str]] = {}
    for line in done.stdout.splitlines():
        report = REPORTED.search(line)
        if report:
            found.setdefault(int(report[1]), set()).add(report[2])
    missed, allowed = [], set()
    for number, line in enumerate(SNIPPET.read_text().splitlines(), 1):
        expected = EXPECTED.search(line)
        if expected:
            allowed.add(number)
            if not found.get(number, set()) & set(expected[1].split(", ")):
                missed.append(f"{number}: {line} (found: {found.get(number)})")
    assert not missed, "\n".join(missed) + done.stdout + done.stderr
    assert set(found) == allowed, done.stdout + done.stderr
