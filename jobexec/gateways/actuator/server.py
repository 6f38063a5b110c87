"""The actuator on a separate HTTP port, for the gRPC gateway: ``rungrpcgateway --metrics-port``."""

from __future__ import annotations

import logging
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler
from typing import Any

from jobexec.runtime.side_port import BoundedServer, HttpPort, place_of

from . import answers
from .answers import Answer

logger = logging.getLogger("jobexec.gateway")

_PREFIX = "/actuator/"
_STREAMS = "jobstreams"
_PATIENCE = 5.0  # seconds to wait for data from a connected client
_PATHS = "/metrics, /actuator/prometheus, /actuator/health, /actuator/jobstreams"


def serve_metrics(port: int, host: str = "127.0.0.1") -> MetricsServer:
    """Start to serve ``/metrics`` and ``/actuator/…`` of this process; ``stop()`` ends it.

    ``port`` 0 takes any free port. There is no authentication: do not expose the port to outside networks, as with an
    executor's health port. Raises NodeRefused if it cannot listen there.
    """
    server = MetricsServer(host, port)
    server.start()
    return server


class MetricsServer(HttpPort):
    """An HTTP server in a thread."""

    def __init__(self, host: str, port: int) -> None:
        super().__init__("--metrics-port", "jobexec-gateway-metrics", host, port, lambda: _Server(host, port))


class _Server(BoundedServer):
    deadline = 30.0  # seconds; metrics query the database

    def __init__(self, host: str, port: int) -> None:
        self.address_family, address = place_of(host, port)
        super().__init__(address, _Handler)

    def handle_error(self, request: Any, client_address: Any) -> None:
        logger.debug("A request to the metrics port failed", exc_info=True)


class _Handler(BaseHTTPRequestHandler):
    timeout = _PATIENCE

    def do_GET(self) -> None:
        answer = self._answered(self.path.partition("?")[0].rstrip("/"))
        self.send_response(answer.status)
        self.send_header("Content-Type", answer.content_type)
        self.send_header("Content-Length", str(len(answer.body)))
        self.send_header("Cache-Control", "no-store")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(answer.body)

    do_HEAD = do_GET

    def _answered(self, path: str) -> Answer:
        if path in ("/metrics", f"{_PREFIX}prometheus"):
            return answers.metrics(self.headers.get("Accept", ""))
        if path == f"{_PREFIX}health":
            return answers.health()
        name, _, which = path.removeprefix(_PREFIX).partition("/")
        if path.startswith(_PREFIX) and name == _STREAMS:
            return answers.job_streams(which)
        return answers.as_json({"error": f"expected one of {_PATHS}"}, HTTPStatus.NOT_FOUND)

    def version_string(self) -> str:
        """The Server header, without versions."""
        return "jobexec"

    def log_message(self, format: str, *arguments: Any) -> None:
        """Log nothing: scrapes are frequent and of no interest."""
