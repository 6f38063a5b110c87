"""The ways by which a worker of the benchmark gets jobs and hands them in: one connection, used by one thread."""

from __future__ import annotations

import http.client
import json
from collections.abc import Callable
from contextlib import AbstractContextManager, closing
from datetime import timedelta
from typing import Any, Protocol

from jobexec.operations import external
from jobexec.operations.external.types import Fetch
from jobexec.runtime.connections import close_connections

from ..measure import BenchError
from ..noop import HANDLER_PREFIX
from ..raw.external import RawWorker

TYPE = f"{HANDLER_PREFIX}external"
BATCH = 32
#: How long a worker has its jobs; longer than any run.
TIMEOUT = timedelta(minutes=10)
_PATIENCE = 60.0
_SENT = {"paid": True}


class Door(Protocol):
    """``activate`` returns keys, and waits for so many milliseconds for the first job; 0 does not wait."""

    def activate(self, most: int, wait: int = 0) -> list[int]: ...

    def complete(self, key: int) -> None: ...

    def close(self) -> None: ...


class Operations:
    """The operations, called in this process."""

    def __init__(self, order: dict[str, Any], worker: str) -> None:
        self._using = order["alias"]
        self._fetch = Fetch(type=TYPE, worker=worker, timeout=TIMEOUT, max_jobs=BATCH)

    def activate(self, most: int, wait: int = 0) -> list[int]:
        return [job.key for job in external.activate_jobs(self._using, self._fetch)]

    def complete(self, key: int) -> None:
        external.complete_external_job(self._using, key, _SENT)

    def close(self) -> None:
        close_connections()


class Raw:
    """Raw SQL on a connection of its own."""

    def __init__(self, order: dict[str, Any], worker: str) -> None:
        self._worker = RawWorker(order["alias"], TYPE, worker, order["on_complete"], _SENT)

    def activate(self, most: int, wait: int = 0) -> list[int]:
        return self._worker.activate(most)

    def complete(self, key: int) -> None:
        self._worker.complete(key)

    def close(self) -> None:
        self._worker.close()


class Rest:
    """Camunda 8's REST API, over one connection that is kept."""

    _HEADERS = {"Content-Type": "application/json"}

    def __init__(self, order: dict[str, Any], worker: str) -> None:
        self._connection = http.client.HTTPConnection("127.0.0.1", order["port"], timeout=_PATIENCE)
        milliseconds = round(TIMEOUT.total_seconds() * 1000)
        self._asked = {"type": TYPE, "worker": worker, "timeout": milliseconds}

    def activate(self, most: int, wait: int = 0) -> list[int]:
        body = {**self._asked, "maxJobsToActivate": most, "requestTimeout": wait or -1}
        answer = json.loads(self._post("/v2/jobs/activation", body, 200))
        return [int(job["jobKey"]) for job in answer["jobs"]]

    def complete(self, key: int) -> None:
        self._post(f"/v2/jobs/{key}/completion", {"variables": _SENT}, 204)

    def close(self) -> None:
        self._connection.close()

    def _post(self, path: str, body: Any, expected: int) -> bytes:
        self._connection.request("POST", path, json.dumps(body).encode(), self._HEADERS)
        response = self._connection.getresponse()
        content = response.read()
        if response.status != expected:
            raise BenchError(f"POST {path}: expected {expected}, got {response.status}: {content[:200]!r}.")
        return content


class Grpc:
    """Zeebe's interface over gRPC, over one channel."""

    def __init__(self, order: dict[str, Any], worker: str) -> None:
        import grpc

        from jobexec.gateways.grpc import gateway_pb2, gateway_pb2_grpc

        self._messages: Any = gateway_pb2
        # Channels of a process share their connections otherwise, and clients are to be like processes.
        options = [("grpc.use_local_subchannel_pool", 1)]
        self._channel = grpc.insecure_channel(f"127.0.0.1:{order['port']}", options)
        self._stub: Any = gateway_pb2_grpc.GatewayStub(self._channel)  # type: ignore[no-untyped-call,unused-ignore]
        milliseconds = round(TIMEOUT.total_seconds() * 1000)
        self._asked = {"type": TYPE, "worker": worker, "timeout": milliseconds}
        self._sent = json.dumps(_SENT)

    def activate(self, most: int, wait: int = 0) -> list[int]:
        request = self._messages.ActivateJobsRequest(**self._asked, maxJobsToActivate=most, requestTimeout=wait or -1)
        return [job.key for answer in self._stub.ActivateJobs(request, timeout=_PATIENCE) for job in answer.jobs]

    def complete(self, key: int) -> None:
        request = self._messages.CompleteJobRequest(jobKey=key, variables=self._sent)
        self._stub.CompleteJob(request, timeout=_PATIENCE)

    def close(self) -> None:
        self._channel.close()


DOORS: dict[str, Callable[[dict[str, Any], str], Door]] = {
    "ours": Operations,
    "raw": Raw,
    "rest": Rest,
    "grpc": Grpc,
}


def opened(order: dict[str, Any], worker: str) -> AbstractContextManager[Door]:
    """A door, closed at the end of the block."""
    return closing(DOORS[order["door"]](order, worker))
