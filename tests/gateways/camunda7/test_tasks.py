"""Camunda 7's API: what a worker says about its tasks, over HTTP and down to the row."""

import logging
from datetime import timedelta

import pytest

from jobexec import job
from jobexec.clock import FrozenClock
from jobexec.models import DeadLetterJob, ExternalWorkerJob, Incident, Job
from jobexec.operations import suspend
from jobexec.operations.manage.gateway_clients import create_client
from tests.gateways.engine_rest import URLS, EngineRest, error
from tests.support.factories import make_external

MINUTE = timedelta(minutes=1)


@job
def take_variables(variables):
    """What runs when a task is completed."""


@job
def take_error(variables, error_code, error_message):
    """What runs when a worker throws an error."""


@pytest.fixture(autouse=True)
def frozen():
    with FrozenClock() as clock:
        yield clock


@pytest.fixture
def rest(alias, settings):
    settings.JOBEXEC = {"ENGINES": {alias: {}}, "GATEWAY_DATABASE": alias, "GATEWAY_AUTH": "none"}
    settings.ROOT_URLCONF = URLS
    return EngineRest()


def path(row, verb=""):
    return f"/external-task/{row.job_key}" + (f"/{verb}" if verb else "")


def test_a_task_is_fetched_with_all_its_members(alias, rest, frozen):
    row = make_external(
        alias,
        variables={"amount": 5, "order": {"id": 7}},
        headers={"method": "card", "limit": 3},
        priority=7,
        tenant_id="north",
        process_instance_id="pi-1",
        process_definition_id="order:3:1",
        process_definition_key="order",
        execution_id="ex-1",
        element_id="charge",
        business_key="B-1",
    )
    (task,) = rest.fetch("payment", lock=60_000, includeExtensionProperties=True)
    deadline = f"{frozen.now + MINUTE:%Y-%m-%dT%H:%M:%S}.{frozen.now.microsecond // 1000:03d}+0000"
    created = f"{frozen.now:%Y-%m-%dT%H:%M:%S}.{frozen.now.microsecond // 1000:03d}+0000"
    assert task == {
        "id": str(row.job_key),
        "topicName": "payment",
        "workerId": "w",
        "lockExpirationTime": deadline,
        "createTime": created,
        "retries": None,
        "errorMessage": None,
        "errorDetails": None,
        "suspended": False,
        "priority": 7,
        "businessKey": "B-1",
        "tenantId": "north",
        "activityId": "charge",
        "activityInstanceId": "charge:ex-1",
        "executionId": "ex-1",
        "processInstanceId": "pi-1",
        "processDefinitionId": "order:3:1",
        "processDefinitionKey": "order",
        "processDefinitionVersionTag": None,
        "variables": {
            "amount": {"type": "Integer", "value": 5, "valueInfo": {}},
            "order": {"type": "Json", "value": '{"id":7}', "valueInfo": {}},
        },
        "extensionProperties": {"method": "card", "limit": "3"},
    }
    row.refresh_from_db()
    assert (row.lock_owner, row.lock_expiration_time) == ("w", frozen.now + MINUTE)
    assert rest.fetch("payment") == []


def test_a_task_of_no_process_stands_for_its_own(alias, rest):
    row = make_external(alias)
    (task,) = rest.fetch("payment")
    own = str(row.job_key)
    assert (task["processInstanceId"], task["executionId"], task["activityId"]) == (own, own, "payment")
    assert (task["tenantId"], task["businessKey"], task["extensionProperties"]) == (None, None, {})


def test_completing_hands_the_variables_to_the_handler(alias, rest):
    row = make_external(alias, variables={"a": 1, "b": 1}, on_complete=take_variables)
    rest.fetch("payment")
    answer = rest.post(
        path(row, "complete"),
        workerId="w",
        variables={"b": {"value": 2}, "due": {"type": "date", "value": "2015-10-06T16:34:42.000+0200"}},
        localVariables={"mine": {"value": 3, "type": "Integer"}},
    )
    assert answer == (204, None)
    job = Job.objects.using(alias).get(pk=row.pk)
    assert job.handler_type == take_variables.name
    assert job.handler_configuration["kwargs"]["variables"] == {
        "a": 1,
        "b": 2,
        "due": "2015-10-06T16:34:42.000+0200",
        "due$type": {"type": "Date"},
    }
    assert rest.post(path(row, "complete"), workerId="w") == _missing(row.job_key)


def _missing(id):
    return 404, error("RestException", f"External task with id {id} does not exist")


def test_another_worker_is_refused_in_camundas_words(alias, rest):
    row = make_external(alias)
    rest.fetch("payment", worker="first")
    task = f"External Task {row.job_key}"
    calls = {
        "complete": (f"{task} cannot be completed by", {}),
        "failure": (f"Failure of {task} cannot be reported by", {"retries": 0}),
        "bpmnError": (f"Bpmn error of {task} cannot be reported by", {"errorCode": "x"}),
        "extendLock": (f"The lock of the {task} cannot be extended by", {"newDuration": 5}),
        "lock": (f"{task} cannot be locked by", {"lockDuration": 5}),
    }
    for call, (what, body) in calls.items():
        message = f"{what} worker 'w'. It is locked by worker 'first'."
        assert rest.post(path(row, call), workerId="w", **body) == (400, error("RestException", message)), call
    assert ExternalWorkerJob.objects.using(alias).get().lock_owner == "first"


def test_a_task_that_nobody_has_locked_cannot_be_completed(alias, rest):
    row = make_external(alias)
    status, said = rest.post(path(row, "complete"), workerId="w")
    assert status == 400
    assert said["message"].endswith("cannot be completed by worker 'w'. It is locked by worker 'null'.")


def test_the_most_recent_lock_counts_even_when_it_is_over(alias, rest, frozen):
    row = make_external(alias)
    rest.fetch("payment", worker="python", lock=1000)
    frozen.tick(timedelta(seconds=2))
    assert rest.post(path(row, "complete"), workerId="python") == (204, None)

    row = make_external(alias)
    rest.fetch("payment", worker="python", lock=1000)
    frozen.tick(timedelta(seconds=2))
    assert len(rest.fetch("payment", worker="node")) == 1
    status, said = rest.post(path(row, "complete"), workerId="python")
    assert status == 400 and "locked by worker 'node'" in said["message"]
    assert rest.post(path(row, "complete"), workerId="node") == (204, None)


def test_a_lock_that_is_over_cannot_be_extended(alias, rest, frozen):
    row = make_external(alias)
    rest.fetch("payment", lock=1000)
    frozen.tick(timedelta(seconds=2))
    status, said = rest.post(path(row, "extendLock"), workerId="w", newDuration=5000)
    assert (status, said["type"]) == (400, "RestException")
    assert rest.post(path(row, "lock"), workerId="w", lockDuration=5000) == (204, None), "but it can be locked again"
    assert rest.fetch("payment", worker="other") == []


def test_a_task_that_is_suspended_cannot_be_completed(alias, rest):
    row = make_external(alias, process_instance_id="pi-1")
    suspend(process_instance_id="pi-1", using=alias)
    assert rest.fetch("payment") == []
    status, said = rest.post(path(row, "complete"), workerId="w")
    assert (status, said["type"]) == (400, "RestException")


def test_failing_keeps_the_retries_that_the_worker_says(alias, rest, frozen):
    row = make_external(alias, variables={"a": 1})
    rest.fetch("payment")
    answer = rest.post(
        path(row, "failure"),
        workerId="w",
        retries=2,
        retryTimeout=5000,
        errorMessage="Card refused",
        errorDetails="line 1\nline 2",
        variables={"seen": {"value": True}},
        localVariables={"tried": {"value": "bank"}},
    )
    assert answer == (204, None)
    assert rest.fetch("payment") == [], "it backs off"
    assert rest.get(path(row, "errorDetails")) == (200, "line 1\nline 2")
    frozen.tick(timedelta(seconds=5))
    (task,) = rest.fetch("payment")
    assert (task["retries"], task["errorMessage"], task["errorDetails"]) == (2, "Card refused", "line 1\nline 2")
    assert {name: each["value"] for name, each in task["variables"].items()} == {"a": 1, "seen": True, "tried": "bank"}
    (local,) = [each["variables"] for each in _again(rest, row, localVariables=True)]
    assert local.keys() == {"tried"}
    (some,) = [each["variables"] for each in _again(rest, row, variables=["a", "nothing"])]
    assert some.keys() == {"a"}
    assert [each["variables"] for each in _again(rest, row, variables=[])] == [{}]


def _again(rest, row, **of_topic):
    assert rest.post(path(row, "unlock")) == (204, None)
    return rest.fetch("payment", **of_topic)


def test_no_retries_left_opens_an_incident_which_new_retries_resolve(alias, rest):
    row = make_external(alias)
    rest.fetch("payment")
    assert rest.post(path(row, "failure"), workerId="w", retries=0, errorMessage="Broken") == (204, None)
    incident = Incident.objects.using(alias).get()
    assert (incident.state, incident.message) == ("open", "Broken")
    status, said = rest.post(path(row, "complete"), workerId="w")
    assert (status, said["type"]) == (400, "RestException")
    assert rest.get(path(row))[1]["retries"] == 0
    assert rest.put(path(row, "retries"), retries=3) == (204, None)
    incident.refresh_from_db()
    assert incident.state == "resolved"
    assert [task["id"] for task in rest.fetch("payment")] == [str(row.job_key)]


def test_a_failure_without_retries_has_none(alias, rest):
    row = make_external(alias)
    rest.fetch("payment")
    assert rest.post(path(row, "failure"), workerId="w", retries=None) == (204, None)
    assert DeadLetterJob.objects.using(alias).get().pk == row.pk


def test_an_error_runs_the_handler_of_its_code(alias, rest):
    row = make_external(alias, on_error={"NO_MONEY": take_error})
    rest.fetch("payment")
    answer = rest.post(
        path(row, "bpmnError"), workerId="w", errorCode="NO_MONEY", errorMessage="Empty", variables={"a": {"value": 1}}
    )
    assert answer == (204, None)
    given = Job.objects.using(alias).get().handler_configuration["kwargs"]
    assert given == {"variables": {"a": 1}, "error_code": "NO_MONEY", "error_message": "Empty"}

    other = make_external(alias)
    rest.fetch("payment")
    assert rest.post(path(other, "bpmnError"), workerId="w", errorCode="ELSE") == (204, None)
    assert Incident.objects.using(alias).get().type == "unhandledError"


def test_a_lock_is_extended_shortened_taken_and_given_back(alias, rest, frozen):
    row = make_external(alias)
    assert rest.post(path(row, "lock"), workerId="w", lockDuration=1000) == (204, None)
    assert rest.post(path(row, "lock"), workerId="w", lockDuration=9000) == (204, None)
    assert _deadline(alias) == frozen.now + timedelta(seconds=9)
    assert rest.post(path(row, "extendLock"), workerId="w", newDuration=3000) == (204, None)
    assert _deadline(alias) == frozen.now + timedelta(seconds=3)
    assert rest.send("POST", path(row, "unlock"), type="") == (204, None), "as the client sends it"
    assert _deadline(alias) is None
    assert len(rest.fetch("payment", worker="other")) == 1


def _deadline(alias):
    return ExternalWorkerJob.objects.using(alias).get().lock_expiration_time


def test_a_lock_that_is_over_can_be_taken_by_another_worker(alias, rest, frozen):
    row = make_external(alias)
    rest.fetch("payment", worker="first", lock=1000)
    frozen.tick(timedelta(seconds=2))
    assert rest.post(path(row, "lock"), workerId="second", lockDuration=1000) == (204, None)
    assert ExternalWorkerJob.objects.using(alias).get().lock_owner == "second"


def test_priority_is_changed(alias, rest):
    row = make_external(alias)
    assert rest.put(path(row, "priority"), priority=50) == (204, None)
    assert rest.get(path(row))[1]["priority"] == 50
    assert rest.put(path(row, "priority"), priority=None)[0] == 400
    status, said = rest.put(path(row, "priority"), priority=2**40)
    assert (status, said["type"]) == (400, "InvalidRequestException")


def test_retries_of_zero_park_a_task(alias, rest):
    row = make_external(alias)
    assert rest.put(path(row, "retries"), retries=0) == (204, None)
    assert DeadLetterJob.objects.using(alias).get().pk == row.pk
    held = make_external(alias)
    rest.fetch("payment")
    status, said = rest.put(path(held, "retries"), retries=0)
    assert (status, said["type"]) == (400, "RestException")
    message = "The number of retries cannot be null."
    assert rest.put(path(held, "retries"), retries=None) == (400, error("RestException", message))


CALLS = [
    ("GET", "", {}),
    ("GET", "/errorDetails", {}),
    ("POST", "/complete", {"workerId": "w"}),
    ("POST", "/failure", {"workerId": "w", "retries": 1}),
    ("POST", "/bpmnError", {"workerId": "w", "errorCode": "x"}),
    ("POST", "/extendLock", {"workerId": "w", "newDuration": 1}),
    ("POST", "/lock", {"workerId": "w", "lockDuration": 1}),
    ("POST", "/unlock", {}),
    ("PUT", "/retries", {"retries": 1}),
    ("PUT", "/priority", {"priority": 1}),
]


@pytest.mark.databases("sqlite")
@pytest.mark.parametrize("id", ["12345", "no-key", "0", str(2**63), "9" * 500, "-5", "٣"])
def test_an_unknown_task_is_not_found_by_any_call(alias, rest, id):
    for method, verb, body in CALLS:
        call = {"GET": rest.get, "POST": rest.post, "PUT": rest.put}[method]
        assert call(f"/external-task/{id}{verb}", **body) == _missing(id), verb


WRONG = [
    ("complete", {}, "workerId: expected a string, got null."),
    ("complete", {"workerId": ""}, "workerId: expected a string, got an empty string."),
    ("complete", {"workerId": {"a": 1}}, 'workerId: expected a string, got {"a": 1}.'),
    ("complete", {"workerId": "w", "variables": [1]}, "variables: expected an object, got [1]."),
    (
        "complete",
        {"workerId": "w", "localVariables": {"x": 1}},
        "localVariables.x: expected an object with a value, got 1.",
    ),
    ("complete", {"workerId": "w", "variables": {"x": {"value": "\x00"}}}, "U+0000"),
    ("failure", {"workerId": "w", "retries": -1}, "retries: expected an integer of at least 0, got -1."),
    ("failure", {"workerId": "w", "retries": "many"}, 'retries: expected an integer of at least 0, got "many".'),
    (
        "failure",
        {"workerId": "w", "retries": 1, "retryTimeout": -5},
        "retryTimeout: expected an integer of at least 0, got -5.",
    ),
    ("failure", {"workerId": "w", "retries": 1, "errorDetails": {"a": 1}}, "errorDetails: expected a string"),
    ("bpmnError", {"workerId": "w"}, "errorCode: expected a string, got null."),
    ("extendLock", {"workerId": "w"}, "newDuration: expected a number of milliseconds, got null."),
    ("extendLock", {"workerId": "w", "newDuration": -1}, "newDuration: expected an integer of at least 1, got -1."),
    ("lock", {"workerId": "w", "lockDuration": 0}, "lockDuration: expected an integer of at least 1, got 0."),
]


@pytest.mark.databases("sqlite")
@pytest.mark.parametrize("verb, body, message", WRONG, ids=[f"{verb}-{message[:25]}" for verb, _, message in WRONG])
def test_what_is_wrong_is_named(alias, rest, verb, body, message):
    row = make_external(alias)
    rest.fetch("payment")
    status, said = rest.post(path(row, verb), **body)
    assert (status, said["type"]) == (400, "InvalidRequestException")
    assert message in said["message"]
    assert ExternalWorkerJob.objects.using(alias).filter(lock_owner="w").exists(), "nothing has happened"


@pytest.mark.databases("sqlite")
@pytest.mark.parametrize("body", ["{", "[]", "5", '"x"', b"\xff\xfe"])
def test_a_body_that_is_no_object_is_refused(alias, rest, body):
    status, said = rest.send("POST", "/external-task/1/complete", body)
    assert (status, said["type"], said["code"]) == (400, "InvalidRequestException", 0)


@pytest.mark.databases("sqlite")
def test_a_body_that_does_not_call_itself_json_is_refused(rest):
    status, said = rest.send("POST", "/external-task/1/complete", '{"workerId": "w"}', type="text/plain")
    assert (status, said["type"]) == (415, "RestException")
    assert "application/json" in said["message"]


def test_a_body_that_is_too_large_says_so(alias, rest, settings):
    settings.DATA_UPLOAD_MAX_MEMORY_SIZE = 100
    status, said = rest.post("/external-task/1/complete", workerId="w" * 200)
    assert (status, said["type"]) == (413, "RestException")
    assert "DATA_UPLOAD_MAX_MEMORY_SIZE" in said["message"]


@pytest.mark.databases("sqlite")
def test_variables_that_are_too_large_are_refused(alias, rest, settings):
    settings.JOBEXEC = settings.JOBEXEC | {"EXTERNAL_MAX_PAYLOAD": 1000}
    row = make_external(alias)
    rest.fetch("payment")
    status, said = rest.post(path(row, "complete"), workerId="w", variables={"x": {"value": "x" * 2000}})
    assert (status, said["type"]) == (400, "InvalidRequestException")
    assert "EXTERNAL_MAX_PAYLOAD" in said["message"]


@pytest.mark.databases("sqlite")
def test_what_ends_a_task_is_not_counted_against_the_rate(alias, closed, no_refill):
    shop = client(alias, max_requests_per_second=1)
    row = make_external(alias)
    assert len(shop.fetch("payment")) == 1
    assert shop.post("/external-task/fetchAndLock", workerId="w", maxTasks=1)[0] == 503
    assert shop.post(path(row, "complete"), workerId="w") == (204, None)


@pytest.mark.gate
@pytest.mark.databases("sqlite")
@pytest.mark.parametrize("verb", ["complete", "failure", "bpmnError", "extendLock", "unlock"])
def test_what_is_said_of_no_task_is_bounded(alias, closed, no_refill, caplog, verb):
    shop = client(alias, max_requests_per_second=1)
    said = {"workerId": "w", "errorCode": "X", "newDuration": 9}
    answers = [shop.post(f"/external-task/1/{verb}", **said)[0] for _ in range(102)]
    assert answers == [404] * 100 + [503] * 2
    assert not [line for line in caplog.records if line.levelno >= logging.ERROR]  # Django would mail each


@pytest.mark.databases("sqlite")
def test_other_methods_are_refused_as_json(alias, rest):
    assert rest.get("/external-task/fetchAndLock")[0] == 405
    assert rest.get("/external-task/1/complete") == (405, error("NotAllowedException", "expected POST, got GET."))
    assert rest.put("/external-task/count")[0] == 405


@pytest.mark.databases("sqlite")
def test_the_engine_may_be_named(alias, settings, rest):
    row = make_external(alias)
    named = EngineRest("/engine/default")
    assert [task["id"] for task in named.fetch("payment")] == [str(row.job_key)]
    assert named.post(path(row, "complete"), workerId="w") == (204, None)
    assert rest.get("/engine") == (200, [{"name": "default"}])
    assert rest.get("/version")[1]["version"].startswith("7.")


@pytest.fixture
def closed(rest, settings):
    settings.JOBEXEC = settings.JOBEXEC | {"GATEWAY_AUTH": "required"}
    return rest


def client(alias, **columns):
    _, secret = create_client(alias, name="shop", **columns)
    return EngineRest(authorization=f"Bearer {secret}")


@pytest.mark.databases("sqlite")
def test_without_credentials_nothing_is_told(alias, closed):
    status, said = closed.post("/external-task/fetchAndLock", workerId="w", maxTasks=1)
    assert (status, said["type"]) == (401, "AuthenticationException")
    assert closed.get("/external-task")[0] == 401
    assert closed.get("/engine")[0] == 401


@pytest.mark.databases("sqlite")
def test_a_client_sees_its_types_and_tenants_only(alias, closed):
    shop = client(alias, types=["payment"], tenants=["north"])
    mine = make_external(alias, tenant_id="north")
    hidden = make_external(alias, tenant_id="south")
    make_external(alias, "shipping", tenant_id="north")
    assert [task["id"] for task in shop.fetch("payment")] == [str(mine.job_key)]
    assert shop.fetch("payment", tenantIdIn=["south"]) == []
    assert shop.post(path(hidden, "complete"), workerId="w") == _missing(hidden.job_key)
    asked = [{"topicName": "shipping", "lockDuration": 1}]
    status, said = shop.post("/external-task/fetchAndLock", workerId="w", maxTasks=1, topics=asked)
    assert (status, said["type"]) == (403, "AuthorizationException")
    assert shop.get("/external-task")[0] == 403, "working on jobs is not looking for them"
    assert shop.put(path(mine, "retries"), retries=5)[0] == 403


@pytest.mark.databases("sqlite")
def test_lists_hold_what_the_client_may_see(alias, closed):
    shop = client(alias, types=["pay*"], tenants=["", "north"], permissions=["work", "search"])
    mine = [make_external(alias, tenant_id="north"), make_external(alias)]
    make_external(alias, tenant_id="south")
    other = make_external(alias, "shipping")
    assert [task["id"] for task in shop.get("/external-task")[1]] == [str(row.job_key) for row in mine]
    assert shop.get("/external-task/count") == (200, {"count": 2})
    assert shop.get("/external-task/topic-names") == (200, ["payment"])
    assert shop.get(path(other)) == _missing(other.job_key)
