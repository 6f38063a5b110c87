"""The calls about processes in Camunda 8's REST API."""

import json
import re

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.db import OperationalError, connections
from django.test import Client
from django.test.utils import CaptureQueriesContext

from jobexec.models import AuditLog, DeadLetterJob, Incident, TimerJob
from jobexec.operations import retry_now
from jobexec.processes.gateways import awaiting, verbs
from jobexec.processes.models import EventSubscription, ProcessDefinition, ProcessInstance, UserTask, Variable
from jobexec.processes.operations.suspend import activate, suspend
from tests.gateways.v2 import V2

from .models import APPROVE, AWAIT, BROKEN, CATCH, MESSAGE, PAY, SCRIPT, SIGNAL, chain, run, xml

SQLITE = pytest.mark.databases("sqlite")


def deploy(content=None, name="order.bpmn", tenant="", authorization=None, files=None):
    """The answer to a form with files."""
    given = [(name, chain(PAY) if content is None else content)] if files is None else files
    form = {"resources": [SimpleUploadedFile(file, data) for file, data in given]}
    headers = {"Authorization": authorization} if authorization else {}
    return Client().post("/v2/deployments", form | ({"tenantId": tenant} if tenant else {}), headers=headers)


def start(v2, **given):
    return v2.post("/process-instances", {"processDefinitionId": "order", **given})


@pytest.mark.smoke
def test_from_the_deployment_to_the_end(alias, v2):
    made = deploy().json()
    row = ProcessDefinition.objects.using(alias).get()
    assert made["tenantId"] == "<default>"
    assert [each["processDefinition"] for each in made["deployments"]] == [
        {
            "processDefinitionId": "order",
            "processDefinitionVersion": 1,
            "resourceName": "order.bpmn",
            "tenantId": "<default>",
            "processDefinitionKey": str(row.number),
        }
    ]
    started = start(v2, variables={"amount": 5}, businessId="4711")
    assert (v2.status, started["processDefinitionKey"], started["businessId"]) == (200, str(row.number), "4711")
    (job,) = v2.activate("payment")
    assert job["processInstanceKey"] == started["processInstanceKey"] == job["rootProcessInstanceKey"]
    (found,) = v2.post("/jobs/search", {"filter": {"processInstanceKey": started["processInstanceKey"]}})["items"]
    assert (found["jobKey"], found["elementInstanceKey"]) == (job["jobKey"], job["elementInstanceKey"])
    v2.post(f"/jobs/{job['jobKey']}/completion", {"variables": {"paid": True}})
    run(alias)
    shown = v2.call("GET", f"/process-instances/{started['processInstanceKey']}")
    assert (shown["state"], shown["businessId"], shown["hasIncident"]) == ("COMPLETED", "4711", False)
    assert shown["endDate"] is not None


@SQLITE
class TestDeployment:
    @pytest.mark.parametrize(
        ("files", "status", "words"),
        [
            ([("order.bpmn", chain(PAY)), ("odd.bpmn", BROKEN)], 400, "odd.bpmn"),
            ([("form.form", b"{}")], 400, "form.form: expected a BPMN file"),
            ([("order.bpmn", chain(PAY) + b" " * 2 * 1024 * 1024)], 400, "expected at most 2,097,152"),
            ([("order.bpmn", b"<!DOCTYPE a>" + chain(PAY)[22:])], 400, "DOCTYPE"),
            ([], 400, "at least one file"),
            ([("order.bpmn", b" " * 9 * 1024 * 1024)], 413, "at most 8,388,608 bytes"),
        ],
    )
    def test_what_cannot_be_deployed(self, alias, v2, files, status, words):
        answer = deploy(files=files)
        assert (answer.status_code, answer["Content-Type"]) == (status, "application/problem+json")
        assert words in answer.json()["detail"]
        assert not ProcessDefinition.objects.using(alias).exists()

    def test_only_a_form(self, v2):
        v2.post("/deployments", {})
        v2.refused(415, "INVALID_ARGUMENT", "multipart/form-data")

    def test_a_broken_form(self, v2):
        answer = Client().generic("POST", "/v2/deployments", b"odd", content_type="multipart/form-data")
        assert (answer.status_code, answer.json()["title"]) == (400, "INVALID_ARGUMENT")

    def test_definitions_are_found(self, v2):
        deploy()
        key = deploy(chain(PAY, APPROVE)).json()["deployments"][0]["processDefinition"]["processDefinitionKey"]
        found = v2.post("/process-definitions/search", {"filter": {"version": 2}, "sort": [{"field": "version"}]})
        assert [each["processDefinitionKey"] for each in found["items"]] == [key]
        one = v2.call("GET", f"/process-definitions/{key}")
        assert one == found["items"][0]
        assert (one["name"], one["resourceName"], one["versionTag"]) == ("An order", "order.bpmn", None)
        answer = Client().get(f"/v2/process-definitions/{key}/xml")
        assert (answer["Content-Type"], answer.content) == ("text/xml; charset=utf-8", chain(PAY, APPROVE))
        v2.call("GET", "/process-definitions/77")
        v2.refused(404, "NOT_FOUND", "77")


@SQLITE
class TestStart:
    @pytest.fixture(autouse=True)
    def there(self, served):
        deploy()

    @pytest.mark.parametrize(
        ("given", "status", "title", "words"),
        [
            ({"processDefinitionId": "nobody"}, 404, "NOT_FOUND", "nobody"),
            ({"processDefinitionVersion": 7}, 404, "NOT_FOUND", "version 7"),
            ({"processDefinitionKey": "77"}, 404, "NOT_FOUND", "77"),
            ({"processDefinitionId": ""}, 400, "INVALID_ARGUMENT", "processDefinitionId"),
            ({"variables": [1]}, 400, "INVALID_ARGUMENT", "variables"),
            ({"variables": {"text": "x" * 70_000}}, 400, "INVALID_ARGUMENT", "text: expected at most"),
            ({"startInstructions": [{"elementId": "x"}]}, 400, "INVALID_ARGUMENT", "x: There is no such element"),
            ({"startInstructions": [{}]}, 400, "INVALID_ARGUMENT", "startInstructions[0].elementId"),
            ({"runtimeInstructions": [{"type": "x"}]}, 400, "INVALID_ARGUMENT", "runtimeInstructions"),
            ({"businessId": "x" * 256}, 400, "INVALID_ARGUMENT", "businessKey"),
            ({"businessId": "\0"}, 400, "INVALID_ARGUMENT", "businessKey"),
            ({"tenantId": "north"}, 404, "NOT_FOUND", "order"),
        ],
    )
    def test_what_is_wrong(self, alias, v2, given, status, title, words):
        start(v2, **given)
        v2.refused(status, title, words)
        assert not ProcessInstance.objects.using(alias).exists()

    def test_its_result_when_it_ends_at_once(self, v2):
        deploy(chain(SCRIPT))
        answer = start(v2, variables={"amount": 1}, awaitCompletion=True, fetchVariables=["total"])
        assert (v2.status, answer["variables"]) == (200, {"total": 2})

    def test_its_result_without_what_is_sensitive(self, v2):
        deploy(chain(SCRIPT))
        given = {"amount": 1, "api_token": "tok-1", "card": {"password": "x", "bank": "y"}}
        answer = start(v2, variables=given, awaitCompletion=True)
        shown = {"amount": 1, "total": 2, "api_token": "●●●", "card": {"password": "●●●", "bank": "y"}}
        assert answer["variables"] == shown

    def test_the_time_is_over_and_the_instance_goes_on(self, alias, v2):
        start(v2, awaitCompletion=True, requestTimeout=1)
        v2.refused(504, "DEADLINE_EXCEEDED", "goes on")

    def test_the_time_is_over_in_an_outage(self, alias, v2, monkeypatch):
        def away(*args):
            raise OperationalError("away")

        monkeypatch.setattr(awaiting, "_end_of", away)
        start(v2, awaitCompletion=True, requestTimeout=200)
        v2.refused(504, "DEADLINE_EXCEEDED", "goes on")
        assert ProcessInstance.objects.using(alias).count() == 1

    @pytest.mark.parametrize("wait", [False, True])
    def test_a_lost_connection(self, alias, v2, monkeypatch, wait):
        """After a 503 clients would start another instance."""
        start_process = verbs.start_process

        def start_and_lose_the_answer(*args, **named):
            start_process(*args, **named)
            raise OperationalError("the connection was lost")

        monkeypatch.setattr(verbs, "start_process", start_and_lose_the_answer)
        start(v2, awaitCompletion=wait)
        v2.refused(502, "ABORTED", "unknown whether")
        assert "Retry-After" not in v2.response
        assert ProcessInstance.objects.using(alias).get().state == "active"


def test_cancellation(alias, v2):
    deploy()
    key = start(v2)["processInstanceKey"]
    v2.post(f"/process-instances/{key}/cancellation")
    assert v2.status == 204
    assert v2.call("GET", f"/process-instances/{key}")["state"] == "TERMINATED"
    v2.post(f"/process-instances/{key}/cancellation")
    v2.refused(404, "NOT_FOUND")
    v2.post("/process-instances/77/cancellation")
    v2.refused(404, "NOT_FOUND")


@pytest.mark.gate
def test_instances_are_searched(alias, v2):
    number = deploy().json()["deployments"][0]["processDefinition"]["processDefinitionKey"]
    keys = [start(v2, businessId=str(n))["processInstanceKey"] for n in range(3)]
    v2.post(f"/process-instances/{keys[0]}/cancellation")

    def found(**filter):
        answer = v2.post("/process-instances/search", {"filter": filter, "sort": [{"field": "processInstanceKey"}]})
        assert v2.status == 200, answer
        return [each["processInstanceKey"] for each in answer["items"]]

    assert found() == keys
    assert found(state="ACTIVE", processDefinitionKey=number) == keys[1:]
    assert found(state={"$in": ["TERMINATED", "COMPLETED"]}) == keys[:1]
    assert found(processInstanceKey={"$neq": keys[0]}, businessId="1") == keys[1:2]
    assert found(hasIncident=True) == []
    assert found(processDefinitionKey="77") == []
    assert found(tenantId="<default>") == keys
    assert found(processDefinitionVersion=1, parentProcessInstanceKey={"$exists": False}) == keys


def test_variables(alias, v2):
    deploy()
    key = start(v2, variables={"a": 1, "long": "x" * 9000, "password": "secret"})["processInstanceKey"]
    (job,) = v2.activate("payment")
    v2.call("PUT", f"/element-instances/{key}/variables", {"variables": {"a": 2}})
    assert v2.status == 204
    v2.call("PUT", f"/element-instances/{job['elementInstanceKey']}/variables", {"variables": {"b": 3}, "local": True})
    assert v2.status == 204
    assert sorted(Variable.objects.using(alias).filter(name__in="ab").values_list("name", "value")) == [
        ("a", 2),
        ("b", 3),
    ]
    given = {"filter": {"processInstanceKey": key}, "sort": [{"field": "name"}]}
    found = {each["name"]: each for each in v2.post("/variables/search", given)["items"]}
    assert (found["a"]["value"], found["a"]["scopeKey"]) == ("2", key)
    assert (len(found["long"]["value"]), found["long"]["isTruncated"]) == (8191, True)
    assert "secret" not in json.dumps(found)
    whole = v2.post("/variables/search?truncateValues=false", {"filter": {"name": "long"}})["items"]
    assert [(len(each["value"]), each["isTruncated"]) for each in whole] == [(9002, False)]
    v2.call("PUT", "/element-instances/77/variables", {"variables": {}})
    v2.refused(404, "NOT_FOUND")
    v2.call("PUT", f"/element-instances/{key}/variables", {})
    v2.refused(400, "INVALID_ARGUMENT", "variables")


@pytest.mark.parametrize(
    ("asked", "reads_all", "statements"),
    [
        ({}, False, 5),
        ({"filter": {"name": "a"}}, False, 8),
        ({"filter": {"value": '"x"'}}, True, 8),
        ({"sort": [{"field": "value"}]}, True, 8),
    ],
)
def test_a_search_reads_the_values_of_its_page_alone(alias, v2, asked, reads_all, statements):
    deploy(chain(APPROVE))
    for _ in range(5):
        start(v2, variables={"a": "x", "b": "y"})
    with CaptureQueriesContext(connections[alias]) as captured:
        found = v2.post("/variables/search", {**asked, "page": {"limit": 1}})
    assert [each["value"] for each in found["items"]] == ['"y"'] if asked == {} else ['"x"']
    reading = [each["sql"] for each in captured if re.search(r'variable["`]\.["`]value["`]', each["sql"])]
    assert [("LIMIT" in sql) for sql in reading] == ([True, False] if reads_all else [False])
    assert len(captured) <= statements, [each["sql"] for each in captured]


@pytest.mark.gate
def test_a_user_task(alias, v2):
    deploy(chain(APPROVE, key="shop:order"))
    given = {"processDefinitionId": "shop:order", "businessId": "4711"}
    instance = v2.post("/process-instances", given)["processInstanceKey"]
    (task,) = v2.post("/user-tasks/search", {"filter": {"assignee": "ann", "processInstanceKey": instance}})["items"]
    assert (task["name"], task["elementId"], task["candidateGroups"]) == ("Approve it", "approve", ["sales"])
    assert (task["processDefinitionId"], task["businessId"], task["state"]) == ("shop:order", "4711", "CREATED")
    path = f"/user-tasks/{task['userTaskKey']}"
    assert v2.call("GET", path) == task
    v2.post(f"{path}/assignment", {"assignee": "bob", "allowOverride": False})
    v2.refused(409, "INVALID_STATE")
    v2.post(f"{path}/assignment", {"assignee": "bob"})
    assert UserTask.objects.using(alias).get().assignee == "bob"
    v2.call("DELETE", f"{path}/assignee")
    assert (v2.status, UserTask.objects.using(alias).get().assignee) == (204, "")
    v2.post(f"{path}/assignment", {"assignee": " "})
    v2.refused(400, "INVALID_ARGUMENT", "assignee")
    v2.post(f"{path}/completion", {"variables": {"ok": True}})
    assert v2.status == 204
    assert v2.call("GET", f"/process-instances/{instance}")["state"] == "COMPLETED"
    for method, rest in (("GET", ""), ("POST", "/completion"), ("DELETE", "/assignee")):
        v2.call(method, path + rest)
        v2.refused(404, "NOT_FOUND", "user task")


@pytest.mark.gate
def test_suspension_and_resumption(alias, v2):
    deploy(chain(APPROVE))
    key, other = (start(v2)["processInstanceKey"] for _ in range(2))

    def found(state):
        return [each["processInstanceKey"] for each in v2.post("/process-instances/search", filtered(state))["items"]]

    def filtered(state):
        return {"filter": {"state": state}}

    v2.post(f"/process-instances/{key}/resumption")
    v2.refused(409, "INVALID_STATE", "not SUSPENDED")
    v2.post(f"/process-instances/{key}/suspension")
    assert v2.status == 204
    shown = v2.call("GET", f"/process-instances/{key}")
    assert (shown["state"], shown["suspendedDate"] >= shown["startDate"]) == ("SUSPENDED", True)
    assert (found("SUSPENDED"), found("ACTIVE")) == ([key], [other])
    assert set(found({"$in": ["ACTIVE", "SUSPENDED"]})) == {key, other}
    assert found({"$neq": "SUSPENDED"}) == [other]
    v2.post(f"/process-instances/{key}/suspension")
    v2.refused(409, "INVALID_STATE", "ACTIVE")
    suspend("order", using=alias)
    v2.post(f"/process-instances/{key}/resumption")
    v2.refused(409, "INVALID_STATE", "its process is suspended")
    activate("order", using=alias)
    v2.post(f"/process-instances/{key}/resumption")
    assert v2.status == 204
    assert v2.call("GET", f"/process-instances/{key}")["suspendedDate"] is None
    v2.post("/process-instances/77/suspension")
    v2.refused(404, "NOT_FOUND")


@pytest.mark.gate
def test_a_modification(alias, v2):
    deploy(chain(APPROVE, PAY))
    start(v2)
    (others,) = v2.post("/user-tasks/search")["items"]
    key = start(v2)["processInstanceKey"]
    (task,) = v2.post("/user-tasks/search", {"filter": {"processInstanceKey": key}})["items"]
    path = f"/process-instances/{key}/modification"
    for wrong, words in [
        ({}, "expected at least one"),
        ({"terminateInstructions": [{}]}, "either"),
        ({"moveInstructions": [{}]}, "moveInstructions"),
        ({"activateInstructions": [{"elementId": ""}]}, "activateInstructions[0].elementId"),
        ({"activateInstructions": [{"elementId": "pay", "ancestorElementInstanceKey": "5"}]}, "ancestor"),
        ({"activateInstructions": {"elementId": "pay"}}, "activateInstructions: expected a list"),
        ({"activateInstructions": [5]}, "activateInstructions[0]: expected a JSON object"),
        ({"activateInstructions": [{"elementId": 5}]}, "activateInstructions[0].elementId: expected a string"),
        ({"activateInstructions": [{"elementId": "nothing"}]}, "nothing: There is no such element"),
        ({"activateInstructions": [{"elementId": "pay", "variableInstructions": [{}]}]}, "variables: expected a value"),
        ({"terminateInstructions": [{"elementInstanceKey": "x"}]}, "elementInstanceKey: expected a decimal number"),
        ({"terminateInstructions": [{"elementInstanceKey": "77"}]}, "77"),
        ({"terminateInstructions": [{"elementInstanceKey": others["elementInstanceKey"]}]}, "of this instance"),
        ({"terminateInstructions": [{"elementInstanceKey": key}]}, "expected the key of an element instance"),
        ({"terminateInstructions": [{"elementId": "pay"}]}, "Nothing at this element can be cancelled"),
        ({"terminateInstructions": [{"elementId": "nothing"}]}, "nothing: There is no such element"),
    ]:
        v2.post(path, wrong)
        v2.refused(400, "INVALID_ARGUMENT", words)
    v2.post("/process-instances/77/modification", {"activateInstructions": [{"elementId": "pay"}]})
    v2.refused(404, "NOT_FOUND", "77")
    activated = {"elementId": "pay", "variableInstructions": [{"variables": {"a": 5}}]}
    terminated = {"elementInstanceKey": task["elementInstanceKey"]}
    v2.post(path, {"activateInstructions": [activated], "terminateInstructions": [terminated]})
    assert v2.status == 204
    (job,) = v2.activate("payment")
    assert job["variables"] == {"a": 5}
    v2.post(path, {"terminateInstructions": [{"elementInstanceKey": job["elementInstanceKey"]}]})
    assert v2.call("GET", f"/process-instances/{key}")["state"] == "TERMINATED"
    v2.post(path, {"activateInstructions": [{"elementId": "pay"}]})
    v2.refused(404, "NOT_FOUND")


def test_a_modification_after_which_the_process_cannot_continue(alias, v2):
    """It fits, so that its arguments are not what is wrong."""
    never = b'targetRef="e"><conditionExpression>=false</conditionExpression></sequenceFlow>'
    deploy(chain(APPROVE, '<exclusiveGateway id="dec"/>').replace(b'targetRef="e"/>', never))
    key = start(v2)["processInstanceKey"]
    v2.post(f"/process-instances/{key}/modification", {"activateInstructions": [{"elementId": "dec"}]})
    v2.refused(409, "INVALID_STATE", "dec: No condition")


def test_a_start_in_the_middle(alias, v2):
    deploy(chain(APPROVE, PAY))
    start(v2, startInstructions=[{"elementId": "pay"}])
    assert v2.status == 200
    assert len(v2.activate("payment")) == 1
    assert not UserTask.objects.using(alias).exists()
    v2.post("/process-instances", {"processDefinitionId": "order", "startInstructions": [{"elementId": "nothing"}]})
    v2.refused(400, "INVALID_ARGUMENT", "nothing: There is no such element")


def test_a_suspended_task(alias, v2):
    deploy(chain(APPROVE))
    key = start(v2)["processInstanceKey"]
    suspend(ProcessInstance.objects.using(alias).get(), using=alias)
    (task,) = v2.post("/user-tasks/search")["items"]
    v2.post(f"/user-tasks/{task['userTaskKey']}/completion")
    v2.refused(409, "INVALID_STATE", "suspended")
    v2.call("PUT", f"/element-instances/{key}/variables", {"variables": {"a": 1}})
    assert v2.status == 204


def test_a_message_is_delivered_now(alias, v2):
    subscription = '<extensionElements><zeebe:subscription correlationKey="=id"/></extensionElements>'
    deploy(chain(AWAIT, before=MESSAGE.replace("/>", f">{subscription}</message>")))
    one, other = (start(v2, variables={"id": id})["processInstanceKey"] for id in "12")
    answer = v2.post("/messages/correlation", {"name": "paid", "correlationKey": "2", "variables": {"amount": 7}})
    assert (v2.status, answer["processInstanceKey"], answer["tenantId"]) == (200, other, "<default>")
    assert v2.call("GET", f"/process-instances/{other}")["state"] == "COMPLETED"
    v2.post("/messages/correlation", {"name": "paid", "correlationKey": "2"})
    v2.refused(404, "NOT_FOUND", "paid")
    assert v2.call("GET", f"/process-instances/{one}")["state"] == "ACTIVE"
    v2.post("/messages/correlation", {"name": ""})
    v2.refused(400, "INVALID_ARGUMENT", "name")


def test_a_message_starts_a_process(alias, v2):
    body = '<startEvent id="s"><messageEventDefinition messageRef="m"/></startEvent>' + PAY
    flows = '<endEvent id="e"/><sequenceFlow id="f" sourceRef="s" targetRef="pay"/>'
    deploy(xml(f'{body}{flows}<sequenceFlow id="g" sourceRef="pay" targetRef="e"/>', before=MESSAGE))
    answer = v2.post("/messages/correlation", {"name": "paid", "businessId": "4711"})
    assert v2.call("GET", f"/process-instances/{answer['processInstanceKey']}")["businessId"] == "4711"
    start(v2)
    v2.refused(409, "INVALID_STATE", "no start event")


def test_a_signal(alias, v2):
    deploy(chain(CATCH, before=SIGNAL))
    key = start(v2)["processInstanceKey"]
    answer = v2.post("/signals/broadcast", {"signalName": "go", "variables": {"by": "ann"}})
    assert (v2.status, answer["tenantId"]) == (200, "<default>")
    run(alias)
    assert v2.call("GET", f"/process-instances/{key}")["state"] == "COMPLETED"
    assert not EventSubscription.objects.using(alias).exists()


@SQLITE
@pytest.mark.parametrize(
    ("verb", "path", "body"),
    [
        ("broadcast_signal", "/signals/broadcast", {"signalName": "go"}),
        ("correlate_message", "/messages/correlation", {"name": "paid"}),
        ("modify", "/process-instances/{key}/modification", {"activateInstructions": [{"elementId": "pay"}]}),
    ],
)
def test_what_is_not_to_happen_twice(v2, monkeypatch, verb, path, body):
    def lost(*args, **named):
        raise OperationalError("the connection was lost")

    deploy()
    key = start(v2)["processInstanceKey"]
    monkeypatch.setattr(verbs, verb, lost)
    v2.post(path.format(key=key), body)
    v2.refused(502, "ABORTED", "unknown whether")


@pytest.mark.gate
def test_an_incident(alias, v2):
    deploy()
    key = start(v2)["processInstanceKey"]
    (job,) = v2.activate("payment")
    v2.post(f"/jobs/{job['jobKey']}/error", {"errorCode": "odd"})
    run(alias)
    assert DeadLetterJob.objects.using(alias).exists()
    (incident,) = v2.post("/incidents/search", {"filter": {"processInstanceKey": key}})["items"]
    assert (incident["state"], incident["elementId"]) == ("ACTIVE", "pay")
    assert v2.call("GET", f"/incidents/{incident['incidentKey']}")["processInstanceKey"] == key
    assert v2.call("GET", f"/process-instances/{key}")["hasIncident"]
    v2.post(f"/incidents/{incident['incidentKey']}/resolution")
    assert v2.status == 204, v2.body
    run(alias)
    (again,) = v2.activate("payment")
    assert again["processInstanceKey"] == key


@pytest.mark.gate
def test_an_incident_without_a_worker(alias, v2):
    """Its incident has no key until somebody looks for it."""
    flow = b'targetRef="e"><conditionExpression>=amount &gt; 1</conditionExpression></sequenceFlow>'
    deploy(chain('<exclusiveGateway id="g" camunda:asyncBefore="true"/>').replace(b'targetRef="e"/>', flow))
    key = start(v2, variables={"amount": 1})["processInstanceKey"]
    for _ in range(3):
        run(alias)
        retry_now(TimerJob.objects.using(alias).all(), using=alias)
    (row,) = Incident.objects.using(alias).all()
    assert row.incident_key is None
    (incident,) = v2.post("/incidents/search", {"filter": {"processInstanceKey": key}})["items"]
    assert (incident["elementId"], incident["jobKey"]) == ("g", None)
    again = v2.post("/incidents/search")["items"]
    assert [each["incidentKey"] for each in again] == [incident["incidentKey"]]
    v2.call("PUT", f"/element-instances/{key}/variables", {"variables": {"amount": 2}})
    v2.post(f"/incidents/{incident['incidentKey']}/resolution")
    assert v2.status == 204
    run(alias)
    assert v2.call("GET", f"/process-instances/{key}")["state"] == "COMPLETED"


def test_a_called_process(alias, v2):
    deploy(chain(PAY, key="child"))
    deploy(chain('<callActivity id="call" calledElement="child"/>'))
    key = start(v2)["processInstanceKey"]
    (job,) = v2.activate("payment")
    assert (job["rootProcessInstanceKey"], job["processDefinitionId"]) == (key, "child")
    child = v2.call("GET", f"/process-instances/{job['processInstanceKey']}")
    assert (child["parentProcessInstanceKey"], child["rootProcessInstanceKey"]) == (key, key)
    assert (child["processDefinitionId"], child["state"]) == ("child", "ACTIVE")
    v2.post(f"/process-instances/{child['processInstanceKey']}/cancellation")
    v2.refused(404, "NOT_FOUND", "called by another")


@SQLITE
class TestWho:
    @pytest.fixture
    def keys(self):
        return {"GATEWAY_AUTH": "required"}

    @pytest.mark.parametrize(
        ("method", "path"),
        [
            ("POST", "/process-definitions/search"),
            ("GET", "/process-definitions/1"),
            ("GET", "/process-definitions/1/xml"),
            ("POST", "/process-instances"),
            ("POST", "/process-instances/search"),
            ("GET", "/process-instances/1"),
            ("POST", "/process-instances/1/cancellation"),
            ("POST", "/process-instances/1/modification"),
            ("POST", "/process-instances/1/suspension"),
            ("POST", "/process-instances/1/resumption"),
            ("PUT", "/element-instances/1/variables"),
            ("POST", "/variables/search"),
            ("POST", "/messages/correlation"),
            ("POST", "/signals/broadcast"),
            ("POST", "/user-tasks/search"),
            ("GET", "/user-tasks/1"),
            ("POST", "/user-tasks/1/assignment"),
            ("DELETE", "/user-tasks/1/assignee"),
            ("POST", "/user-tasks/1/completion"),
        ],
    )
    def test_each_call_needs_its_permission(self, served, bearer, method, path):
        worker = V2(bearer("worker", ("work", "resolve")))
        worker.call(method, path, {} if method != "GET" else None)
        worker.refused(403, "FORBIDDEN", "lacks the permission")
        nobody = V2()
        nobody.call(method, path, {} if method != "GET" else None)
        nobody.refused(401, "UNAUTHORIZED")

    def test_deployments_too(self, served, bearer):
        assert deploy().status_code == 401
        assert deploy(authorization=bearer("worker", ("work",))).status_code == 403
        assert deploy(authorization=bearer(tenants=["north"])).status_code == 403

    def test_a_client_sees_only_its_tenants(self, alias, served, bearer):
        ours, all = bearer(tenants=["north"]), bearer("all")
        north, everybody = V2(ours), V2(all)
        assert deploy(chain(PAY, APPROVE), tenant="north", authorization=ours).status_code == 200
        made = deploy(chain(APPROVE), authorization=all).json()
        number = made["deployments"][0]["processDefinition"]["processDefinitionKey"]
        theirs = start(everybody, variables={"a": 2})["processInstanceKey"]
        (task,) = everybody.post("/user-tasks/search")["items"]
        mine = start(north, tenantId="north", variables={"a": 1})["processInstanceKey"]
        start(north)
        north.refused(403, "FORBIDDEN")
        for kind in ("process-definitions", "process-instances", "variables"):
            found = north.post(f"/{kind}/search")["items"]
            assert {each["tenantId"] for each in found} == {"north"}, kind
        assert [each["tenantId"] for each in north.post("/user-tasks/search")["items"]] == []
        tasks = f"/user-tasks/{task['userTaskKey']}"
        for path in (f"/process-definitions/{number}", f"/process-instances/{theirs}", tasks):
            north.call("GET", path)
            north.refused(404, "NOT_FOUND")
        north.post(f"/process-instances/{theirs}/cancellation")
        north.refused(404, "NOT_FOUND")
        north.post(f"/user-tasks/{task['userTaskKey']}/completion")
        north.refused(404, "NOT_FOUND")
        north.call("PUT", f"/element-instances/{theirs}/variables", {"variables": {}})
        north.refused(404, "NOT_FOUND")
        for path, given in (("/messages/correlation", {"name": "m"}), ("/signals/broadcast", {"signalName": "go"})):
            north.post(path, given)
            north.refused(403, "FORBIDDEN")
        assert north.call("GET", f"/process-instances/{mine}")["tenantId"] == "north"

    def test_the_audit_log_names_the_client(self, alias, served, bearer):
        authorization = bearer()
        client = V2(authorization)
        deploy(chain(APPROVE, before=SIGNAL), authorization=authorization)
        key = start(client)["processInstanceKey"]
        (task,) = client.post("/user-tasks/search")["items"]
        client.post(f"/user-tasks/{task['userTaskKey']}/assignment", {"assignee": "bob"})
        client.call("PUT", f"/element-instances/{key}/variables", {"variables": {"a": 1}})
        client.post("/signals/broadcast", {"signalName": "go"})
        client.post(f"/user-tasks/{task['userTaskKey']}/completion")
        rows = AuditLog.objects.using(alias).exclude(verb="create_client").order_by("pk")
        assert [(row.verb, row.operator, row.via) for row in rows] == [
            (verb, "java", "REST")
            for verb in ("deploy", "start_process", "claim", "set_variables", "broadcast_signal", "complete")
        ]


def refuse(request):
    """A policy."""
    return "not today" if request.action in ("start_process", "complete") else True


@SQLITE
class TestPolicy:
    @pytest.fixture
    def keys(self):
        return {"AUTHORIZATION": f"{__name__}.refuse"}

    def test_it_refuses(self, alias, v2):
        deploy(chain(APPROVE))
        start(v2)
        v2.refused(403, "FORBIDDEN", "not today")
        assert not ProcessInstance.objects.using(alias).exists()
