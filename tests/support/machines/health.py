"""Query the health port of a started command."""

import json
import re
from typing import Any, NamedTuple
from urllib.error import HTTPError
from urllib.request import urlopen

from tests.support.machines.processes import Process
from tests.support.waiting import TIMEOUT, until


class Answer(NamedTuple):
    code: int
    body: dict[str, Any]


def url(process: Process) -> str:
    """Return the address that the command has printed; for `--health-port 0`."""
    found = until(lambda: re.search(r"Health: (http://\S+) with", process.text) or process.popen.poll() is not None)
    assert found is not True, process.text
    return str(found[1])


def ask(process: Process, probe: str) -> Answer:
    """Return the response to /startup, /ready or /live."""
    try:
        with urlopen(f"{url(process)}/{probe}", timeout=TIMEOUT) as answer:
            return Answer(answer.status, json.load(answer))
    except HTTPError as error:
        with error:
            return Answer(error.code, json.load(error))
