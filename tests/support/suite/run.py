"""One run of the tests, possibly in several processes: its folder, and resources that are started only once.

The process that starts a run, pytest or the controller of pytest-xdist, describes it in an environment variable. Its
child processes read the variable and belong to the same run.
"""

import atexit
import json
import os
import shutil
import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

_VARIABLE = "JOBEXEC_TEST_RUN"


def folder() -> Path:
    """Return the run's temporary folder, which is deleted at its end."""
    return Path(_description()["folder"])


def database() -> str:
    """Return the name of the run's databases; runs that share a server must not share a database."""
    return f"test_jobexec_{_description()['pid']}"


def is_ours() -> bool:
    """Whether this process started the run."""
    return bool(_description()["pid"] == os.getpid())


def once(name: str, make: Callable[[], str]) -> str:
    """Return the result of `make` in the process that started the run; '' if it was not called there."""
    description = _description()
    if is_ours() and name not in description:
        description[name] = make()
        os.environ[_VARIABLE] = json.dumps(description)
    return str(description.get(name, ""))


def at_the_end(function: Callable[[], Any]) -> None:
    """Call a function when this process ends, but not when a forked child ends."""
    pid = os.getpid()
    atexit.register(lambda: function() if os.getpid() == pid else None)


@cache
def _description() -> dict[str, Any]:
    told = os.environ.get(_VARIABLE)
    if told:
        description: dict[str, Any] = json.loads(told)
        return description
    # Otherwise each process would compile all of jobexec and the tests.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    path = tempfile.mkdtemp(prefix="jobexec-tests-")
    at_the_end(lambda: shutil.rmtree(path, ignore_errors=True))
    description = {"folder": path, "pid": os.getpid()}
    os.environ[_VARIABLE] = json.dumps(description)
    return description
