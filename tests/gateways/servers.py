"""The gateways in a web server of their own: uvicorn in a process, on the database of the test.

    with servers.asgi(alias) as server:                      # GATEWAY_AUTH is "none" unless the test says otherwise
        requests_to(server.url + "/engine-rest/external-task")

The test must be marked as transactional: another process sees only what is committed.
"""

import re
import signal
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from tests.support.machines.processes import Process
from tests.support.suite import databases
from tests.support.waiting import until

URLS = "jobexec.gateways.rest.urls"
_RUNNING = re.compile(r"running on http://[^:]+:(\d+)")
_START = 60.0


class Server:
    """A running server. `text` is what it has said so far."""

    def __init__(self, process: Process, port: int) -> None:
        self.process, self.port = process, port
        self.url = f"http://127.0.0.1:{port}"

    @property
    def text(self) -> str:
        return self.process.text

    def stop(self) -> None:
        """As an operator stops it: what runs may end."""
        self.process.send(signal.SIGTERM)
        self.process.ended()


@contextmanager
def asgi(
    alias: str,
    *,
    jobexec: Mapping[str, Any] | None = None,
    urls: str = URLS,
    port: int = 0,
    probes: bool = True,
    application: str = "",
    **settings: Any,
) -> Iterator[Server]:
    """A server on a free port (or on ``port``); it is killed at the end of the block, if it still lives.

    ``jobexec`` replaces keys of JOBEXEC, other keywords whole settings. Without ``probes`` it does not look for jobs of
    which it has not been told, where it can be told: what comes in time has come by a notice. ``application`` is served
    instead of the project's own.
    """
    keys = {"ENGINES": {"default": {}}, "GATEWAY_AUTH": "none", **(jobexec or {})}
    environment = databases.environment(alias, JOBEXEC=keys, ROOT_URLCONF=urls, **settings)
    factory = "django.core.asgi:get_asgi_application" if probes else f"{__name__}:without_probes"
    served = [application] if application else ["--factory", factory]
    options = [*served, "--host", "127.0.0.1", "--port", str(port), "--lifespan", "off"]
    process = Process([sys.executable, "-m", "uvicorn", *options], environment)
    try:
        until(lambda: _port(process) or process.popen.poll() is not None, _START)
        found = _port(process)
        assert found is not None, process.text
        yield Server(process, found)
    finally:
        process.close()


def without_probes() -> Any:
    """The application of a server that has no other way to learn of a job than to be told."""
    from django.core.asgi import get_asgi_application

    application = get_asgi_application()
    from jobexec.gateways.long_polling import watch  # now that Django is set up

    watch.PROBE = 3600.0
    return application


def _port(process: Process) -> int | None:
    found = _RUNNING.search(process.text)
    return int(found.group(1)) if found else None
