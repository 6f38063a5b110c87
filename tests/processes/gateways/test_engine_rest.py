"""The calls about processes in Camunda 7's REST API."""

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client

from jobexec import external_job
from jobexec.models import AuditLog, Suspension
from jobexec.processes.engine.exceptions import BpmnError
from jobexec.processes.handlers.registry import listener
from jobexec.processes.models import Execution, ProcessDefinition, ProcessDeployment, ProcessInstance, UserTask
from jobexec.sensitive import HIDDEN
from tests.gateways.engine_rest import EngineRest

from .models import APPROVE, AWAIT, BROKEN, CATCH, MESSAGE, PAY, SIGNAL, chain, run

SQLITE = pytest.mark.databases("sqlite")


def deploy(*files, authorization=None, **form):
    """The status and the answer to a form with files, each under a name of its own, as Camunda's modeler sends it."""
    parts = {f"data{n}": SimpleUploadedFile(name, content) for n, (name, content) in enumerate(files)}
    headers = {"Authorization": authorization} if authorization else {}
    answer = Client().post("/engine-rest/deployment/create", parts | form, headers=headers)
    return answer.status_code, answer.json()


def deployed(*elements, before="", **form):
    status, answer = deploy(("order.bpmn", chain(*elements or (PAY,), before=before)), **form)
    assert status == 200, answer
    return answer


def started(rest, **given):
    status, answer = rest.post("/process-definition/key/order/start", **given)
    assert status == 200, answer
    return answer


@pytest.mark.smoke
def test_from_the_deployment_to_the_end(alias, rest):
    made = deployed(**{"deployment-name": "shop"})
    row = ProcessDefinition.objects.using(alias).get()
    assert (made["id"], made["name"], made["tenantId"]) == (str(row.deployment_id), "shop", None)
    assert list(made["deployedProcessDefinitions"]) == [row.pk]
    given = {"amount": {"value": 5, "type": "Integer"}}
    instance = started(rest, variables=given, businessKey="4711", withVariablesInReturn=True)
    assert (instance["definitionId"], instance["businessKey"], instance["ended"]) == (row.pk, "4711", False)
    assert instance["variables"]["amount"]["value"] == 5
    (task,) = rest.fetch("payment")
    assert (task["processInstanceId"], task["processDefinitionId"]) == (instance["id"], row.pk)
    assert (task["businessKey"], task["activityId"]) == ("4711", "pay")
    rest.post(f"/external-task/{task['id']}/complete", workerId="w", variables={"paid": {"value": True}})
    run(alias)
    assert rest.get(f"/process-instance/{instance['id']}")[0] == 404
    shown = rest.get(f"/history/process-instance/{instance['id']}")[1]
    assert (shown["state"], shown["businessKey"], shown["processDefinitionVersion"]) == ("COMPLETED", "4711", 1)
    assert shown["durationInMillis"] >= 0


@SQLITE
def test_what_users_start(rest):
    """Whatever else its file says."""
    told = b'<documentation>"startable": false</documentation><startEvent'
    plain = chain(PAY).replace(b"<startEvent", told)
    hidden = chain(PAY, key="part").replace(b"isExecutable", b'camunda:isStartableInTasklist="false" isExecutable')
    _, made = deploy(("order.bpmn", plain), ("part.bpmn", hidden))
    shown = {each["key"]: each["startableInTasklist"] for each in made["deployedProcessDefinitions"].values()}
    assert shown == {"order": True, "part": False}
    shown = {each["key"]: each["startableInTasklist"] for each in rest.get("/process-definition")[1]}
    assert shown == {"order": True, "part": False}
    for flag, key in (("startableInTasklist", "order"), ("notStartableInTasklist", "part")):
        assert [each["key"] for each in rest.get("/process-definition", **{flag: "true"})[1]] == [key]


@SQLITE
@pytest.mark.parametrize(("text", "days"), [("", None), ("5", 5), ("P30D", 30), ("P1Y", 365), ("P0D", 0)])
def test_for_how_many_days_history_is_kept(rest, text, days):
    attribute = f'camunda:historyTimeToLive="{text}" isExecutable'.encode() if text else b"isExecutable"
    _, made = deploy(("order.bpmn", chain(PAY).replace(b"isExecutable", attribute)))
    (deployed,) = made["deployedProcessDefinitions"].values()
    (listed,) = rest.get("/process-definition")[1]
    assert deployed["historyTimeToLive"] == listed["historyTimeToLive"] == days


@SQLITE
class TestDeployment:
    @pytest.mark.parametrize(
        ("files", "status", "words"),
        [
            ([("order.bpmn", chain(PAY)), ("odd.bpmn", BROKEN)], 400, "odd.bpmn"),
            ([("form.html", b"")], 400, "form.html: expected a BPMN file"),
            ([("order.bpmn", b"<!DOCTYPE a>" + chain(PAY)[22:])], 400, "DOCTYPE"),
            ([], 400, "at least one file"),
            ([("order.bpmn", b" " * 9 * 1024 * 1024)], 413, "at most 8,388,608"),
        ],
    )
    def test_what_cannot_be_deployed(self, alias, rest, files, status, words):
        found, answer = deploy(*files)
        assert (found, set(answer)) == (status, {"type", "message", "code"})
        assert words in answer["message"]
        assert not ProcessDeployment.objects.using(alias).exists()

    def test_the_same_again(self, rest):
        first, second = deployed(), deployed()
        assert (first["id"], second["deployedProcessDefinitions"]) == (second["id"], None)

    def test_only_a_form(self, rest):
        assert rest.post("/deployment/create")[0] == 415

    def test_definitions(self, alias, rest):
        deployed(**{"tenant-id": "north"})
        deployed()
        new = deployed(PAY, APPROVE)["deployedProcessDefinitions"]
        rows = rest.get("/process-definition", sortBy="version", sortOrder="desc", withoutTenantId="true")[1]
        assert [each["version"] for each in rows] == [2, 1]
        assert (
            rest.get("/process-definition", key="order", latestVersion="true", tenantIdIn="north")[1][0]["version"] == 1
        )
        latest = rest.get("/process-definition", latestVersion="true", sortBy="version", sortOrder="desc")[1]
        assert [(each["version"], each["tenantId"]) for each in latest] == [(2, None), (1, "north")]
        assert rest.get("/process-definition/count", latestVersion="true")[1] == {"count": 2}
        assert rest.get("/process-definition", key="other")[1] == []
        assert rest.get("/process-definition/count", key="order")[1] == {"count": 3}
        (id,) = new
        assert rest.get(f"/process-definition/{id}")[1] == rest.get("/process-definition/key/order")[1] == new[id]
        assert rest.get("/process-definition/key/order/tenant-id/north")[1]["tenantId"] == "north"
        told = rest.get("/process-definition/key/order/xml")[1]
        assert told == {"id": id, "bpmn20Xml": chain(PAY, APPROVE).decode()}
        assert rest.get(f"/process-definition/{id}/xml")[1] == told
        assert rest.get("/process-definition/nobody")[0] == 404
        assert rest.get("/process-definition/key/nobody/xml")[0] == 404
        assert rest.get("/process-definition", sortBy="odd", sortOrder="asc")[0] == 400
        assert rest.get("/process-definition", sortBy="key")[0] == 400


@SQLITE
class TestStart:
    def test_what_is_wrong(self, alias, rest):
        deployed()
        path = "/process-definition/key/order/start"
        assert rest.post("/process-definition/key/nobody/start")[0] == 404
        assert rest.post("/process-definition/nobody/start")[0] == 404
        for given in (
            {"variables": {"a": 5}},
            {"variables": {"a": {"value": "x", "type": "Integer"}}},
            {"variables": {"a": {"value": "x" * 70_000}}},
            {"businessKey": "x" * 256},
            {"startInstructions": [{"type": "startBeforeActivity"}]},
            {"startInstructions": [{"type": "cancel", "activityId": "pay"}]},
            {"startInstructions": [{"type": "startTransition", "transitionId": "f0"}]},
            {"startInstructions": [{"type": "startBeforeActivity", "activityId": "pay"}], "skipIoMappings": True},
        ):
            status, answer = rest.post(path, **given)
            assert (status, set(answer)) == (400, {"type", "message", "code"}), given
        assert rest.get(path)[0] == 405
        assert not ProcessInstance.objects.using(alias).exists()

    def test_by_id_and_tenant(self, alias, rest):
        (id,) = deployed(**{"tenant-id": "north"})["deployedProcessDefinitions"]
        assert rest.post(f"/process-definition/{id}/start")[1]["tenantId"] == "north"
        assert rest.post("/process-definition/key/order/tenant-id/north/start")[1]["tenantId"] == "north"
        assert rest.post("/process-definition/key/order/start")[1]["tenantId"] == "north"
        deployed(**{"tenant-id": "south"})
        assert rest.post("/process-definition/key/order/start")[0] == 400


@pytest.mark.gate
def test_instances_and_variables(alias, rest):
    deployed()
    one = started(rest, businessKey="1", variables={"a": {"value": {"b": [1]}, "type": "Json"}})["id"]
    made = started(rest, businessKey="2", variables={"password": {"value": "secret"}}, withVariablesInReturn=True)
    two = made["id"]
    assert made["variables"]["password"]["value"] == HIDDEN
    assert [each["id"] for each in rest.get("/process-instance", businessKey="2")[1]] == [two]
    assert [each["id"] for each in rest.post("/process-instance", processInstanceIds=[one, "odd"])[1]] == [one]
    assert rest.get("/process-instance/count", processDefinitionKey="order")[1] == {"count": 2}
    assert rest.get(f"/process-instance/{one}")[1]["businessKey"] == "1"
    assert rest.get(f"/process-instance/{one}/variables", deserializeValues="false")[1]["a"]["value"] == '{"b":[1]}'
    assert rest.get(f"/process-instance/{two}/variables")[1]["password"]["value"] != "secret"
    due = {"value": "2026-01-02T03:04:05.000+0000", "type": "Date"}
    assert rest.put(f"/process-instance/{one}/variables/due", **due)[0] == 204
    assert rest.get(f"/process-instance/{one}/variables/due")[1] == due | {"valueInfo": {}}
    assert rest.get(f"/process-instance/{one}/variables/nothing")[0] == 404
    assert rest.post(f"/process-instance/{one}/variables", modifications={"a": {"value": 3}})[0] == 204
    assert rest.get(f"/process-instance/{one}/variables/a")[1]["value"] == 3
    assert rest.post(f"/process-instance/{one}/variables", deletions=["a"])[0] == 400
    assert rest.send("DELETE", f"/process-instance/{one}")[0] == 204
    assert rest.send("DELETE", f"/process-instance/{one}")[0] == 404
    assert rest.get("/process-instance/odd")[0] == 404
    assert rest.send("PATCH", f"/process-instance/{two}")[0] == 405
    assert [each["id"] for each in rest.get("/history/process-instance", externallyTerminated="true")[1]] == [one]
    assert rest.get("/history/process-instance/count", unfinished="true")[1] == {"count": 1}
    for path in ("/process-instance", "/process-instance/count", "/history/process-instance", "/task"):
        assert rest.get(path, variables="a_eq_1")[0] == 400, "a client that acts on the list would act on all rows"
    assert rest.post("/process-instance", variables=[{"name": "a", "operator": "eq", "value": 1}])[0] == 400
    ordered = rest.get("/history/process-instance", sortBy="businessKey", sortOrder="desc", maxResults="1")[1]
    assert [each["id"] for each in ordered] == [two]


@pytest.mark.gate
def test_a_task(alias, rest):
    deployed(APPROVE.replace('camunda:assignee="ann"', ""))
    instance = started(rest, businessKey="4711")["id"]
    assert rest.get("/task", assignee="bob")[1] == []
    for given in (
        {"candidateGroup": "sales"},
        {"unassigned": "true"},
        {"processInstanceBusinessKey": "4711"},
        {"processInstanceId": instance},
        {"processDefinitionKey": "order", "taskDefinitionKey": "approve"},
    ):
        (task,) = rest.get("/task", **given)[1]
    assert (task["name"], task["taskDefinitionKey"], task["assignee"]) == ("Approve it", "approve", None)
    assert rest.get("/task/count")[1] == rest.post("/task/count")[1] == {"count": 1}
    path = f"/task/{task['id']}"
    assert rest.get(path)[1] == task
    assert rest.post(f"{path}/claim", userId="bob")[0] == 204
    assert rest.post(f"{path}/claim", userId="ann")[0] == 500  # Camunda: TaskAlreadyClaimedException
    assert rest.post("/task", assigned=True)[1][0]["assignee"] == "bob"
    assert rest.post(f"{path}/unclaim")[0] == 204
    assert rest.post(f"{path}/assignee", userId="ann")[0] == 204
    assert rest.post(f"{path}/assignee", userId=None)[0] == 204
    assert UserTask.objects.using(alias).get().assignee == ""
    assert rest.post(f"{path}/claim")[0] == 400
    status, answer = rest.post(f"{path}/complete", variables={"ok": {"value": True}}, withVariablesInReturn=True)
    assert (status, answer["ok"]["value"]) == (200, True)
    assert rest.get(f"/history/process-instance/{instance}")[1]["state"] == "COMPLETED"
    for call in ("complete", "claim", "unclaim", "bpmnError"):
        assert rest.post(f"{path}/{call}", userId="ann", errorCode="odd")[0] == 404
    assert rest.get("/task/odd")[0] == 404


@SQLITE
def test_a_task_ends_with_an_error(alias, rest):
    deployed(APPROVE)
    started(rest)
    (task,) = rest.get("/task")[1]
    assert rest.post(f"/task/{task['id']}/bpmnError")[0] == 400
    status, answer = rest.post(f"/task/{task['id']}/bpmnError", errorCode="odd")
    assert (status, "approve" in answer["message"]) == (500, True)
    assert UserTask.objects.using(alias).exists()


def test_messages(alias, rest):
    deployed(AWAIT, before=MESSAGE)
    one = started(rest, businessKey="1", variables={"order": {"value": 17}})["id"]
    two = started(rest, businessKey="2", variables={"order": {"value": 18}})["id"]
    status, answer = rest.post("/message", messageName="paid")
    assert (status, answer["type"]) == (400, "RestException")
    keys = {"order": {"value": 18, "type": "Integer"}}
    status, (told,) = rest.post("/message", messageName="paid", correlationKeys=keys, resultEnabled=True)
    assert (status, told["resultType"], told["processInstance"]["id"]) == (200, "Execution", two)
    assert rest.post("/message", messageName="paid", correlationKeys=keys)[0] == 400
    given = {"paid": {"value": True}}
    assert rest.post("/message", messageName="paid", businessKey="1", processVariables=given)[0] == 204
    assert ProcessInstance.objects.using(alias).get(pk=one).final_variables == {"order": 17, "paid": True}
    three, four = (started(rest)["id"] for _ in range(2))
    assert rest.post("/message", messageName="paid", processInstanceId=three)[0] == 204
    assert rest.post("/message", messageName="paid", all=True)[0] == 204
    assert rest.post("/message", messageName="paid", all=True)[0] == 400
    assert rest.post("/message")[0] == 400
    assert rest.post("/message", messageName="paid", localCorrelationKeys=keys)[0] == 400
    assert rest.get("/process-instance/count")[1] == {"count": 0}
    assert {three, four} < {each["id"] for each in rest.get("/history/process-instance", completed="true")[1]}


@pytest.mark.gate
def test_a_message_for_the_one_of_two_that_match_with_a_business_key(alias, rest):
    deployed(AWAIT, before=MESSAGE)
    keys = {"order": {"value": 17}}
    one, two, three = (started(rest, businessKey=key, variables=keys)["id"] for key in ("1", "2", "3"))
    refused = rest.post("/message", messageName="paid", correlationKeys=keys)
    assert (refused[0], "3 do" in refused[1]["message"]) == (400, True)
    assert rest.post("/message", messageName="paid", correlationKeys=keys, businessKey="2")[0] == 204
    assert rest.get(f"/history/process-instance/{two}")[1]["state"] == "COMPLETED"
    assert rest.post("/message", messageName="paid", processInstanceId="odd")[0] == 400
    given = {"correlationKeys": keys, "processInstanceId": three, "businessKey": "1"}
    assert rest.post("/message", messageName="paid", **given)[0] == 400
    status, told = rest.post("/message", messageName="paid", correlationKeys=keys, all=True, resultEnabled=True)
    assert (status, {each["processInstance"]["id"] for each in told}) == (200, {one, three})
    assert rest.post("/message", messageName="paid", correlationKeys=keys, all=True)[0] == 400


@pytest.mark.gate
def test_a_message_for_several_reaches_all_or_none(alias, rest):
    deployed(AWAIT, before=MESSAGE)
    keys = {"order": {"value": 17}}
    one, two = (started(rest, variables=keys)["id"] for _ in range(2))
    assert rest.put(f"/process-instance/{max(one, two)}/suspended", suspended=True)[0] == 204
    assert rest.post("/message", messageName="paid", correlationKeys=keys, all=True)[0] == 500
    assert {each["id"] for each in rest.get("/process-instance")[1]} == {one, two}


@pytest.mark.gate
def test_an_instance_is_suspended(alias, rest):
    deployed(APPROVE)
    id, other = started(rest)["id"], started(rest)["id"]
    assert rest.put(f"/process-instance/{id}/suspended", suspended=True) == (204, None)
    shown = {each["id"]: each["suspended"] for each in rest.get("/process-instance")[1]}
    assert shown == {id: True, other: False}
    for path in ("/process-instance", "/task"):
        of = "id" if path == "/process-instance" else "processInstanceId"
        assert [each[of] for each in rest.get(path, suspended="true")[1]] == [id]
        assert [each[of] for each in rest.get(path, active="true")[1]] == [other]
    assert rest.get(f"/history/process-instance/{id}")[1]["state"] == "SUSPENDED"
    (task,) = rest.get("/task", processInstanceId=id)[1]
    assert task["suspended"] is True
    assert rest.post(f"/task/{task['id']}/complete")[0] == 500
    assert rest.put(f"/process-instance/{id}/suspended", suspended=False)[0] == 204
    assert rest.get(f"/process-instance/{id}")[1]["suspended"] is False
    assert rest.post(f"/task/{task['id']}/complete")[0] == 204
    assert rest.put(f"/process-instance/{id}/suspended", suspended=True)[0] == 404
    assert rest.put(f"/process-instance/{other}/suspended")[0] == 400


@pytest.mark.gate
def test_definitions_are_suspended(alias, rest):
    deployed(APPROVE)
    (second,) = deployed(APPROVE, PAY)["deployedProcessDefinitions"]
    id = started(rest)["id"]
    assert rest.put("/process-definition/key/order/suspended", suspended=True)[0] == 204, "the latest version"
    assert {each["version"]: each["suspended"] for each in rest.get("/process-definition")[1]} == {1: False, 2: True}
    assert [each["id"] for each in rest.get("/process-definition", suspended="true")[1]] == [second]
    assert rest.get("/process-definition/count", active="true")[1] == {"count": 1}
    assert rest.get(f"/process-instance/{id}")[1]["suspended"] is False
    assert rest.post("/process-definition/key/order/start")[0] == 500
    assert rest.put(f"/process-definition/{second}/suspended", suspended=True, includeProcessInstances=True)[0] == 204
    assert rest.get(f"/process-instance/{id}")[1]["suspended"] is True
    assert rest.put(f"/process-definition/{second}/suspended", suspended=False)[0] == 204
    body = {"processDefinitionKey": "order", "suspended": True, "executionDate": "2099-01-01T00:00:00.000+0000"}
    assert rest.put("/process-definition/suspended", **body)[0] == 204
    assert rest.get("/process-definition/count", active="true")[1] == {"count": 2}
    assert Suspension.objects.using(alias).get(live=True).suspend_time.year == 2099
    for wrong in (body | {"executionDate": "soon"}, body | {"processDefinitionId": second}, {"suspended": True}):
        assert rest.put("/process-definition/suspended", **wrong)[0] == 400
    assert rest.put("/process-definition/suspended", processDefinitionKey="x", suspended=True)[0] == 404


@listener("tests.engine_rest.protest")
def protest(context):
    raise BpmnError("TOO_MUCH")


def test_listeners_are_skipped_on_request(alias, rest):
    extensions = '<camunda:executionListener event="end" delegateExpression="${tests.engine_rest.protest}"/>'
    deployed(APPROVE.replace("/>", f"><extensionElements>{extensions}</extensionElements></userTask>"), PAY)
    one, two = started(rest)["id"], started(rest)["id"]
    assert rest.send("DELETE", f"/process-instance/{one}")[0] == 500
    assert rest.send("DELETE", f"/process-instance/{one}?skipCustomListeners=true")[0] == 204
    path = f"/process-instance/{two}/modification"
    moved = [{"type": "cancel", "activityId": "approve"}, {"type": "startBeforeActivity", "activityId": "pay"}]
    assert rest.post(path, instructions=moved)[0] == 500
    assert rest.post(path, instructions=moved, skipCustomListeners=True) == (204, None)
    assert Execution.objects.using(alias).get().element_id == "pay"


@pytest.mark.gate
def test_a_modification(alias, rest):
    deployed(APPROVE, AWAIT, before=MESSAGE)
    id = started(rest)["id"]
    path = f"/process-instance/{id}/modification"
    activity = str(Execution.objects.using(alias).get().activity_id)
    before = {"type": "startBeforeActivity", "activityId": "await", "variables": {"a": {"value": 5, "type": "Integer"}}}
    for wrong, words in [
        ({}, "instructions"),
        ({"instructions": [{"type": "startTransition", "transitionId": "f1"}]}, "instructions[0].type"),
        ({"instructions": [{"type": "cancel"}]}, "instructions[0].activityId"),
        ({"instructions": [{"type": "cancel", "activityId": "approve", "transitionInstanceId": "1"}]}, "transition"),
        ({"instructions": [before], "skipIoMappings": True}, "skipIoMappings"),
        ({"instructions": [before | {"variables": {"a": {"value": 1, "local": True}}}]}, "variables.a.local"),
        ({"instructions": "x"}, "instructions"),
    ]:
        status, answer = rest.post(path, **wrong)
        assert (status, words in answer["message"]) == (400, True), answer
    assert rest.post(path, instructions=[{"type": "cancel", "activityId": "e"}])[0] == 500
    cancel = {"type": "cancel", "activityId": "approve", "activityInstanceId": f"approve:{activity}"}
    assert rest.post(path, instructions=[cancel, before], annotation="by hand") == (204, None)
    assert Execution.objects.using(alias).get().element_id == "await"
    assert rest.get(f"/process-instance/{id}/variables")[1]["a"]["value"] == 5
    after = {"type": "startAfterActivity", "activityId": "await"}
    assert rest.post(path, instructions=[{"type": "cancel", "activityId": "await"}, after])[0] == 204
    assert rest.get(f"/history/process-instance/{id}")[1]["state"] == "COMPLETED"
    assert rest.post(path, instructions=[after])[0] == 404


def test_a_start_in_the_middle(alias, rest):
    deployed(APPROVE, AWAIT, before=MESSAGE)
    after = {"type": "startAfterActivity", "activityId": "approve"}
    before = {"type": "startBeforeActivity", "activityId": "approve"}
    id = started(rest, startInstructions=[after, before], variables={"a": {"value": 5}})["id"]
    rows = Execution.objects.using(alias).filter(instance_id=id)
    assert sorted(rows.values_list("element_id", flat=True)) == ["approve", "await"]


def test_a_signal(alias, rest):
    deployed(CATCH, before=SIGNAL)
    for _ in range(2):
        started(rest)
    assert rest.post("/signal", name="go", variables={"by": {"value": "ann"}})[0] == 204
    run(alias)
    assert {row.final_variables["by"] for row in ProcessInstance.objects.using(alias).all()} == {"ann"}
    assert rest.post("/signal")[0] == 400
    assert rest.post("/signal", name="go", executionId="5")[0] == 400


def test_incidents(alias, rest):
    deployed()
    instance = started(rest)["id"]
    (task,) = rest.fetch("payment")
    rest.post(f"/external-task/{task['id']}/failure", workerId="w", retries=0, errorMessage="no luck")
    (incident,) = rest.get("/incident", processInstanceId=instance)[1]
    assert (incident["incidentMessage"], incident["incidentType"]) == ("no luck", "failedJob")
    assert incident["processDefinitionId"] == ProcessInstance.objects.using(alias).get(pk=instance).definition_id
    assert rest.get(f"/incident/{incident['id']}")[1] == incident
    assert rest.get("/incident/count", processDefinitionKeyIn="order")[1] == {"count": 1}
    assert rest.get("/incident", processInstanceId="other")[1] == []
    assert rest.get("/incident/odd")[0] == 404


@SQLITE
class TestWho:
    @pytest.fixture
    def keys(self):
        return {"GATEWAY_AUTH": "required"}

    @pytest.mark.parametrize(
        ("method", "path"),
        [
            *(
                ("GET", path)
                for path in (
                    "/process-definition",
                    "/process-definition/count",
                    "/process-definition/key/order",
                    "/process-definition/1/xml",
                    "/process-instance",
                    "/process-instance/1",
                    "/process-instance/1/variables",
                    "/process-instance/1/variables/a",
                    "/task",
                    "/task/1",
                    "/incident",
                    "/incident/1",
                    "/history/process-instance",
                    "/history/process-instance/1",
                )
            ),
            *(
                ("POST", path)
                for path in (
                    "/process-definition/key/order/start",
                    "/process-definition/1/start",
                    "/process-instance/1/variables",
                    "/process-instance/1/modification",
                    "/message",
                    "/signal",
                    "/task/1/claim",
                    "/task/1/unclaim",
                    "/task/1/assignee",
                    "/task/1/complete",
                    "/task/1/bpmnError",
                )
            ),
            ("PUT", "/process-instance/1/variables/a"),
            ("PUT", "/process-instance/1/suspended"),
            ("PUT", "/process-definition/1/suspended"),
            ("PUT", "/process-definition/key/order/suspended"),
            ("PUT", "/process-definition/suspended"),
            ("DELETE", "/process-instance/1"),
        ],
    )
    def test_each_call_needs_its_permission(self, served, bearer, method, path):
        worker = EngineRest("/engine-rest", authorization=bearer("worker", ("work", "resolve")))
        status, answer = worker.send(method, path)
        assert (status, answer["type"]) == (403, "AuthorizationException")
        status, answer = EngineRest("/engine-rest").send(method, path)
        assert (status, answer["type"]) == (401, "AuthenticationException")

    @pytest.mark.gate
    def test_a_client_sees_only_its_tenants(self, alias, served, bearer):
        ours, all = bearer(tenants=["north"]), bearer("all")
        north, everybody = (EngineRest("/engine-rest", authorization=each) for each in (ours, all))
        content = ("order.bpmn", chain(APPROVE))
        assert deploy(content, authorization=ours)[0] == 403
        assert deploy(content, authorization=ours, **{"tenant-id": "north"})[0] == 200
        (id,) = deploy(content, authorization=all)[1]["deployedProcessDefinitions"]
        theirs = started(everybody)["id"]
        (task,) = everybody.get("/task")[1]
        assert started(north)["tenantId"] == "north"
        for path in ("/process-definition", "/process-instance", "/task", "/history/process-instance"):
            assert [each["tenantId"] for each in north.get(path)[1]] == ["north"], path
        for path in (f"/process-definition/{id}", f"/process-instance/{theirs}", f"/task/{task['id']}"):
            assert north.get(path)[0] == 404
        assert north.post(f"/process-definition/{id}/start")[0] == 404
        assert north.post(f"/task/{task['id']}/complete")[0] == 404
        assert north.send("DELETE", f"/process-instance/{theirs}")[0] == 404
        assert north.put(f"/process-instance/{theirs}/variables/a", value=1)[0] == 404
        assert north.put(f"/process-instance/{theirs}/suspended", suspended=True)[0] == 404
        assert north.post(f"/process-instance/{theirs}/modification", instructions=[{"type": "cancel"}])[0] == 404
        assert north.put(f"/process-definition/{id}/suspended", suspended=True)[0] == 404
        assert north.put("/process-definition/suspended", processDefinitionKey="order", suspended=True)[0] == 204
        assert Suspension.objects.using(alias).get().shown_value == "order (north)"
        assert north.post("/message", messageName="paid")[0] == 403
        assert north.post("/signal", name="go")[0] == 403

    def test_a_client_sees_only_incidents_of_its_types(self, alias, served, bearer):
        ours, all = (
            EngineRest("/engine-rest", authorization=bearer(name, types=types))
            for name, types in (("mail", ["mail"]), ("all", []))
        )
        external_job("payment", database=alias)
        (task,) = all.fetch("payment")
        all.post(f"/external-task/{task['id']}/failure", workerId="w", retries=0, errorMessage="a secret")
        (incident,) = all.get("/incident")[1]
        assert ours.get("/incident")[1] == []
        assert ours.get("/incident/count")[1] == {"count": 0}
        assert ours.get(f"/incident/{incident['id']}")[0] == 404

    def test_the_audit_log_names_the_client(self, alias, served, bearer):
        authorization = bearer()
        client = EngineRest("/engine-rest", authorization=authorization)
        deploy(("order.bpmn", chain(APPROVE, AWAIT, before=MESSAGE)), authorization=authorization)
        id = started(client)["id"]
        (task,) = client.get("/task")[1]
        client.post(f"/task/{task['id']}/complete")
        client.put(f"/process-instance/{id}/variables/a", value=1)
        client.post("/message", messageName="paid")
        rows = AuditLog.objects.using(alias).exclude(verb="create_client").order_by("pk")
        assert [(row.verb, row.operator) for row in rows] == [
            (verb, "java") for verb in ("deploy", "start_process", "complete", "set_variables", "correlate_message")
        ]
