"""Camunda 8 REST: what a worker does with jobs, and what an operator changes, on every database."""

from datetime import timedelta

import pytest

from jobexec import clock, external_job
from jobexec.gateways.rest.camunda8.activation import wait_of
from jobexec.models import DeadLetterJob, ExternalWorkerJob, Job
from jobexec.operations import external
from jobexec.operations.manage.gateway_clients import create_client
from tests.gateways.v2 import V2

pytestmark = pytest.mark.smoke

MEMBERS = {
    *("type", "processDefinitionId", "processDefinitionVersion", "elementId", "customHeaders", "worker", "retries"),
    *("deadline", "variables", "tenantId", "physicalTenantId", "jobKey", "processInstanceKey", "processDefinitionKey"),
    *("elementInstanceKey", "kind", "listenerEventType", "userTask", "tags", "rootProcessInstanceKey", "businessId"),
    *("priority", "jobLeaseToken"),
}


def test_nobody_is_held_for_ever():
    """Under WSGI nobody notices that a client has gone, which keeps one of few threads meanwhile."""
    assert wait_of({"requestTimeout": 2**62}) == timedelta(minutes=10)
    assert wait_of({"requestTimeout": 1500}) == timedelta(seconds=1.5)
    assert wait_of({"requestTimeout": -1}) == timedelta(0)


def test_a_job_comes_with_all_its_members(alias, v2):
    with clock.FrozenClock() as time:
        row = external_job(
            "charge card",
            variables={"amount": 5, "größe": [1]},
            headers={"method": "card"},
            priority=7,
            tenant_id="north",
            process_instance_id="12",
            process_definition_key="order",
            root_process_instance_id="11",
            element_id="charge",
            business_key="B-1",
            tags=["a"],
            database=alias,
        )
        (job,) = v2.activate("charge card", tenantIds=["north"])
    assert set(job) == MEMBERS
    deadline = int((time.now + timedelta(seconds=60)).timestamp() * 1000)
    expected = {
        "jobKey": str(row.job_key),
        "type": "charge card",
        "worker": "w",
        "retries": 3,
        "deadline": deadline,
        "variables": {"amount": 5, "größe": [1]},
        "customHeaders": {"method": "card"},
        "tenantId": "north",
        "processInstanceKey": "12",
        "rootProcessInstanceKey": "11",
        "processDefinitionId": "order",
        "processDefinitionKey": "-1",
        "elementId": "charge",
        "businessId": "B-1",
        "tags": ["a"],
        "priority": 7,
        "kind": "BPMN_ELEMENT",
        "listenerEventType": "UNSPECIFIED",
        "jobLeaseToken": None,
    }
    assert {name: job[name] for name in expected} == expected


def test_a_job_without_a_process_has_constants(alias, v2):
    external_job("charge card", database=alias)
    (job,) = v2.activate("charge card", fetchVariable=["none"], unheard_of={"x": 1})
    names = ("processDefinitionId", "processInstanceKey", "elementInstanceKey", "elementId", "tenantId", "businessId")
    assert [job[name] for name in names] == ["jobexec", "-1", "-1", "charge_card", "<default>", None]
    assert (job["variables"], job["customHeaders"]) == ({}, {})


def test_only_the_variables_that_are_asked_for(alias, v2):
    external_job("pay", variables={"a": 1, "b": 2}, database=alias)
    (job,) = v2.activate(fetchVariable=["b", "c"])
    assert job["variables"] == {"b": 2}


def test_no_jobs_are_an_empty_list(alias, v2):
    assert v2.activate() == []
    assert v2.status == 200
    assert v2.response["Content-Type"] == "application/json"


@pytest.mark.databases("sqlite")
@pytest.mark.parametrize(
    ("members", "word"),
    [
        ({"type": " "}, "type"),
        ({"type": None}, "type"),
        ({"type": 5}, "type"),
        ({"timeout": 0}, "timeout"),
        ({"timeout": "1000"}, "timeout"),
        ({"timeout": None}, "timeout"),
        ({"maxJobsToActivate": 0}, "maxJobsToActivate"),
        ({"maxJobsToActivate": None}, "maxJobsToActivate"),
        ({"fetchVariable": "a"}, "fetchVariable"),
        ({"tenantIds": [1]}, "tenantIds"),
        ({"tenantFilter": "ALL"}, "tenantFilter"),
        ({"withLease": "yes"}, "withLease"),
        ({"requestTimeout": 1.5}, "requestTimeout"),
        ({"worker": 7}, "worker"),
    ],
)
def test_what_is_wrong_is_named(alias, v2, members, word):
    v2.activate(**members)
    v2.refused(400, "INVALID_ARGUMENT", word)
    assert v2.body["instance"] == "/v2/jobs/activation"


@pytest.mark.databases("sqlite")
@pytest.mark.parametrize("body", ["{", "[]", "7", b"\xff", "[" * 100_000])
def test_a_body_that_is_no_object_is_refused(alias, v2, body):
    v2.post("/jobs/activation", body)
    v2.refused(400, "INVALID_ARGUMENT", "JSON object")


@pytest.mark.databases("sqlite")
def test_other_methods_are_refused(alias, v2):
    v2.call("GET", "/jobs/activation")
    v2.refused(405, "METHOD_NOT_ALLOWED", "POST")
    assert v2.response["Allow"] == "POST"


def test_completing(alias, v2, handle):
    done = handle(lambda variables: None, name="tests.done")
    row = external_job("pay", variables={"a": 1}, on_complete=done, database=alias)
    v2.activate()
    v2.post(f"/jobs/{row.job_key}/completion", {"variables": {"b": 2}, "result": {"type": "userTask"}, "more": 1})
    assert v2.status == 204
    assert not v2.response.content
    job = Job.objects.using(alias).get(pk=row.pk)
    assert job.handler_configuration["kwargs"]["variables"] == {"a": 1, "b": 2}
    v2.post(f"/jobs/{row.job_key}/completion")
    v2.refused(404, "NOT_FOUND", str(row.job_key))
    v2.post(f"/jobs/{row.job_key}/failure", {"retries": 2})  # what clients send next
    v2.refused(404, "NOT_FOUND")


def test_completing_without_a_body(alias, v2):
    row = external_job("pay", database=alias)
    v2.activate()
    v2.post(f"/jobs/{row.job_key}/completion", "")
    assert v2.status == 204


def test_failing_with_a_back_off(alias, v2):
    with clock.FrozenClock() as time:
        row = external_job("pay", variables={"a": 1}, database=alias)
        v2.activate()
        sent = {"retries": 2, "errorMessage": "no luck", "retryBackOff": 5000, "variables": {"a": 2}}
        v2.post(f"/jobs/{row.job_key}/failure", sent)
        assert v2.status == 204
        assert v2.activate() == []
        time.tick(5)
        (job,) = v2.activate()
    assert (job["retries"], job["variables"]) == (2, {"a": 2})
    configuration = ExternalWorkerJob.objects.using(alias).get(pk=row.pk).handler_configuration
    assert configuration["variables"] == {"a": 1}  # those of a failure are the job's own


def test_failing_without_retries_opens_an_incident_that_can_be_resolved(alias, v2):
    row = external_job("pay", database=alias)
    v2.activate()
    v2.post(f"/jobs/{row.job_key}/failure", {})
    assert DeadLetterJob.objects.using(alias).get(pk=row.pk).retries == 0
    v2.post(f"/jobs/{row.job_key}/completion")
    v2.refused(409, "INVALID_STATE", "FAILED")
    (incident,) = v2.post("/incidents/search", {"filter": {"jobKey": str(row.job_key)}})["items"]
    assert (incident["errorType"], incident["state"]) == ("JOB_NO_RETRIES", "ACTIVE")
    assert incident["errorMessage"] == "No more retries left."
    key = incident["incidentKey"]
    v2.post(f"/incidents/{key}/resolution")
    v2.refused(409, "INVALID_STATE", "retries")
    v2.call("PATCH", f"/jobs/{row.job_key}", {"changeset": {"retries": 1}})
    assert v2.status == 204
    v2.post(f"/incidents/{key}/resolution")
    assert v2.status == 204
    assert [job["jobKey"] for job in v2.activate()] == [str(row.job_key)]
    assert v2.call("GET", f"/incidents/{key}")["state"] == "RESOLVED"
    v2.post(f"/incidents/{key}/resolution")
    v2.refused(404, "NOT_FOUND")


def test_an_error_that_nothing_catches(alias, v2):
    row = external_job("pay", database=alias)
    v2.activate()
    v2.post(f"/jobs/{row.job_key}/error", {"errorCode": "NO_MONEY", "errorMessage": "sorry"})
    assert v2.status == 204
    (incident,) = v2.post("/incidents/search", {"filter": {"errorType": "UNHANDLED_ERROR_EVENT"}})["items"]
    assert "NO_MONEY" in incident["errorMessage"]
    v2.post(f"/jobs/{row.job_key}/error", {"errorCode": "NO_MONEY"})
    v2.refused(409, "INVALID_STATE", "ERROR_THROWN")


def test_an_error_that_is_caught(alias, v2, handle):
    caught = handle(lambda variables, error_code, error_message: None, name="tests.caught")
    row = external_job("pay", variables={"a": 1}, on_error={"NO_MONEY": caught}, database=alias)
    v2.activate()
    v2.post(f"/jobs/{row.job_key}/error", {"errorCode": "NO_MONEY", "errorMessage": "sorry", "variables": {"b": 2}})
    kwargs = Job.objects.using(alias).get(pk=row.pk).handler_configuration["kwargs"]
    assert kwargs == {"variables": {"a": 1, "b": 2}, "error_code": "NO_MONEY", "error_message": "sorry"}


@pytest.mark.databases("sqlite")
def test_an_error_without_a_code_is_refused(alias, v2):
    v2.post("/jobs/1/error", {"errorCode": " "})
    v2.refused(400, "INVALID_ARGUMENT", "errorCode")


def test_changing_a_job(alias, v2):
    with clock.FrozenClock() as time:
        row = external_job("pay", database=alias)
        v2.activate()
        v2.call("PATCH", f"/jobs/{row.job_key}", {"changeset": {"retries": 9, "timeout": 1000, "priority": 5}})
        assert v2.status == 204
        found = ExternalWorkerJob.objects.using(alias).get(pk=row.pk)
        assert (found.retries, found.priority) == (9, 5)
        assert found.lock_expiration_time == time.now + timedelta(seconds=1)


def test_of_several_changes_all_are_made_or_none(alias, v2):
    row = external_job("pay", database=alias)
    v2.call("PATCH", f"/jobs/{row.job_key}", {"changeset": {"retries": 9, "timeout": 1000}})
    v2.refused(409, "INVALID_STATE")  # nobody holds it
    assert ExternalWorkerJob.objects.using(alias).get(pk=row.pk).retries == 3


@pytest.mark.databases("sqlite")
@pytest.mark.parametrize(
    "body", [{}, {"changeset": {}}, {"changeset": {"retries": None}}, {"changeset": {"retries": 0}}]
)
def test_a_change_of_nothing_is_refused(alias, v2, body):
    v2.call("PATCH", "/jobs/1", body)
    v2.refused(400, "INVALID_ARGUMENT", "changeset")


@pytest.mark.databases("sqlite")
@pytest.mark.parametrize("key", ["abc", "1.5", "٣", "1" * 26])
def test_a_key_that_is_no_number_is_refused(alias, v2, key):
    v2.post(f"/jobs/{key}/completion")
    v2.refused(400, "INVALID_ARGUMENT", "jobKey")


@pytest.mark.databases("sqlite")
@pytest.mark.parametrize("key", ["-1", "0", "9" * 25])
def test_a_key_that_no_job_has_is_not_found(alias, v2, key):
    v2.post(f"/jobs/{key}/completion")
    v2.refused(404, "NOT_FOUND")
    v2.call("GET", f"/incidents/{key}")
    v2.refused(404, "NOT_FOUND")


def test_a_lease_must_be_shown(alias, v2):
    row = external_job("pay", database=alias)
    (job,) = v2.activate(withLease=True)
    v2.post(f"/jobs/{row.job_key}/completion")
    v2.refused(409, "INVALID_STATE", "lease")
    v2.post(f"/jobs/{row.job_key}/completion", {"jobLeaseToken": job["jobLeaseToken"]})
    assert v2.status == 204


def test_more_waiters_than_threads_are_an_overload(alias, v2, settings):
    settings.JOBEXEC = {**settings.JOBEXEC, "GATEWAY_MAX_WAITERS_IN_THREADS": 0}
    v2.post("/jobs/activation", {"type": "pay", "timeout": 1000, "maxJobsToActivate": 1})
    v2.refused(503, "RESOURCE_EXHAUSTED")
    assert v2.response["Retry-After"] == "1"
    external_job("pay", database=alias)
    assert len(v2.activate(requestTimeout=0)) == 1


def test_a_held_request_is_answered_at_its_time(alias, v2, settings):
    assert v2.activate(requestTimeout=20) == []
    settings.JOBEXEC = {**settings.JOBEXEC, "GATEWAY_LONG_POLL_TIME": 0.02}
    assert v2.activate(requestTimeout=0) == []


@pytest.mark.databases("sqlite")
def test_topology(alias, v2):
    found = v2.call("GET", "/topology")
    assert (found["clusterSize"], found["gatewayVersion"]) == (1, "8.10.0")
    assert found["brokers"][0]["partitions"][0]["role"] == "leader"


@pytest.mark.databases("sqlite")
def test_what_nobody_expected_says_only_that_it_happened(alias, v2, monkeypatch):
    monkeypatch.setattr(external, "complete_external_job", lambda *args, **named: 1 // 0)
    v2.post("/jobs/1/completion")
    v2.refused(500, "INTERNAL")
    assert "division" not in v2.body["detail"]


@pytest.mark.databases("sqlite")
def test_a_deadline_is_not_counted_with_requests_and_what_an_operator_changes_is(alias, v2, settings, no_refill):
    settings.JOBEXEC = {**settings.JOBEXEC, "GATEWAY_AUTH": "required"}
    row = external_job("pay", database=alias)
    given = {"permissions": ["work", "update"], "max_requests_per_second": 1}
    worker = V2(f"Bearer {create_client(alias, name='java', **given)[1]}")
    assert len(worker.activate()) == 1
    for _ in range(3):
        worker.call("PATCH", f"/jobs/{row.job_key}", {"changeset": {"timeout": 5000}})
        assert worker.status == 204, worker.body
    worker.call("PATCH", f"/jobs/{row.job_key}", {"changeset": {"retries": 5}})
    worker.refused(503, "RESOURCE_EXHAUSTED", "requests per second")
