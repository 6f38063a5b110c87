"""Through the gateways: workers get variables decrypted, searches show none, and the policy is asked about clients."""

import json
from typing import Any

import pytest

import jobexec
from jobexec.models import AuditLog, ExternalWorkerJob, Job, Message

from .v2 import URLS, V2

SECRET = "marker-4111-1111"

pytestmark = [pytest.mark.transactional, pytest.mark.urls(URLS)]

asked: list[Any] = []


def nobody(request: Any) -> str:
    asked.append(request)
    return "Only on Mondays."


@pytest.fixture
def v2(engine: str, settings: Any) -> V2:
    keys = {"2026": lambda: b"k" * 32}
    settings.JOBEXEC = {**settings.JOBEXEC, "GATEWAY_AUTH": "none", "ENCRYPTION_KEYS": keys}
    return V2()


def make(alias: str) -> Any:
    return jobexec.external_job("pay", variables={"card": SECRET}, encrypted=True, database=alias)


@pytest.mark.gate
def test_a_worker_gets_them_and_a_search_does_not(alias: str, v2: V2) -> None:
    make(alias)
    assert SECRET not in json.dumps(v2.post("/jobs/search", {}))
    (job,) = v2.activate()
    assert job["variables"] == {"card": SECRET}
    assert SECRET not in json.dumps(v2.post("/jobs/search", {}))
    v2.post(f"/jobs/{job['jobKey']}/failure", {"retries": 0, "errorMessage": SECRET})
    assert v2.status == 204
    for path in ("/jobs/search", "/incidents/search"):
        assert SECRET not in json.dumps(v2.post(path, {}))


def test_the_policy_is_asked_about_clients(alias: str, v2: V2, settings: Any) -> None:
    row = make(alias)
    settings.JOBEXEC = {**settings.JOBEXEC, "AUTHORIZATION": f"{__name__}.nobody"}
    asked.clear()
    v2.call("PATCH", f"/jobs/{row.job_key}", {"changeset": {"retries": 7}})
    v2.refused(403, "FORBIDDEN", "Only on Mondays.")
    assert [request.action for request in asked] == ["set_external_retries"]
    assert ExternalWorkerJob.objects.using(alias).get().retries == 3
    assert AuditLog.objects.using(alias).get().new_value == {"refused": "Only on Mondays."}
    (job,) = v2.activate()
    assert v2.post(f"/jobs/{job['jobKey']}/completion", {}) is None, "workers are not asked about"
    assert v2.status == 204


def test_the_policy_is_asked_who_publishes(alias: str, v2: V2, settings: Any) -> None:
    v2.post("/messages/publication", {"name": "paid", "correlationKey": "o-1", "timeToLive": 60_000})
    assert v2.status == 200
    entry = AuditLog.objects.using(alias).get()
    assert (entry.operator_type, entry.via) == ("client", "REST")
    settings.JOBEXEC = {**settings.JOBEXEC, "AUTHORIZATION": f"{__name__}.nobody"}
    asked.clear()
    v2.post("/messages/publication", {"name": "paid", "correlationKey": "o-2", "timeToLive": 60_000})
    v2.refused(403, "FORBIDDEN", "Only on Mondays.")
    assert [(request.action, request.principal is None) for request in asked] == [("publish_message", False)]
    assert Message.objects.using(alias).count() == 1


def test_a_completion_that_cannot_be_read_now_may_be_sent_again(alias: str, v2: V2, settings: Any, handle: Any) -> None:
    callback = handle(lambda variables: None, name="tests.after")
    jobexec.external_job("pay", variables={"card": SECRET}, encrypted=True, on_complete=callback, database=alias)
    (job,) = v2.activate()
    keys = settings.JOBEXEC["ENCRYPTION_KEYS"]

    def away() -> bytes:
        raise ConnectionError

    settings.JOBEXEC = {**settings.JOBEXEC, "ENCRYPTION_KEYS": {"2026": away}}
    v2.post(f"/jobs/{job['jobKey']}/completion", {"variables": {"by": "w"}})
    v2.refused(503, "UNAVAILABLE", "cannot be loaded")
    settings.JOBEXEC = {**settings.JOBEXEC, "ENCRYPTION_KEYS": keys}
    v2.post(f"/jobs/{job['jobKey']}/completion", {"variables": {"by": "w"}})
    assert v2.status == 204
    assert Job.objects.using(alias).get().handler_type == "tests.after"
