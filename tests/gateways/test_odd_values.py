"""What no database can hold, from clients of the REST gateways: refused, and not an error of the server."""

import json
from typing import Any

import pytest

from jobexec import external_job
from jobexec.gateways.long_polling.places import Queue
from tests.gateways import engine_rest
from tests.gateways.engine_rest import EngineRest

NUL, HALF, HUGE = "a\0b", "a\ud800b", 2**70


@pytest.fixture(autouse=True)
def job(alias: str, engine: str) -> Any:
    return external_job("pay", process_instance_id="1", database=alias)


@pytest.fixture
def rest(v2: Any, settings: Any) -> EngineRest:
    settings.ROOT_URLCONF = engine_rest.URLS
    return EngineRest()


def deep(levels: int) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = [value]
    return value


@pytest.mark.parametrize("odd", [NUL, HALF])
@pytest.mark.parametrize("member", ["type", "worker", "tenantIds", "fetchVariable"])
def test_activation(v2, member, odd):
    v2.activate(**{member: [odd] if member in ("tenantIds", "fetchVariable") else odd})
    assert v2.status in (200, 400), v2.body


@pytest.mark.parametrize("odd", [NUL, HALF])
@pytest.mark.parametrize("member", ["type", "worker", "tenantId", "errorMessage", "elementId"])
def test_searches(v2, member, odd):
    v2.post("/jobs/search", {"filter": {member: odd}})
    assert v2.status in (200, 400), v2.body
    v2.post("/jobs/search", {"filter": {member: {"$in": [odd]}}})
    assert v2.status in (200, 400), v2.body


@pytest.mark.parametrize("member", ["priority", "retries", "jobKey"])
def test_searches_for_numbers(v2, member):
    for condition in (HUGE, -HUGE, {"$in": [HUGE]}, {"$gt": HUGE}):
        v2.post("/jobs/search", {"filter": {member: condition}})
        assert v2.status in (200, 400), v2.body


def test_statistics(v2):
    span = "from=2026-01-01T00:00:00Z&to=2027-01-01T00:00:00Z"
    v2.call("GET", f"/jobs/statistics/global?{span}&jobType=a%00b")
    assert v2.status in (200, 400), v2.body


def test_variables(alias, v2, job):
    for odd in (NUL, HALF, deep(900), float("inf"), float("nan")):
        v2.post(f"/jobs/{job.job_key}/completion", {"variables": {"x": odd}})
        assert v2.status in (204, 400), v2.body
        if v2.status == 204:
            job = external_job("pay", database=alias)
    v2.call("POST", f"/jobs/{job.job_key}/completion", '{"variables": {"x": 1e400}}')
    v2.refused(400, "INVALID_ARGUMENT", "variables")
    v2.post(f"/jobs/{job.job_key}/error", {"errorCode": HALF, "errorMessage": HALF})
    assert v2.status == 400, v2.body
    v2.post(f"/jobs/{job.job_key}/failure", {"errorMessage": NUL, "retries": 3, "jobLeaseToken": HALF})
    assert v2.status in (409, 400), v2.body


@pytest.mark.parametrize("odd", [NUL, HALF])
@pytest.mark.parametrize(
    "member",
    ["topicName", "businessKey", "processDefinitionId", "processDefinitionKeyIn", "tenantIdIn", "processVariables"],
)
def test_fetch_and_lock(rest, member, odd):
    value = {odd: odd} if member == "processVariables" else [odd] if member.endswith("In") else odd
    topic = {"topicName": "pay", "lockDuration": 1000, member: value}
    status, answer = rest.post("/external-task/fetchAndLock", workerId="w", maxTasks=1, topics=[topic])
    assert status in (200, 400), answer


@pytest.fixture
def entered(monkeypatch: Any) -> list[Any]:
    """The hub asks for the types of all who wait in one statement."""
    places: list[Any] = []
    monkeypatch.setattr(Queue, "enter", lambda queue, place: places.append(place))
    return places


NO_TYPES = [NUL, HALF, "x" * 256]


@pytest.mark.parametrize("odd", NO_TYPES)
def test_a_type_that_no_job_can_have_reaches_no_queue(v2, entered, odd):
    v2.activate(type=odd, requestTimeout=1)
    v2.refused(400, "INVALID_ARGUMENT", "type")
    assert not entered


@pytest.mark.parametrize("odd", NO_TYPES)
def test_a_topic_that_no_task_can_have_reaches_no_queue(rest, entered, odd):
    topic = {"topicName": odd, "lockDuration": 1000}
    given = {"workerId": "w", "maxTasks": 1, "topics": [topic], "asyncResponseTimeout": 1}
    status, answer = rest.post("/external-task/fetchAndLock", **given)
    assert (status, answer["type"]) == (400, "InvalidRequestException")
    assert "topicName" in answer["message"]
    assert not entered


@pytest.mark.parametrize("number", ["+-5", "9" * 5000, HUGE, 10**30])
def test_numbers_of_camunda_7(rest, number):
    topics = [{"topicName": "pay", "lockDuration": number}]
    asked = {"workerId": "w", "maxTasks": number, "asyncResponseTimeout": number, "topics": topics}
    status, answer = rest.send("POST", "/external-task/fetchAndLock", json.dumps(asked))
    assert (status, answer["type"]) == (400, "InvalidRequestException")
    status, answer = rest.post("/external-task", priorityHigherThanOrEquals=number)
    assert status in (200, 400), answer


@pytest.mark.parametrize("name", ["topicName", "workerId", "processInstanceId", "tenantIdIn", "activityId"])
def test_queries_of_camunda_7(rest, name):
    status, answer = rest.get("/external-task", **{name: NUL})
    assert status in (200, 400), answer
    assert rest.get("/execution/a%00b/localVariables/x/data")[0] in (400, 404)


@pytest.mark.parametrize(
    "path", ["/v2/jobs/1%0ACRITICAL%20root:%20nothing/completion", f"/v2/jobs/{'9' * 5000}/completion"]
)
def test_an_address_makes_no_line_of_its_own(v2, caplog, monkeypatch, path):
    def broken(*args: Any, **kwargs: Any) -> None:
        raise RuntimeError("broken")

    monkeypatch.setattr("jobexec.gateways.rest.camunda8.endpoint.key_in", broken)
    v2.call("POST", path.removeprefix("/v2"), {})
    lines = [record.getMessage() for record in caplog.records if record.name == "jobexec.gateway"]
    assert any("failed" in line for line in lines)
    assert all("\n" not in line and len(line) < 700 for line in lines)
