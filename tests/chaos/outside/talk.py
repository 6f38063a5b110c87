"""The ways in which workers talk to jobexec: gRPC, the REST API of Camunda 8 and of Camunda 7, the operations.

What a report comes to is `ok` (accepted), `refused` (by whoever knows the job), or `doubt` (nobody has answered).
"""

import http.client
import json
import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Protocol

import grpc
from django.db import DatabaseError, InterfaceError, connection

from jobexec.exceptions import JobExecError
from jobexec.gateways.grpc import gateway_pb2 as pb
from jobexec.gateways.grpc.gateway_pb2_grpc import GatewayStub
from jobexec.operations import external


@dataclass(frozen=True)
class Got:
    """A job as its worker sees it; `deadline` is a time of the wall clock."""

    key: int
    lease: str
    deadline: float
    retries: int


@dataclass(frozen=True)
class Wish:
    """What a worker asks for; times in seconds. After `patience` it goes away, whatever it has asked for."""

    type: str
    worker: str
    timeout: float
    most: int
    wait: float
    patience: float
    lease: bool


class Away(Exception):
    """There is nobody to ask, or nobody has answered in time."""


class Talker(Protocol):
    def fetch(self, wish: Wish) -> list[Got]:
        """Raises Away."""

    def report(self, verb: str, job: Got, worker: str, **values: Any) -> tuple[str, str]:
        """What it came to, and what was said. `verb` is complete, fail, error or extend."""


_REFUSALS = {
    grpc.StatusCode.NOT_FOUND,
    grpc.StatusCode.FAILED_PRECONDITION,
    grpc.StatusCode.INVALID_ARGUMENT,
    grpc.StatusCode.PERMISSION_DENIED,
}


class Grpc:
    def __init__(self, port: int) -> None:
        options = [("grpc.use_local_subchannel_pool", 1), ("grpc.max_reconnect_backoff_ms", 300)]
        self._stub = GatewayStub(grpc.insecure_channel(f"127.0.0.1:{port}", options))

    def fetch(self, wish: Wish) -> list[Got]:
        request = pb.ActivateJobsRequest(
            type=wish.type,
            worker=wish.worker,
            timeout=int(wish.timeout * 1000),
            maxJobsToActivate=wish.most,
            requestTimeout=int(wish.wait * 1000),
            withLease=wish.lease,
        )
        try:
            answers = self._stub.ActivateJobs(request, timeout=wish.patience)
            return [_got(job) for answer in answers for job in answer.jobs]
        except grpc.RpcError as error:
            raise Away(str(error)) from error

    def stream(self, wish: Wish, seconds: float) -> Iterator[Got]:
        """Ends after so many seconds. Raises Away."""
        request = pb.StreamActivatedJobsRequest(type=wish.type, worker=wish.worker, timeout=int(wish.timeout * 1000))
        call = self._stub.StreamActivatedJobs(request, timeout=seconds)
        try:
            yield from map(_got, call)
        except grpc.RpcError as error:
            if error.code() != grpc.StatusCode.DEADLINE_EXCEEDED:  # type: ignore[attr-defined]
                raise Away(str(error)) from error
        finally:
            call.cancel()

    def report(self, verb: str, job: Got, worker: str, **values: Any) -> tuple[str, str]:
        calls = {
            "complete": (self._stub.CompleteJob, pb.CompleteJobRequest),
            "fail": (self._stub.FailJob, pb.FailJobRequest),
            "error": (self._stub.ThrowError, pb.ThrowErrorRequest),
            "extend": (self._stub.UpdateJobTimeout, pb.UpdateJobTimeoutRequest),
        }
        call, request = calls[verb]
        told: dict[str, Any] = {"jobKey": job.key}
        if job.lease:
            told["jobLeaseToken"] = job.lease
        told |= {_WORDS[name]: value for name, value in values.items()}
        try:
            call(request(**told), timeout=5)
        except grpc.RpcError as error:
            code = error.code()  # type: ignore[attr-defined]
            return "refused" if code in _REFUSALS else "doubt", f"{code.name}: {error.details()}"  # type: ignore[attr-defined]
        return "ok", ""


#: What values of reports are called on the wire.
_WORDS = {"retries": "retries", "back_off": "retryBackOff", "code": "errorCode", "timeout": "timeout"}


def _got(job: Any) -> Got:
    return Got(job.key, job.jobLeaseToken, job.deadline / 1000, job.retries)


class _Http:
    def __init__(self, port: int) -> None:
        self._port = port

    def ask(self, method: str, path: str, body: Any, patience: float = 10) -> tuple[int, Any]:
        """The status and the answer. Raises Away."""
        there = http.client.HTTPConnection("127.0.0.1", self._port, timeout=patience)
        try:
            there.request(method, path, json.dumps(body), {"Content-Type": "application/json"})
            answer = there.getresponse()
            text = answer.read()
            return answer.status, json.loads(text or "null")
        except (OSError, http.client.HTTPException, ValueError) as error:
            raise Away(repr(error)) from error
        finally:
            there.close()

    def tell(self, method: str, path: str, body: Any) -> tuple[str, str]:
        try:
            status, answer = self.ask(method, path, body)
        except Away as error:
            return "doubt", str(error)
        if status == 204:
            return "ok", ""
        return "refused" if status in (400, 404, 409) or answer_of_camunda(answer) else "doubt", f"{status}: {answer}"


def answer_of_camunda(answer: Any) -> bool:
    """Whether Camunda 7 would have refused so: with 500 and the type of the exception."""
    return isinstance(answer, dict) and answer.get("type") in ("RestException", "ProcessEngineException")


class Rest(_Http):
    def fetch(self, wish: Wish) -> list[Got]:
        body = {
            "type": wish.type,
            "worker": wish.worker,
            "timeout": int(wish.timeout * 1000),
            "maxJobsToActivate": wish.most,
            "requestTimeout": int(wish.wait * 1000),
            "withLease": wish.lease,
        }
        status, answer = self.ask("POST", "/v2/jobs/activation", body, wish.patience)
        if status != 200:
            raise Away(f"{status}: {answer}")
        return [
            Got(int(job["jobKey"]), job["jobLeaseToken"] or "", job["deadline"] / 1000, job["retries"])
            for job in answer["jobs"]
        ]

    def report(self, verb: str, job: Got, worker: str, **values: Any) -> tuple[str, str]:
        body: dict[str, Any] = {_WORDS[name]: value for name, value in values.items()}
        if verb == "extend":
            body = {"changeset": body}
        if job.lease:
            body["jobLeaseToken"] = job.lease
        words = {"complete": "/completion", "fail": "/failure", "error": "/error", "extend": ""}
        return self.tell("PATCH" if verb == "extend" else "POST", f"/v2/jobs/{job.key}{words[verb]}", body)


class Camunda(_Http):
    """Knows no leases: whoever fetched last has the job."""

    def fetch(self, wish: Wish) -> list[Got]:
        topic = {"topicName": wish.type, "lockDuration": int(wish.timeout * 1000)}
        body = {"workerId": wish.worker, "maxTasks": wish.most, "topics": [topic]}
        body["asyncResponseTimeout"] = int(wish.wait * 1000)
        status, answer = self.ask("POST", "/engine-rest/external-task/fetchAndLock", body, wish.patience)
        if status != 200:
            raise Away(f"{status}: {answer}")
        return [
            Got(
                int(task["id"]),
                "",
                datetime.strptime(task["lockExpirationTime"], "%Y-%m-%dT%H:%M:%S.%f%z").timestamp(),
                3 if task["retries"] is None else task["retries"],
            )
            for task in answer
        ]

    def report(self, verb: str, job: Got, worker: str, **values: Any) -> tuple[str, str]:
        names = {"retries": "retries", "back_off": "retryTimeout", "code": "errorCode", "timeout": "newDuration"}
        body = {"workerId": worker, **{names[name]: value for name, value in values.items()}}
        words = {"complete": "complete", "fail": "failure", "error": "bpmnError", "extend": "extendLock"}
        return self.tell("POST", f"/engine-rest/external-task/{job.key}/{words[verb]}", body)


class Direct:
    def fetch(self, wish: Wish) -> list[Got]:
        end = time.monotonic() + wish.wait
        while True:
            try:
                jobs = external.activate_jobs(
                    "default",
                    external.Fetch(
                        type=wish.type,
                        worker=wish.worker,
                        timeout=timedelta(seconds=wish.timeout),
                        max_jobs=wish.most,
                        with_lease=wish.lease,
                    ),
                )
            except (DatabaseError, InterfaceError) as error:
                connection.close()
                raise Away(str(error)) from error
            if jobs or time.monotonic() > end:
                return [Got(job.key, job.lease_token, job.deadline.timestamp(), job.retries) for job in jobs]
            time.sleep(0.1)

    def report(self, verb: str, job: Got, worker: str, **values: Any) -> tuple[str, str]:
        lease = job.lease or None
        try:
            if verb == "complete":
                external.complete_external_job("default", job.key, {"by": worker}, lease=lease)
            elif verb == "fail":
                pause = timedelta(milliseconds=values["back_off"])
                external.fail_external_job("default", job.key, retries=values["retries"], back_off=pause, lease=lease)
            elif verb == "error":
                external.throw_external_error("default", job.key, code=values["code"], lease=lease)
            else:
                timeout = timedelta(milliseconds=values["timeout"])
                external.extend_external_deadline("default", job.key, timeout, lease=lease)
        except JobExecError as error:
            return "refused", f"{type(error).__name__}: {error}"
        except (DatabaseError, InterfaceError) as error:
            connection.close()
            return "doubt", str(error)
        return "ok", ""
