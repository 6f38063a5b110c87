"""The calls about processes over gRPC, from a client without a library."""

import json
import threading

import grpc
import pytest
from django.db import InterfaceError, OperationalError
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.models import Q

from jobexec.exceptions import Unauthenticated
from jobexec.gateways import long_polling
from jobexec.gateways.grpc import gateway_pb2 as pb
from jobexec.gateways.grpc.call_context import CallContext
from jobexec.models import AuditLog, ExternalWorkerJob, TimerJob
from jobexec.operations import retry_now
from jobexec.operations.external.search import search_incidents
from jobexec.processes.engine.exceptions import BpmnError
from jobexec.processes.gateways import awaiting, verbs
from jobexec.processes.handlers.registry import listener
from jobexec.processes.models import ProcessDefinition, ProcessDeployment, ProcessInstance, UserTask, Variable
from jobexec.processes.operations.suspend import suspend
from jobexec.processes.operations.user_tasks import complete
from tests.gateways.grpc.test_access import as_client, code_of
from tests.support.waiting import until

from .models import APPROVE, AWAIT, BROKEN, CATCH, MESSAGE, PAY, SCRIPT, SIGNAL, chain, run, xml

pytestmark = [pytest.mark.transactional, pytest.mark.databases("sqlite")]
Code = grpc.StatusCode


def deployed(gateway, content=None, client=None, name="order.bpmn", **fields):
    files = [{"name": name, "content": chain(PAY) if content is None else content}]
    return (client or gateway.client).DeployResource(resources=files, **fields)


def failed(call, code, *words):
    with pytest.raises(grpc.RpcError) as caught:
        call()
    assert caught.value.code() is code, caught.value.details()
    for word in words:
        assert word in caught.value.details()


def instance(gateway, key):
    return ProcessInstance.objects.using(gateway.alias).get(key=key)


def test_from_the_deployment_to_the_end(gateway):
    answer = deployed(gateway)
    (made,) = (each.process for each in answer.deployments)
    row = ProcessDefinition.objects.using(gateway.alias).get()
    assert (made.bpmnProcessId, made.version, made.processDefinitionKey) == ("order", 1, row.number)
    assert (made.resourceName, made.tenantId, answer.tenantId) == ("order.bpmn", "<default>", "<default>")
    assert answer.key == ProcessDeployment.objects.using(gateway.alias).get().key
    started = gateway.client.CreateProcessInstance(bpmnProcessId="order", version=-1, variables='{"amount": 5}')
    assert (started.processDefinitionKey, started.bpmnProcessId, started.version) == (row.number, "order", 1)
    (job,) = gateway.client.activate("payment")
    assert (job.processInstanceKey, job.processDefinitionKey) == (started.processInstanceKey, row.number)
    assert (job.bpmnProcessId, job.elementId, job.processDefinitionVersion) == ("order", "pay", 1)
    assert json.loads(job.variables) == {"amount": 5}
    gateway.client.CompleteJob(jobKey=job.key, variables='{"paid": true}')
    run(gateway.alias)
    row = instance(gateway, started.processInstanceKey)
    assert (row.state, row.final_variables) == ("completed", {"amount": 5, "paid": True})


def test_the_same_file_again_makes_no_version(gateway):
    first, second = deployed(gateway), deployed(gateway)
    assert (first.key, list(first.deployments)) == (second.key, list(second.deployments))
    third = deployed(gateway, chain(PAY, APPROVE))
    assert third.key != first.key
    assert third.deployments[0].process.version == 2


def test_the_deprecated_call(gateway):
    answer = gateway.client.DeployProcess(processes=[{"name": "order.bpmn", "definition": chain(PAY)}])
    assert [(each.bpmnProcessId, each.version) for each in answer.processes] == [("order", 1)]


class TestWhatCannotBeDeployed:
    @pytest.mark.parametrize(
        ("files", "words"),
        [
            ([("order.bpmn", chain(PAY)), ("odd.bpmn", BROKEN)], ("odd.bpmn", "line 3", "odd")),
            ([("order.bpmn", chain(PAY)), ("form.form", b"{}")], ("form.form: expected a BPMN file",)),
            ([("order.bpmn", b"<!DOCTYPE a>" + chain(PAY)[22:])], ("DOCTYPE is not accepted",)),
            ([("order.bpmn", chain(PAY) + b" " * 2 * 1024 * 1024)], ("expected at most 2,097,152",)),
            ([("order.bpmn", b"no xml")], ("order.bpmn",)),
            ([("", chain(PAY))], ("name: expected",)),
            ([], ("at least one file",)),
            ([("a.bpmn", chain(PAY))] * 101, ("at most 100 files",)),
        ],
    )
    def test_nothing_is_deployed(self, gateway, files, words):
        resources = [{"name": name, "content": content} for name, content in files]
        failed(lambda: gateway.client.DeployResource(resources=resources), Code.INVALID_ARGUMENT, *words)
        assert not ProcessDefinition.objects.using(gateway.alias).exists()
        assert not ProcessDeployment.objects.using(gateway.alias).exists()


class TestStart:
    @pytest.fixture(autouse=True)
    def there(self, gateway):
        self.number = deployed(gateway).deployments[0].process.processDefinitionKey

    def test_a_version_or_a_key(self, gateway):
        deployed(gateway, chain(PAY, APPROVE))
        start = gateway.client.CreateProcessInstance
        assert start(bpmnProcessId="order", version=1).version == 1
        assert start(bpmnProcessId="order").version == 2
        assert start(processDefinitionKey=self.number).version == 1

    @pytest.mark.parametrize(
        ("given", "code", "words"),
        [
            ({"bpmnProcessId": "nobody"}, Code.NOT_FOUND, "Command 'CREATE' rejected with code 'NOT_FOUND'"),
            ({"bpmnProcessId": "order", "version": 9}, Code.NOT_FOUND, "version 9"),
            ({"processDefinitionKey": 1}, Code.NOT_FOUND, "key '1'"),
            ({"bpmnProcessId": "order", "tenantId": "north"}, Code.NOT_FOUND, "order"),
            ({}, Code.INVALID_ARGUMENT, "bpmnProcessId: expected"),
            ({"bpmnProcessId": "order", "variables": "[1]"}, Code.INVALID_ARGUMENT, "variables: expected"),
            ({"bpmnProcessId": "order", "variables": "{"}, Code.INVALID_ARGUMENT, "variables: expected"),
            (
                {"bpmnProcessId": "order", "variables": json.dumps({"text": "x" * 70_000})},
                Code.INVALID_ARGUMENT,
                "text: expected at most",
            ),
            (
                {"bpmnProcessId": "order", "startInstructions": [{"elementId": "x"}]},
                Code.INVALID_ARGUMENT,
                "x: There is no such element",
            ),
        ],
    )
    def test_nothing_is_started(self, gateway, given, code, words):
        failed(lambda: gateway.client.CreateProcessInstance(**given), code, words)
        assert not ProcessInstance.objects.using(gateway.alias).exists()
        assert not ExternalWorkerJob.objects.using(gateway.alias).exists()

    @pytest.mark.databases("postgresql")
    def test_what_no_database_can_hold(self, gateway):
        failed(lambda: gateway.client.CreateProcessInstance(bpmnProcessId="a\0"), Code.INVALID_ARGUMENT, "can store")

    def test_in_the_middle(self, gateway):
        deployed(gateway, chain(APPROVE, PAY))
        gateway.client.CreateProcessInstance(bpmnProcessId="order", startInstructions=[{"elementId": "pay"}])
        assert ExternalWorkerJob.objects.using(gateway.alias).count() == 1

    def test_a_first_step_that_cannot_be_taken(self, gateway):
        deployed(gateway, chain(SCRIPT.replace("amount + 1", "1 / nothing.at.all")))
        wrong = chain('<exclusiveGateway id="g"/>').replace(
            b'targetRef="e"/>', b'targetRef="e"><conditionExpression>=false</conditionExpression></sequenceFlow>'
        )
        deployed(gateway, wrong)
        failed(lambda: gateway.client.CreateProcessInstance(bpmnProcessId="order"), Code.FAILED_PRECONDITION, "g:")
        assert not ProcessInstance.objects.using(gateway.alias).exists()


def test_a_suspended_process_is_not_started(gateway):
    deployed(gateway)
    suspend("order", using=gateway.alias)
    start = gateway.client.CreateProcessInstance
    failed(lambda: start(bpmnProcessId="order"), Code.FAILED_PRECONDITION, "suspended")
    assert not ProcessInstance.objects.using(gateway.alias).exists()


class TestWithResult:
    def test_a_process_that_does_not_wait(self, gateway):
        deployed(gateway, chain(SCRIPT))
        given = {"bpmnProcessId": "order", "variables": '{"amount": 5}'}
        answer = gateway.client.CreateProcessInstanceWithResult(request=given, fetchVariables=["total", "other"])
        assert json.loads(answer.variables) == {"total": 6}
        assert instance(gateway, answer.processInstanceKey).state == "completed"

    def test_one_that_ends_later(self, gateway):
        deployed(gateway)
        answers = []

        def ask():
            request = {"bpmnProcessId": "order", "variables": '{"amount": 5}'}
            answers.append(gateway.client.CreateProcessInstanceWithResult(request=request, requestTimeout=60_000))

        asking = threading.Thread(target=ask, daemon=True)
        asking.start()
        until(lambda: gateway.rows().exists())
        (job,) = gateway.client.activate("payment")
        gateway.client.CompleteJob(jobKey=job.key, variables='{"paid": true}')
        run(gateway.alias)
        asking.join(30)
        assert json.loads(answers[0].variables) == {"amount": 5, "paid": True}

    def test_a_timeout_may_be_any_number(self, gateway):
        deployed(gateway, chain(SCRIPT))
        for number in (-(2**63), 2**63 - 1):
            given = {"bpmnProcessId": "order", "variables": '{"amount": 5}'}
            assert gateway.client.CreateProcessInstanceWithResult(request=given, requestTimeout=number).variables

    def test_the_instance_goes_on_when_the_time_is_over(self, gateway):
        deployed(gateway)
        call = lambda: gateway.client.CreateProcessInstanceWithResult(  # noqa: E731
            request={"bpmnProcessId": "order"}, requestTimeout=1
        )
        failed(call, Code.DEADLINE_EXCEEDED, "goes on")
        assert ProcessInstance.objects.using(gateway.alias).get().state == "active"
        assert gateway.client.activate("payment")

    def test_the_instance_goes_on_when_the_client_leaves(self, gateway):
        deployed(gateway)
        request = pb.CreateProcessInstanceWithResultRequest(request={"bpmnProcessId": "order"}, requestTimeout=60_000)
        call = gateway.client.stub.CreateProcessInstanceWithResult.future(request)
        until(lambda: gateway.rows().exists())
        call.cancel()
        until(lambda: long_polling.of(gateway.alias).queue.count() == 0)
        assert ProcessInstance.objects.using(gateway.alias).get().state == "active"
        assert gateway.client.activate("payment")

    @pytest.mark.parametrize("error", [OperationalError("away"), InterfaceError("closed"), long_polling.Overloaded()])
    def test_an_outage_ends_no_wait(self, gateway, monkeypatch, error):
        """After any answer that says "try again later" a client would start another instance."""
        monkeypatch.setattr(awaiting, "_PAUSE", 0.01)
        end_of, failures = awaiting._end_of, [error, error]

        def away(*args):
            if failures:
                raise failures.pop()
            return end_of(*args)

        monkeypatch.setattr(awaiting, "_end_of", away)
        deployed(gateway)
        request = pb.CreateProcessInstanceWithResultRequest(request={"bpmnProcessId": "order"}, requestTimeout=60_000)
        call = gateway.client.stub.CreateProcessInstanceWithResult.future(request)
        until(lambda: gateway.rows().exists())
        long_polling.of(gateway.alias).queue.wake()
        until(lambda: not failures)
        (job,) = gateway.client.activate("payment")
        gateway.client.CompleteJob(jobKey=job.key, variables='{"paid": true}')
        run(gateway.alias)
        assert json.loads(call.result(30).variables) == {"paid": True}
        assert ProcessInstance.objects.using(gateway.alias).count() == 1

    def test_the_time_is_over_in_an_outage(self, gateway, monkeypatch):
        def away(*args):
            raise OperationalError("away")

        monkeypatch.setattr(awaiting, "_end_of", away)
        deployed(gateway)
        call = lambda: gateway.client.CreateProcessInstanceWithResult(  # noqa: E731
            request={"bpmnProcessId": "order"}, requestTimeout=200
        )
        failed(call, Code.DEADLINE_EXCEEDED, "goes on")

    def test_a_client_that_loses_its_access(self, gateway, monkeypatch):
        """After UNAUTHENTICATED it would get a new token, and start another instance."""
        deployed(gateway)
        request = pb.CreateProcessInstanceWithResultRequest(request={"bpmnProcessId": "order"}, requestTimeout=60_000)
        call = gateway.client.stub.CreateProcessInstanceWithResult.future(request)
        until(lambda: gateway.rows().exists() and long_polling.of(gateway.alias).queue.count() == 1)

        async def refused(*args):
            raise Unauthenticated

        monkeypatch.setattr(CallContext, "client", refused)
        long_polling.of(gateway.alias).queue.wake()
        failed(lambda: call.result(30), Code.PERMISSION_DENIED, "goes on")

    @pytest.mark.gate
    def test_a_client_with_a_deadline_of_its_own_hears_that_the_instance_goes_on(self, gateway, monkeypatch):
        monkeypatch.setattr("jobexec.processes.gateways.grpc._BEFORE_THE_END", 28.5)
        deployed(gateway)
        request = pb.CreateProcessInstanceWithResultRequest(request={"bpmnProcessId": "order"}, requestTimeout=60_000)
        failed(
            lambda: gateway.client.stub.CreateProcessInstanceWithResult(request, timeout=30),
            Code.DEADLINE_EXCEEDED,
            "goes on",
        )

    def test_a_gateway_that_shuts_down_does_not_wait(self, gateway):
        deployed(gateway)
        request = pb.CreateProcessInstanceWithResultRequest(request={"bpmnProcessId": "order"}, requestTimeout=600_000)
        call = gateway.client.stub.CreateProcessInstanceWithResult.future(request)
        until(lambda: gateway.rows().exists() and long_polling.of(gateway.alias).queue.count() == 1)
        gateway.gateway.stop()
        failed(lambda: call.result(30), Code.DEADLINE_EXCEEDED, "goes on")

    def test_a_cancelled_instance(self, gateway):
        deployed(gateway)
        codes = []

        def ask():
            try:
                gateway.client.CreateProcessInstanceWithResult(
                    request={"bpmnProcessId": "order"}, requestTimeout=60_000
                )
            except grpc.RpcError as error:
                codes.append(error.code())

        asking = threading.Thread(target=ask, daemon=True)
        asking.start()
        until(lambda: gateway.rows().exists())
        key = ProcessInstance.objects.using(gateway.alias).get().key
        gateway.client.CancelProcessInstance(processInstanceKey=key)
        asking.join(30)
        assert codes == [Code.FAILED_PRECONDITION]


def test_cancel(gateway):
    deployed(gateway)
    key = gateway.client.CreateProcessInstance(bpmnProcessId="order").processInstanceKey
    gateway.client.CancelProcessInstance(processInstanceKey=key)
    assert instance(gateway, key).state == "cancelled"
    assert not gateway.rows().exists()
    again = lambda: gateway.client.CancelProcessInstance(processInstanceKey=key)  # noqa: E731
    failed(again, Code.NOT_FOUND, "Command 'CANCEL' rejected")
    failed(lambda: gateway.client.CancelProcessInstance(processInstanceKey=77), Code.NOT_FOUND)


@pytest.mark.gate
def test_a_modification(gateway):
    deployed(gateway, chain(APPROVE, PAY))
    key = gateway.client.CreateProcessInstance(bpmnProcessId="order").processInstanceKey
    modify = gateway.client.ModifyProcessInstance
    task = {"elementInstanceKey": UserTask.objects.using(gateway.alias).get().key}
    for wrong, words in [
        ({}, "expected at least one"),
        ({"terminateInstructions": [{}]}, "either"),
        ({"terminateInstructions": [{"elementInstanceKey": 77}]}, "77"),
        ({"activateInstructions": [{"elementId": " "}]}, "activateInstructions: expected the elementId"),
        ({"activateInstructions": [{"elementId": "nothing"}]}, "nothing"),
        ({"activateInstructions": [{"elementId": "pay", "ancestorElementInstanceKey": 5}]}, "ancestor"),
        ({"activateInstructions": [{"elementId": "pay", "variableInstructions": [{"variables": "[]"}]}]}, "object"),
        ({"activateInstructions": [{"elementId": "pay", "variableInstructions": [{"scopeId": "pay"}]}]}, "scopeId"),
    ]:
        failed(lambda given=wrong: modify(processInstanceKey=key, **given), Code.INVALID_ARGUMENT, words)
    failed(lambda: modify(processInstanceKey=77), Code.NOT_FOUND, "Command 'MODIFY' rejected", "77")
    pay = {"elementId": "pay", "ancestorElementInstanceKey": -1, "variableInstructions": [{"variables": '{"a": 5}'}]}
    modify(processInstanceKey=key, activateInstructions=[pay], terminateInstructions=[task])
    assert not UserTask.objects.using(gateway.alias).exists()
    (job,) = gateway.client.activate("payment")
    assert json.loads(job.variables) == {"a": 5}
    modify(processInstanceKey=key, terminateInstructions=[{"elementInstanceKey": job.elementInstanceKey}])
    assert instance(gateway, key).state == "cancelled"
    failed(lambda: modify(processInstanceKey=key, activateInstructions=[pay]), Code.NOT_FOUND)


@listener("tests.gateways.protest")
def protest(context):
    raise BpmnError("ODD")


def test_a_modification_after_which_the_process_cannot_continue(gateway):
    """It fits, so that its arguments are not what is wrong."""
    begin = b'<startEvent id="s"/>'
    asks = b'<camunda:executionListener event="end" delegateExpression="${tests.gateways.protest}"/>'
    listening = b"<extensionElements>%b</extensionElements>%b" % (asks, begin)
    deployed(gateway, chain(APPROVE).replace(begin, listening))
    key = gateway.client.CreateProcessInstance(bpmnProcessId="order").processInstanceKey
    task = {"elementInstanceKey": UserTask.objects.using(gateway.alias).get().key}
    given = {"activateInstructions": [{"elementId": "e"}], "terminateInstructions": [task]}
    modify = gateway.client.ModifyProcessInstance
    failed(lambda: modify(processInstanceKey=key, **given), Code.FAILED_PRECONDITION, "Nothing catches the error ODD")
    assert UserTask.objects.using(gateway.alias).exists()


def test_a_modification_whose_connection_is_lost_is_not_made_twice(gateway, monkeypatch):
    deployed(gateway, chain(APPROVE, PAY))
    key = gateway.client.CreateProcessInstance(bpmnProcessId="order").processInstanceKey
    modify = verbs.modify

    def modify_and_lose_the_answer(*args):
        modify(*args)
        raise OperationalError("the connection was lost")

    monkeypatch.setattr(verbs, "modify", modify_and_lose_the_answer)
    pay = {"elementId": "pay"}
    call = lambda: gateway.client.ModifyProcessInstance(processInstanceKey=key, activateInstructions=[pay])  # noqa: E731
    failed(call, Code.ABORTED, "unknown whether")
    assert gateway.rows().count() == 1


def test_a_start_whose_connection_is_lost_is_not_made_twice_by_anybody(gateway, monkeypatch):
    deployed(gateway)
    start = verbs.start_process

    def start_and_lose_the_answer(*args, **named):
        start(*args, **named)
        raise OperationalError("the connection was lost")

    monkeypatch.setattr(verbs, "start_process", start_and_lose_the_answer)
    for call in (
        lambda: gateway.client.CreateProcessInstance(bpmnProcessId="order"),
        lambda: gateway.client.CreateProcessInstanceWithResult(request={"bpmnProcessId": "order"}),
    ):
        failed(call, Code.ABORTED, "unknown whether")
    assert ProcessInstance.objects.using(gateway.alias).count() == 2


def test_a_start_without_a_connection_is_made_later(gateway, monkeypatch):
    deployed(gateway)
    failures = [1]

    def away(connection):
        if failures:
            raise OperationalError(failures.pop())
        return ensure_connection(connection)

    ensure_connection = BaseDatabaseWrapper.ensure_connection
    monkeypatch.setattr(BaseDatabaseWrapper, "ensure_connection", away)
    assert gateway.client.CreateProcessInstance(bpmnProcessId="order").processInstanceKey
    assert not failures
    monkeypatch.undo()
    assert ProcessInstance.objects.using(gateway.alias).count() == 1


def variables(gateway):
    rows = Variable.objects.using(gateway.alias).order_by("name")
    return {(row.name, row.scope_id == row.instance_id): row.value for row in rows}


def test_variables(gateway):
    deployed(gateway)
    key = gateway.client.CreateProcessInstance(bpmnProcessId="order", variables='{"a": 1}').processInstanceKey
    (job,) = gateway.client.activate("payment")
    put = gateway.client.SetVariables
    assert put(elementInstanceKey=key, variables='{"a": 2, "b": [3]}').key > 0
    assert put(elementInstanceKey=job.elementInstanceKey, variables='{"c": 4}', local=True).key > 0
    put(elementInstanceKey=job.elementInstanceKey, variables='{"a": 5, "d": 6}')
    assert variables(gateway) == {("a", True): 5, ("b", True): [3], ("c", False): 4, ("d", True): 6}
    failed(lambda: put(elementInstanceKey=77, variables="{}"), Code.NOT_FOUND, "Command 'UPDATE' rejected")
    failed(lambda: put(elementInstanceKey=key, variables="[]"), Code.INVALID_ARGUMENT)
    big = json.dumps({"b": "x" * 70_000})
    failed(lambda: put(elementInstanceKey=key, variables=big), Code.INVALID_ARGUMENT, "b: expected")


def test_variables_of_a_user_task(gateway):
    deployed(gateway, chain(APPROVE))
    gateway.client.CreateProcessInstance(bpmnProcessId="order")
    task = UserTask.objects.using(gateway.alias).get()
    gateway.client.SetVariables(elementInstanceKey=task.key, variables='{"a": 1}', local=True)
    assert variables(gateway) == {("a", False): 1}
    complete(task, using=gateway.alias)


@pytest.mark.gate
def test_a_signal_reaches_all_that_wait(gateway):
    deployed(gateway, chain(CATCH, before=SIGNAL))
    keys = [gateway.client.CreateProcessInstance(bpmnProcessId="order").processInstanceKey for _ in range(2)]
    answer = gateway.client.BroadcastSignal(signalName="go", variables='{"by": "ann"}')
    assert (answer.key > 0, answer.tenantId) == (True, "<default>")
    run(gateway.alias)
    assert [instance(gateway, key).final_variables for key in keys] == [{"by": "ann"}] * 2
    failed(lambda: gateway.client.BroadcastSignal(signalName=""), Code.INVALID_ARGUMENT, "signalName: expected")


def test_a_published_message_reaches_the_instance_that_waits_for_its_key(gateway):
    subscription = '<extensionElements><zeebe:subscription correlationKey="=id"/></extensionElements>'
    message = MESSAGE.replace("/>", f">{subscription}</message>")
    deployed(gateway, chain(AWAIT, before=message))
    start = gateway.client.CreateProcessInstance
    one, other = (start(bpmnProcessId="order", variables=f'{{"id": "{id}"}}').processInstanceKey for id in "12")
    gateway.client.PublishMessage(name="paid", correlationKey="2", variables='{"amount": 7}')
    run(gateway.alias)
    assert instance(gateway, one).state == "active"
    assert instance(gateway, other).final_variables == {"id": "2", "amount": 7}


def test_a_published_message_starts_a_process_once_for_each_id(gateway):
    start = '<startEvent id="s"><messageEventDefinition messageRef="m"/></startEvent>'
    flows = '<sequenceFlow id="f" sourceRef="s" targetRef="pay"/><sequenceFlow id="g" sourceRef="pay" targetRef="e"/>'
    deployed(gateway, xml(f'{start}{PAY}<endEvent id="e"/>{flows}', before=MESSAGE))
    given = {"name": "paid", "correlationKey": "4711", "messageId": "1", "timeToLive": 60_000}
    gateway.client.PublishMessage(**given, variables='{"amount": 7}')
    failed(lambda: gateway.client.PublishMessage(**given), Code.ALREADY_EXISTS)
    gateway.client.PublishMessage(name="other", correlationKey="4711")
    run(gateway.alias)
    (job,) = gateway.client.activate("payment", most=5)
    assert json.loads(job.variables) == {"amount": 7}
    assert instance(gateway, job.processInstanceKey).state == "active"


@pytest.mark.gate
def test_an_incident_of_a_process_is_resolved(gateway):
    flow = b'targetRef="e"><conditionExpression>=ok</conditionExpression></sequenceFlow>'
    content = chain(PAY, '<exclusiveGateway id="g"/>').replace(b'targetRef="e"/>', flow)
    deployed(gateway, content)
    key = gateway.client.CreateProcessInstance(bpmnProcessId="order", variables='{"ok": false}').processInstanceKey
    (job,) = gateway.client.activate("payment")
    gateway.client.CompleteJob(jobKey=job.key)
    for _ in range(3):
        run(gateway.alias)
        retry_now(TimerJob.objects.using(gateway.alias).all(), using=gateway.alias)
    incident = search_incidents(gateway.alias, Q()).get()
    gateway.client.SetVariables(elementInstanceKey=key, variables='{"ok": true}')
    gateway.client.ResolveIncident(incidentKey=incident.incident_key)
    run(gateway.alias)
    assert instance(gateway, key).state == "completed"


class TestWho:
    @pytest.fixture
    def keys(self):
        return {"GATEWAY_AUTH": "required"}

    @pytest.fixture
    def north(self, gateway, bearer):
        return as_client(gateway, bearer(tenants=["north"]))

    def test_each_call_needs_its_permission(self, gateway, bearer):
        worker = as_client(gateway, bearer("worker", ("work", "search", "resolve")))
        calls = {
            "DeployResource": {},
            "DeployProcess": {},
            "CreateProcessInstance": {"bpmnProcessId": "order"},
            "CreateProcessInstanceWithResult": {},
            "CancelProcessInstance": {},
            "ModifyProcessInstance": {},
            "SetVariables": {},
            "BroadcastSignal": {"signalName": "go"},
        }
        for name, given in calls.items():
            assert code_of(lambda n=name, g=given: getattr(worker, n)(**g)) is Code.PERMISSION_DENIED, name

    @pytest.mark.gate
    def test_a_client_sees_only_its_tenants(self, gateway, north, bearer):
        everybody = as_client(gateway, bearer("all"))
        assert code_of(lambda: deployed(gateway, client=north)) is Code.PERMISSION_DENIED
        assert deployed(gateway, client=north, tenantId="north").tenantId == "north"
        number = deployed(gateway, client=everybody).deployments[0].process.processDefinitionKey
        start = north.CreateProcessInstance
        assert code_of(lambda: start(bpmnProcessId="order")) is Code.PERMISSION_DENIED
        assert code_of(lambda: start(processDefinitionKey=number, tenantId="north")) is Code.NOT_FOUND
        theirs = everybody.CreateProcessInstance(bpmnProcessId="order").processInstanceKey
        ours = start(bpmnProcessId="order", tenantId="north").processInstanceKey
        assert code_of(lambda: north.CancelProcessInstance(processInstanceKey=theirs)) is Code.NOT_FOUND
        assert code_of(lambda: north.ModifyProcessInstance(processInstanceKey=theirs)) is Code.NOT_FOUND
        put = north.SetVariables
        assert code_of(lambda: put(elementInstanceKey=theirs, variables="{}")) is Code.NOT_FOUND
        (job,) = everybody.activate("payment", tenantIds=["<default>"])
        assert code_of(lambda: put(elementInstanceKey=job.elementInstanceKey, variables="{}")) is Code.NOT_FOUND
        assert code_of(lambda: north.BroadcastSignal(signalName="go")) is Code.PERMISSION_DENIED
        north.CancelProcessInstance(processInstanceKey=ours)
        assert instance(gateway, theirs).state == "active"

    def test_the_audit_log_names_the_client(self, gateway, bearer):
        client = as_client(gateway, bearer())
        deployed(gateway, client=client)
        key = client.CreateProcessInstance(bpmnProcessId="order").processInstanceKey
        client.SetVariables(elementInstanceKey=key, variables='{"a": 1}')
        client.ModifyProcessInstance(processInstanceKey=key, activateInstructions=[{"elementId": "pay"}])
        client.BroadcastSignal(signalName="go")
        client.CancelProcessInstance(processInstanceKey=key)
        rows = AuditLog.objects.using(gateway.alias).exclude(verb="create_client").order_by("pk")
        assert [(row.verb, row.operator, row.via) for row in rows] == [
            (verb, "java", "gRPC")
            for verb in ("deploy", "start_process", "set_variables", "modify_instance", "broadcast_signal", "cancel")
        ]


def refuse(request):
    """A policy."""
    return request.principal is None or request.action not in ("start_process", "deploy")


class TestPolicy:
    @pytest.fixture
    def keys(self):
        return {"AUTHORIZATION": f"{__name__}.refuse"}

    def test_it_refuses(self, gateway):
        failed(lambda: deployed(gateway), Code.PERMISSION_DENIED)
        assert not ProcessDefinition.objects.using(gateway.alias).exists()
        row = AuditLog.objects.using(gateway.alias).get()
        assert (row.verb, row.object_id, row.via) == ("deploy", "order.bpmn", "gRPC")


def test_without_the_app_there_are_no_such_calls(served, monkeypatch):
    from jobexec.gateways import added
    from tests.gateways.grpc.bed import Bed

    monkeypatch.setattr(added, "_calls", {})
    bed = Bed(served, {"port": 0})
    try:
        failed(lambda: bed.client.CreateProcessInstance(bpmnProcessId="order"), Code.UNIMPLEMENTED)
        assert bed.client.Topology().clusterSize == 1
    finally:
        bed.close()


def test_a_process_without_a_plain_start(gateway):
    body = '<startEvent id="s"><messageEventDefinition messageRef="m"/></startEvent>'
    flow = '<endEvent id="e"/><sequenceFlow id="f" sourceRef="s" targetRef="e"/>'
    deployed(gateway, xml(body + flow, before=MESSAGE))
    failed(lambda: gateway.client.CreateProcessInstance(bpmnProcessId="order"), Code.FAILED_PRECONDITION)
