"""The health port: /startup, /ready and /live over HTTP, with 200 or 503 and the reasons as JSON."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler
from typing import Any

from ...runtime.side_port import BoundedServer, HttpPort, place_of
from .report import PROBES, Report

logger = logging.getLogger("jobexec.executor")

_PATHS = [f"/{probe}" for probe in PROBES]


def parse_port(text: str) -> int:
    """Parse a TCP port; 0 is any free one. Raises ValueError."""
    if not text.isdecimal() or int(text) > 65535:
        raise ValueError(f"expected a port from 0 to 65535, got {text!r}")
    return int(text)


class HealthServer(HttpPort):
    """Answers probes with the current ``report``.

    ``port`` 0 takes any free one. Raises NodeRefused if it cannot listen there.
    """

    def __init__(self, host: str, port: int, report: Callable[[], Report]) -> None:
        super().__init__("--health-port", "jobexec-health", host, port, lambda: _Server(host, port, report))


class _Server(BoundedServer):
    def __init__(self, host: str, port: int, report: Callable[[], Report]) -> None:
        self.report = report
        self.address_family, address = place_of(host, port)
        super().__init__(address, _Handler)

    def handle_error(self, request: Any, client_address: Any) -> None:
        logger.debug("A request to the health port failed", exc_info=True)


class _Handler(BaseHTTPRequestHandler):
    server: _Server

    def do_GET(self) -> None:
        path = self.path.partition("?")[0].rstrip("/")
        if path not in _PATHS:
            self._answer(HTTPStatus.NOT_FOUND, {"error": f"expected one of {', '.join(_PATHS)}"})
            return
        answer = self.server.report().answer(path[1:])
        self._answer(HTTPStatus.OK if answer["ok"] else HTTPStatus.SERVICE_UNAVAILABLE, answer)

    do_HEAD = do_GET

    def _answer(self, status: HTTPStatus, answer: dict[str, Any]) -> None:
        body = (json.dumps(answer, indent=2) + "\n").encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Cache-Control", "no-store")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def version_string(self) -> str:
        """The value of the header Server, without version numbers."""
        return "jobexec"

    def log_message(self, format: str, *arguments: Any) -> None:
        """Log nothing: probes arrive all the time."""
