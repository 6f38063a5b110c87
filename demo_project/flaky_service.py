"""The flight service: a real HTTP server that fails one time in three.

    python -m demo_project.flaky_service [--seed 17]

POST /flights {"key": "booking-17", "city": "Rome"} reserves a seat and answers {"reference": "..."}. GET / says
how it went so far. POST /outage {"seconds": 20} makes all calls fail for a while. What befalls any other call depends
on the seed, the key and how often the key was asked before, not on the order of the calls: two runs of the demo have
the same dead letters, whatever their threads do.
"""

import argparse
import contextlib
import hashlib
import json
import random
import socket
import struct
import threading
import time
from collections import Counter
from enum import Enum
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

CITIES = frozenset(
    [
        *("Amsterdam", "Athens", "Barcelona", "Berlin", "Copenhagen", "Dublin", "Edinburgh", "Helsinki", "Istanbul"),
        *("Lisbon", "London", "Madrid", "Milan", "Oslo", "Paris", "Prague", "Rome", "Stockholm", "Vienna", "Zurich"),
    ]
)
LATE = 1.6  # seconds; clients wait for one
SLOW = 0.6


class Fate(Enum):
    """What happens to a call."""

    FINE = "fine"
    SLOW = "slow"
    OVERLOADED = "overloaded"
    DROPPED = "connection dropped"
    LATE = "answered too late"


#: Shares of the calls: the last three make a third.
SHARES = {Fate.FINE: 0.62, Fate.SLOW: 0.14 / 3, Fate.OVERLOADED: 0.25, Fate.DROPPED: 0.05, Fate.LATE: 0.1 / 3}


class Flights:
    """The reservations, and the fate of each call."""

    def __init__(self, seed: int) -> None:
        self._seed = seed
        self._lock = threading.Lock()
        self._asked: Counter[str] = Counter()
        self._fates: Counter[Fate] = Counter()
        self._reservations: dict[str, str] = {}
        self._down_until = 0.0

    def fail_for(self, seconds: float) -> None:
        """Let all calls fail for a while."""
        self._down_until = time.monotonic() + seconds

    def fate(self, key: str) -> Fate:
        """What befalls this call."""
        if time.monotonic() < self._down_until:
            with self._lock:
                self._fates[Fate.OVERLOADED] += 1
            return Fate.OVERLOADED  # it does not count: the fate of later calls stays the same
        with self._lock:
            self._asked[key] += 1
            dice = random.Random(f"{self._seed} {key} {self._asked[key]}")
            fate = dice.choices(list(SHARES), list(SHARES.values()))[0]
            self._fates[fate] += 1
        return fate

    def reserve(self, key: str) -> str:
        """The reference for this key. A caller who did not hear the first answer gets no second seat."""
        with self._lock:
            number = hashlib.sha256(f"{self._seed} {key}".encode()).hexdigest()[:6].upper()
            return self._reservations.setdefault(key, f"FLT-{number}")

    def report(self) -> dict[str, Any]:
        with self._lock:
            fates = {fate.value: count for fate, count in self._fates.items()}
            return {"calls": sum(fates.values()), "fates": fates, "reservations": len(self._reservations)}


class Handler(BaseHTTPRequestHandler):
    server: "Service"

    def do_GET(self) -> None:
        self._answer(200, self.server.flights.report())

    def do_POST(self) -> None:
        try:
            request = json.loads(self.rfile.read(int(self.headers.get("Content-Length", 0))) or "{}")
            if self.path == "/outage":
                self.server.flights.fail_for(float(request.get("seconds", 20)))
                return self._answer(200, {"outage": "begun"})
            key, city = str(request["key"]), str(request["city"])
        except (ValueError, KeyError, TypeError):
            return self._answer(400, {"error": "expected JSON with key and city"})
        if city not in CITIES:
            return self._answer(404, {"error": f"no flights to {city}"})
        fate = self.server.flights.fate(key)
        if fate is Fate.OVERLOADED:
            return self._answer(503, {"error": "overloaded, try again later"})
        if fate is Fate.DROPPED:
            return self._drop()
        time.sleep({Fate.SLOW: SLOW, Fate.LATE: LATE}.get(fate, 0))
        return self._answer(200, {"reference": self.server.flights.reserve(key)})

    def _answer(self, code: int, content: dict[str, Any]) -> None:
        body = json.dumps(content).encode()
        try:
            self.send_response(code)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)
        except OSError:
            pass  # the client did not wait

    def _drop(self) -> None:
        # Lingering for no time sends a reset, as a crashed server or a cut line would.
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.close_connection = True
        self.connection.close()

    def log_message(self, format: str, *args: Any) -> None:
        """Silent: one call in three is an error, and meant to be."""


class Service(ThreadingHTTPServer):
    request_queue_size = 128
    daemon_threads = True

    def __init__(self, port: int, flights: Flights) -> None:
        super().__init__(("127.0.0.1", port), Handler)
        self.flights = flights

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A dropped connection is no news."""


def main() -> None:
    parser = argparse.ArgumentParser(description="A flight service that fails one time in three.")
    parser.add_argument("--port", type=int, default=8100, help="0 takes any free port")
    parser.add_argument("--seed", type=int, default=17)
    options = parser.parse_args()
    with Service(options.port, Flights(options.seed)) as service:
        print(f"http://127.0.0.1:{service.server_port}", flush=True)
        with contextlib.suppress(KeyboardInterrupt):
            service.serve_forever()


if __name__ == "__main__":
    main()
