"""What workers say about jobs over gRPC, and which status it gets."""

import json
from datetime import timedelta

import grpc
import pytest
from django.db import DataError, IntegrityError, InterfaceError, OperationalError, ProgrammingError

from jobexec import clock, job
from jobexec.handlers import registry
from jobexec.models import Incident, Job
from jobexec.operations import external

pytestmark = pytest.mark.transactional
Code = grpc.StatusCode


@pytest.fixture(autouse=True)
def handlers():
    with registry.isolated():

        @job(name="paid")
        def paid(variables):
            """Runs when the worker is done."""

        @job(name="refused")
        def refused(variables, error_code, error_message):
            """Runs when the worker has thrown an error."""

        yield


def refused_with(call, **fields):
    """The status and the text of a call that fails."""
    with pytest.raises(grpc.RpcError) as caught:
        call(**fields)
    return caught.value.code(), caught.value.details()


def in_hand(gateway, **options):
    """A job that a worker has fetched."""
    gateway.make("payment", **options)
    (found,) = gateway.client.activate("payment")
    return found


def test_an_activated_job_says_all_that_clients_read(gateway):
    gateway.make(
        "payment",
        variables={"amount": 12.5, "who": "Zoë"},
        headers={"method": "card"},
        priority=7,
        tags=["a", "b"],
        process_instance_id="123",
        process_definition_id="45",
        process_definition_key="order-process",
        element_id="Task_1",
    )
    (found,) = gateway.client.activate("payment", worker="w-1")
    row = gateway.rows().get()
    assert found.key == row.job_key > 0
    assert (found.type, found.worker, found.retries) == ("payment", "w-1", 3)
    assert json.loads(found.variables) == {"amount": 12.5, "who": "Zoë"}
    assert json.loads(found.customHeaders) == {"method": "card"}
    assert (found.processInstanceKey, found.processDefinitionKey, found.elementInstanceKey) == (123, 45, -1)
    assert (found.bpmnProcessId, found.elementId, found.processDefinitionVersion) == ("order-process", "Task_1", 1)
    assert found.deadline == int(row.lock_expiration_time.timestamp() * 1000)
    assert (found.kind, found.listenerEventType) == (found.BPMN_ELEMENT, found.UNSPECIFIED)
    assert (found.tenantId, list(found.tags)) == ("<default>", ["a", "b"])
    assert not found.HasField("jobLeaseToken")


@pytest.mark.databases("sqlite")
def test_a_bare_job_has_valid_json_and_constants_where_there_is_no_process(gateway):
    gateway.make("send mail")
    (found,) = gateway.client.activate("send mail")
    assert (found.variables, found.customHeaders) == ("{}", "{}")
    assert (found.bpmnProcessId, found.elementId) == ("jobexec", "send_mail")
    assert (found.processInstanceKey, found.processDefinitionKey) == (-1, -1)


def test_a_completed_job_runs_its_handler_with_the_variables_of_both(gateway):
    found = in_hand(gateway, variables={"a": 1, "b": 1}, on_complete="paid")
    gateway.client.CompleteJob(jobKey=found.key, variables='{"b": 2}')
    row = Job.objects.using(gateway.alias).get()
    assert row.handler_type == "paid"
    assert row.handler_configuration["kwargs"]["variables"] == {"a": 1, "b": 2}
    assert not gateway.rows().exists()
    code, text = refused_with(gateway.client.CompleteJob, jobKey=found.key)
    assert code == Code.NOT_FOUND
    assert text == (
        f"Command 'COMPLETE' rejected with code 'NOT_FOUND': Expected to complete job with key '{found.key}', "
        "but no such job was found."
    )


@pytest.mark.databases("sqlite")
def test_a_job_whose_deadline_is_over_may_still_be_completed(gateway):
    gateway.make("payment")
    (found,) = gateway.client.activate("payment", timeout=1)
    gateway.rows().update(lock_expiration_time=clock.now() - timedelta(hours=1))
    gateway.client.CompleteJob(jobKey=found.key)
    assert not gateway.rows().exists()


def test_a_failure_keeps_the_retries_that_the_worker_sends(gateway):
    found = in_hand(gateway, variables={"a": 1})
    gateway.client.FailJob(jobKey=found.key, retries=1, errorMessage="no luck", variables='{"tried": true}')
    (again,) = gateway.client.activate("payment")
    assert (again.key, again.retries) == (found.key, 1)
    assert json.loads(again.variables) == {"a": 1, "tried": True}
    assert gateway.row(found.key).exception_message == "no luck"


@pytest.mark.databases("sqlite")
def test_a_failure_with_a_back_off_waits(gateway):
    found = in_hand(gateway)
    gateway.client.FailJob(jobKey=found.key, retries=1, retryBackOff=3_600_000)
    assert gateway.client.activate("payment") == []
    waits = gateway.row(found.key).available_at - clock.now()
    assert timedelta(minutes=59) < waits <= timedelta(minutes=60)


def test_without_retries_an_incident_is_open_until_it_gets_some_and_is_resolved(gateway):
    found = in_hand(gateway)
    gateway.client.FailJob(jobKey=found.key, retries=-1)
    incident = gateway.incidents().get()
    assert incident.message == "No more retries left."
    code, text = refused_with(gateway.client.CompleteJob, jobKey=found.key)
    assert code == Code.FAILED_PRECONDITION
    assert text.startswith("Command 'COMPLETE' rejected with code 'INVALID_STATE': Expected to complete job with key")
    code, _ = refused_with(gateway.client.ResolveIncident, incidentKey=incident.incident_key)
    assert code == Code.FAILED_PRECONDITION
    assert refused_with(gateway.client.UpdateJobRetries, jobKey=found.key, retries=0)[0] == Code.INVALID_ARGUMENT
    gateway.client.UpdateJobRetries(jobKey=found.key, retries=2)
    assert gateway.client.activate("payment") == []
    gateway.client.ResolveIncident(incidentKey=incident.incident_key)
    (again,) = gateway.client.activate("payment")
    assert (again.key, again.retries) == (found.key, 2)
    assert Incident.objects.using(gateway.alias).get().state == "resolved"
    code, text = refused_with(gateway.client.ResolveIncident, incidentKey=99)
    assert (code, text.partition(":")[0]) == (
        Code.NOT_FOUND,
        "Command 'RESOLVE' rejected with code 'NOT_FOUND'",
    )


def test_an_error_runs_the_handler_of_its_code(gateway):
    found = in_hand(gateway, on_error={"no-money": "refused"})
    gateway.client.ThrowError(jobKey=found.key, errorCode="no-money", errorMessage="poor", variables='{"a": 1}')
    row = Job.objects.using(gateway.alias).get()
    given = row.handler_configuration["kwargs"]
    assert row.handler_type == "refused"
    assert (given["error_code"], given["error_message"], given["variables"]) == ("no-money", "poor", {"a": 1})


@pytest.mark.databases("sqlite")
def test_an_error_that_nobody_expects_is_an_incident_and_no_error_of_the_call(gateway):
    found = in_hand(gateway)
    gateway.client.ThrowError(jobKey=found.key, errorCode="odd")
    assert gateway.incidents().get().type == "unhandledError"
    assert refused_with(gateway.client.ThrowError, jobKey=found.key, errorCode="odd")[0] == Code.FAILED_PRECONDITION


@pytest.mark.databases("sqlite")
def test_the_deadline_of_a_job_in_hand_moves(gateway):
    found = in_hand(gateway)
    gateway.client.UpdateJobTimeout(jobKey=found.key, timeout=7_200_000)
    left = gateway.row(found.key).lock_expiration_time - clock.now()
    assert timedelta(minutes=119) < left <= timedelta(hours=2)
    gateway.make("other")
    waiting = gateway.rows(handler_type="other").get()
    code, _ = refused_with(gateway.client.UpdateJobTimeout, jobKey=waiting.job_key, timeout=1000)
    assert code == Code.FAILED_PRECONDITION


@pytest.mark.databases("sqlite")
def test_the_priority_decides_who_is_next(gateway):
    first, second = gateway.make("payment"), gateway.make("payment")
    gateway.client.UpdateJobPriority(jobKey=second.job_key, priority=5)
    assert [found.key for found in gateway.client.activate("payment", most=2)] == [second.job_key, first.job_key]
    code, text = refused_with(gateway.client.UpdateJobPriority, jobKey=second.job_key)
    assert code == Code.INVALID_ARGUMENT and "priority" in text


@pytest.mark.databases("sqlite")
def test_a_lease_keeps_others_out(gateway):
    gateway.make("payment")
    (found,) = gateway.client.activate("payment", withLease=True)
    assert found.jobLeaseToken
    assert refused_with(gateway.client.CompleteJob, jobKey=found.key)[0] == Code.FAILED_PRECONDITION
    assert refused_with(gateway.client.FailJob, jobKey=found.key, jobLeaseToken="x")[0] == Code.FAILED_PRECONDITION
    gateway.client.CompleteJob(jobKey=found.key, jobLeaseToken=found.jobLeaseToken)


@pytest.mark.databases("sqlite")
@pytest.mark.parametrize(
    ("fields", "named"),
    [
        ({"type": " "}, "type"),
        ({"type": "a\0b"}, "type"),
        ({"type": "x" * 256, "requestTimeout": 1000}, "type: expected a string of at most 255 characters, got 256"),
        ({"timeout": 0}, "timeout"),
        ({"maxJobsToActivate": 0}, "maxJobsToActivate"),
        ({"tenantIds": ["x" * 65]}, "tenantIds"),
        ({"tenantIds": ["x"] * 1001}, "tenantIds: expected at most 1,000 values, got 1,001"),
        ({"fetchVariable": ["x"] * 1001}, "fetchVariable: expected at most 1,000"),
        ({"worker": "x" * 256}, "worker"),
    ],
)
def test_a_bad_request_names_the_field(gateway, fields, named):
    request = {"type": "payment", "timeout": 1000, "maxJobsToActivate": 1, "worker": "w", "requestTimeout": -1} | fields
    code, text = refused_with(lambda **fields: list(gateway.client.ActivateJobs(**fields)), **request)
    assert code == Code.INVALID_ARGUMENT
    assert named in text


@pytest.mark.databases("sqlite")
@pytest.mark.parametrize("fields", [{"type": ""}, {"type": "x" * 256}, {"worker": "x" * 256}, {"timeout": 0}])
def test_a_bad_stream_is_refused(gateway, fields):
    request = {"type": "payment", "timeout": 1000} | fields
    code, _ = refused_with(lambda **fields: list(gateway.client.StreamActivatedJobs(**fields)), **request)
    assert code == Code.INVALID_ARGUMENT


@pytest.mark.databases("sqlite")
@pytest.mark.parametrize("text", ["{", "[1]", "7", '"text"', '{"a": NaN}', "[" * 5000])
@pytest.mark.parametrize("command", ["CompleteJob", "FailJob", "ThrowError"])
def test_variables_must_be_a_json_object(gateway, command, text):
    extra = {"errorCode": "x"} if command == "ThrowError" else {}
    code, said = refused_with(getattr(gateway.client, command), jobKey=1, variables=text, **extra)
    assert code == Code.INVALID_ARGUMENT
    assert "variables" in said


@pytest.mark.databases("sqlite")
def test_tenants_are_as_clients_write_them(gateway):
    gateway.make("payment", tenant_id="acme")
    ours = gateway.make("payment")
    assert [found.key for found in gateway.client.activate("payment", 5, tenantIds=["<default>"])] == [ours.job_key]
    (found,) = gateway.client.activate("payment", 5, tenantIds=["<default>", "acme"])
    assert found.tenantId == "acme"


@pytest.mark.databases("sqlite")
def test_only_the_variables_that_are_asked_for(gateway):
    gateway.make("payment", variables={"a": 1, "b": 2})
    (found,) = gateway.client.activate("payment", fetchVariable=["b", "c"])
    assert json.loads(found.variables) == {"b": 2}


@pytest.mark.databases("sqlite")
def test_topology_is_a_cluster_of_one(gateway):
    found = gateway.client.Topology()
    (broker,) = found.brokers
    assert (broker.port, broker.partitions[0].partitionId) == (gateway.port, 1)
    assert (found.clusterSize, found.partitionsCount, found.replicationFactor) == (1, 1, 1)
    assert found.gatewayVersion and broker.version


@pytest.mark.databases("sqlite")
def test_a_bug_is_internal_and_in_the_log(gateway, monkeypatch, caplog):
    monkeypatch.setattr(external, "complete_external_job", lambda *args, **kwargs: 1 / 0)
    code, text = refused_with(gateway.client.CompleteJob, jobKey=1)
    assert code == Code.INTERNAL
    assert "ZeroDivisionError" not in text
    assert "ZeroDivisionError" in caplog.text


@pytest.mark.databases("sqlite")
@pytest.mark.parametrize(
    ("error", "code"),
    [
        (OperationalError, Code.RESOURCE_EXHAUSTED),
        (InterfaceError, Code.RESOURCE_EXHAUSTED),
        (DataError, Code.INVALID_ARGUMENT),
        (IntegrityError, Code.INTERNAL),
        (ProgrammingError, Code.INTERNAL),
    ],
)
def test_clients_repeat_only_what_may_succeed_later(gateway, monkeypatch, error, code):
    """After RESOURCE_EXHAUSTED some do so for ever."""

    def fails(*args, **kwargs):
        raise error("a secret")

    monkeypatch.setattr(external, "fail_external_job", fails)
    got, text = refused_with(gateway.client.FailJob, jobKey=1)
    assert got == code
    assert "secret" not in text
