"""Real, unmodified clients from PyPI and npm, each set in an environment of its own, made once per machine.

    interpreter = clients.python("camunda-orchestration-sdk")
    folder = clients.node("@camunda8/sdk")          # the one that has node_modules

Both skip the test, and say why, where the packages cannot be installed. Packages that cannot live together
(zeebe-grpc and pyzeebe) are asked for in two calls. A name without a version gets the one of `VERSIONS`, so that a new
release of a client is news and no mystery.
"""

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from pathlib import Path

import pytest

VERSIONS = {
    "camunda-orchestration-sdk": "10.0.1",
    "pyzeebe": "4.7.0",
    "zeebe-grpc": "8.4.13",
    "camunda-external-task-client-python3": "4.5.0",
    "@camunda8/orchestration-cluster-api": "9.1.5",
    "@camunda8/sdk": "8.8.13",
    "zeebe-node": "8.3.2",
    "zbctl": "8.4.1",
    "camunda-external-task-client-js": "3.1.0",
}
CACHE = Path(tempfile.gettempdir()) / f"jobexec-clients-{os.getuid()}"
_INSTALLATION = 100.0
_DONE, _FAILED = "installed", "failed"
#: What of this process's environment would change a client's.
_OURS = ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV", "DJANGO_SETTINGS_MODULE", "PYTHONWARNINGS")


def python(*packages: str) -> Path:
    """The interpreter of an environment that has these packages from PyPI; skips the test if it cannot be made."""
    return Path(_environment("python", _wanted(packages, "=="), _make_python)) / "bin" / "python"


def node(*packages: str) -> Path:
    """A folder with `node_modules` of these packages from npm; skips the test if it cannot be made."""
    if shutil.which("node") is None or shutil.which("npm") is None:
        pytest.skip("there is no node and npm here")
    return Path(_environment("node", _wanted(packages, "@"), _make_node))


def environment(**variables: str) -> dict[str, str]:
    """The environment variables for a client's process: this process's, without what concerns our own Python."""
    kept = {name: value for name, value in os.environ.items() if name not in _OURS and not name.startswith("CAMUNDA_")}
    return kept | {"PYTHONUNBUFFERED": "1", "NO_COLOR": "1"} | variables


def run(
    program: Path | str, script: Path | str, *arguments: str, timeout: float = 60.0, **variables: str
) -> subprocess.CompletedProcess[str]:
    """Run a script of a client to its end; asserts that it ended well. For node, `program` is the folder."""
    completed = subprocess.run(
        command(program, script, *arguments),
        env=environment(**variables) | _node_path(program),
        capture_output=True,
        text=True,
        timeout=timeout,
    )
    assert completed.returncode == 0, f"{completed.stdout}\n--- stderr:\n{completed.stderr}"
    return completed


@contextmanager
def started(
    program: Path | str, script: Path | str, *arguments: str, **variables: str
) -> Iterator["subprocess.Popen[str]"]:
    """A running script of a client with pipes for its output, which is killed at the end of the block."""
    process = subprocess.Popen(
        command(program, script, *arguments),
        env=environment(**variables) | _node_path(program),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def command(program: Path | str, script: Path | str, *arguments: str) -> list[str]:
    """How a script is started: by the interpreter of :func:`python`, or by node for the folder of :func:`node`."""
    executable = "node" if Path(program).is_dir() else str(program)
    return [executable, str(script), *arguments]


def _node_path(program: Path | str) -> dict[str, str]:
    # For require(). An ES module is only found from a file beside node_modules: write such scripts there.
    return {"NODE_PATH": str(Path(program) / "node_modules")} if Path(program).is_dir() else {}


def _wanted(packages: tuple[str, ...], sign: str) -> tuple[str, ...]:
    return tuple(sorted(f"{name}{sign}{VERSIONS[name]}" if name in VERSIONS else name for name in packages))


@cache
def _attempt(kind: str, packages: tuple[str, ...], make: Callable[[Path, tuple[str, ...]], None]) -> tuple[str, str]:
    """The folder, and why it is of no use ("" if it is)."""
    digest = hashlib.sha256(repr((packages, sys.version_info[:2])).encode()).hexdigest()[:12]
    folder = CACHE / f"{kind}-{digest}"
    CACHE.mkdir(mode=0o700, exist_ok=True)
    with open(f"{folder}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # another process of this run, or another run, makes it just now
        if (folder / _DONE).exists():
            return str(folder), ""
        if (folder / _FAILED).exists() and os.environ.get("PYTEST_XDIST_TESTRUNUID", "-") == (
            folder / _FAILED
        ).read_text().partition("\n")[0]:
            return str(folder), (folder / _FAILED).read_text().partition("\n")[2]  # of this very run
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        try:
            make(folder, packages)
        except (OSError, subprocess.SubprocessError) as error:
            reason = f"{' '.join(packages)} cannot be installed: {_text(error)}"
            (folder / _FAILED).write_text(f"{os.environ.get('PYTEST_XDIST_TESTRUNUID', '')}\n{reason}")
            return str(folder), reason
        (folder / _DONE).touch()
        return str(folder), ""


def _environment(kind: str, packages: tuple[str, ...], make: Callable[[Path, tuple[str, ...]], None]) -> str:
    folder, reason = _attempt(kind, packages, make)
    if reason:
        pytest.skip(reason)
    return folder


def _make_python(folder: Path, packages: tuple[str, ...]) -> None:
    _call([sys.executable, "-m", "venv", str(folder)])
    _call([str(folder / "bin" / "python"), "-m", "pip", "install", "--disable-pip-version-check", "-q", *packages])


def _make_node(folder: Path, packages: tuple[str, ...]) -> None:
    (folder / "package.json").write_text('{"private": true}')
    _call(["npm", "install", "--no-audit", "--no-fund", "--loglevel=error", *packages], folder)


def _call(line: list[str], folder: Path | None = None) -> None:
    variables: Mapping[str, str] = environment()
    subprocess.run(line, cwd=folder, env=variables, check=True, capture_output=True, text=True, timeout=_INSTALLATION)


def _text(error: Exception) -> str:
    said = getattr(error, "stderr", None) or str(error)
    return " ".join(str(said).split())[-400:]
