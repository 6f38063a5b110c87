"""The step of the gate that looks for known weaknesses: what it says, and when it fails."""

import json
import os
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture
def audit(tmp_path):
    """Run it with a ``pip-audit`` that says this; returns the exit code and what was written."""

    def run(stdout="", stderr="", status=0):
        (tmp_path / "out").write_text(stdout)
        (tmp_path / "err").write_text(stderr)
        tool = tmp_path / "pip-audit"
        tool.write_text(f"#!/bin/sh\ncat {tmp_path}/out\ncat {tmp_path}/err >&2\nexit {status}\n")
        tool.chmod(0o755)
        environment = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}", "TMPDIR": str(tmp_path)}
        done = subprocess.run(["bash", ROOT / ".ci/audit"], env=environment, capture_output=True, text=True)
        return done.returncode, done.stdout

    return run


def report(*packages):
    return json.dumps({"dependencies": list(packages)})


WEAK = {"name": "x", "version": "1", "vulns": [{"id": "PYSEC-1", "fix_versions": ["2"]}]}
GOOD = {"name": "y", "version": "1", "vulns": []}
UNKNOWN = {"name": "z", "version": "1", "skip_reason": "Dependency not found on PyPI"}


def test_a_known_weakness_fails(audit):
    assert audit(report(WEAK, GOOD), status=1) == (1, "audit: x 1: PYSEC-1, fixed in: 2\n")


@pytest.mark.gate
def test_nothing_known(audit):
    said = "audit: no weakness is known of 1 packages; 1 could not be looked up\n"
    assert audit(report(GOOD, UNKNOWN)) == (0, said)


@pytest.mark.parametrize(
    "answer", [{"stderr": "ConnectionError: no route", "status": 1}, {"stdout": report(UNKNOWN), "status": 0}]
)
def test_without_a_network_it_says_so_and_does_not_fail(audit, answer):
    code, said = audit(**answer)
    assert code == 0 and said.startswith("audit: NOT AUDITED")
