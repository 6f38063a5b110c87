"""What operators do to instances and definitions on their pages: suspend, modify, restart, and very many at once."""

import html
import json
import re
from datetime import timedelta

import pytest
from django.utils import timezone

from jobexec.models import AuditLog, Batch, SuspendedJob, Suspension
from jobexec.processes.exceptions import Suspended
from jobexec.processes.models import Execution, ProcessDefinition, ProcessInstance, UserTask
from jobexec.processes.operations.deploy import deploy
from jobexec.processes.operations.start import start
from jobexec.processes.operations.suspend import suspend
from jobexec.testing import ManualExecutor
from tests.processes.support.bpmn import process

from .pages import shop, url
from .test_pages import VIEW, act, order, staff, told  # noqa: F401 (fixtures)

pytest.importorskip("lxml")

VOTES = (
    '<startEvent id="s"/><userTask id="vote" name="Vote"><multiInstanceLoopCharacteristics>'
    "<loopCardinality>3</loopCardinality></multiInstanceLoopCharacteristics></userTask>"
    '<userTask id="count"/><endEvent id="e"/>'
    '<sequenceFlow id="f1" sourceRef="s" targetRef="vote"/><sequenceFlow id="f2" sourceRef="vote" targetRef="count"/>'
    '<sequenceFlow id="f3" sourceRef="count" targetRef="e"/>'
)


def page(client, row):
    return client.get(url(type(row), row)).content.decode()


def ask(client, row, action):
    """The question that a button leads to."""
    return client.post(url(type(row)), {"_selected_action": str(row.pk), "action": action}).content.decode()


@pytest.mark.gate
def test_an_instance_is_suspended_and_activated(staff, order):  # noqa: F811
    client = staff(*VIEW, "suspend_processinstance")
    assert 'value="activate"' not in page(client, order)
    assert "1 process instance" in ask(client, order, "suspend")
    assert told(act(client, order, "suspend")) == ["1 process instance is suspended."]
    shown = page(client, order)
    assert "Suspended: process instance" in shown
    assert 'value="activate"' in shown
    listed = client.get(url(ProcessInstance), {"suspended": "yes"}).content.decode()
    assert '<span class="jobexec-badge jobexec-off">suspended</span>' in listed
    assert "4711" not in client.get(url(ProcessInstance), {"suspended": "no"}).content.decode()
    assert told(act(client, order, "activate")) == ["1 process instance is active."]
    assert not Suspension.objects.exists()
    verbs = AuditLog.objects.order_by("pk").values_list("verb", "operator_type")
    assert list(verbs) == [("suspend", "user"), ("activate", "user")]


@pytest.mark.gate
def test_at_dates(staff, order):  # noqa: F811
    client = staff(*VIEW, "suspend_processinstance")
    at, until = (timezone.localtime() + timedelta(hours=hours) for hours in (1, 2))
    dates = {"at": at.strftime("%Y-%m-%dT%H:%M:%S"), "until": until.strftime("%Y-%m-%dT%H:%M:%S")}
    (text,) = told(act(client, order, "suspend", **dates))
    assert text.startswith("1 process instance is suspended from ")
    row = Suspension.objects.get()
    assert (row.suspend_time, row.activate_time) == (at.replace(microsecond=0), until.replace(microsecond=0))
    assert 'value="activate"' in page(client, order), "one that is planned is withdrawn"
    assert "This must be in the future" in act(client, order, "suspend", until="2001-01-01T00:00:00").content.decode()


def test_what_something_else_suspends_stays_so(staff, order):  # noqa: F811
    suspend(order, using="default")
    suspend("order", using="default")
    client = staff(*VIEW, "suspend_processinstance")
    (text,) = told(act(client, order, "activate"))
    assert "something else still suspends it: process definition order" in text
    assert Suspension.objects.get().value == "order"


def test_the_question_counts_what_the_action_reaches(staff, order, settings):  # noqa: F811
    """A definition of no tenant runs for all; who is limited to some tenants suspends it for these alone."""
    start("order", tenant_id="acme", variables={"amount": 5}, using="default")
    settings.JOBEXEC = {**settings.JOBEXEC, "ADMIN_TENANTS": f"{__name__}.only_none"}
    row = ProcessDefinition.objects.get(key="order")
    question = ask(staff(*VIEW, "suspend_processdefinition"), row, "suspend")
    assert "order 1: running instances of this version: 1, of all versions: 1." in question


def only_none(request):
    return [""]


def test_the_number_of_running_instances_is_that_of_the_linked_list(staff, order):  # noqa: F811
    ProcessInstance.objects.update(state="compensating")
    client = staff(*VIEW)
    page = client.get(url(ProcessDefinition)).content.decode()
    (link,) = re.findall(r'href="([^"]*definition_id=order[^"]*state__in=[^"]*)">1<', page)
    assert client.get(html.unescape(link)).content.decode().count('<th class="field-state_badge') == 1


@pytest.mark.gate
@pytest.mark.parametrize(("which", "second"), [("version", False), ("process", True)])
def test_a_definition_is_suspended(staff, order, which, second):  # noqa: F811
    from .pages import DRAWN

    deploy(("order.bpmn", DRAWN.replace(b"</bpmn:definitions>", b"<!-- 2 --></bpmn:definitions>")), using="default")
    versions = list(ProcessDefinition.objects.filter(key="order").order_by("version"))
    start("order", variables={"amount": 5}, using="default")
    client = staff(*VIEW, "suspend_processinstance")
    assert 'value="suspend"' not in page(client, versions[0])
    client = staff(*VIEW, "suspend_processdefinition")
    question = ask(client, versions[0], "suspend")
    assert "order 1: running instances of this version: 1, of all versions: 2." in question
    data = {"which": which, "include_instances": "1"}
    assert told(act(client, versions[0], "suspend", **data)) == ["1 process definition is suspended."]
    for row, expected in zip(versions, (True, second), strict=True):
        assert ("jobexec-off" in page(client, row)) is expected
    found = client.get(url(ProcessInstance), {"suspended": "yes"}).content.decode()
    assert found.count('name="_selected_action"') in (0, 1 + second), "those without an action have no box"
    assert SuspendedJob.objects.values("process_instance_id").distinct().count() <= 1 + second
    if second:
        with pytest.raises(Suspended):
            start("order", variables={"amount": 5}, using="default")
    assert told(act(client, versions[0], "activate", which=which)) == ["1 process definition is active."]
    assert not Suspension.objects.filter(live=True).exists()


def test_a_flow_is_suspended_by_its_key(staff):  # noqa: F811
    shop().start(using="default")
    row = ProcessDefinition.objects.get()
    client = staff(*VIEW, "suspend_processdefinition")
    act(client, row, "suspend", which="version", include_instances="1")
    assert Suspension.objects.get().scope == "process_definition_key"
    assert "jobexec-off" in page(client, row)
    with pytest.raises(Suspended):
        shop().start(using="default")


@pytest.mark.gate
def test_an_instance_is_modified(staff, order):  # noqa: F811
    client = staff(*VIEW, "modify_processinstance")
    question = ask(client, order, "modify")
    for choice in (":approve", ":reserve", "deliver"):
        assert f'<option value="{choice}">' in question
    assert "Choose what to cancel or to start." in act(client, order, "modify", variables="{}").content.decode()
    assert "Select a valid choice" in act(client, order, "modify", before="nowhere", variables="{}").content.decode()
    data = {"cancel": [":approve", ":paid"], "before": "approve", "variables": '{"why": 1}', "reason": "by hand"}
    data["skip_listeners"] = "on"
    assert told(act(client, order, "modify", **data)) == ["1 process instance was modified."]
    assert sorted(Execution.objects.values_list("element_id", flat=True)) == ["approve", "reserve"]
    entry = AuditLog.objects.get()
    assert (entry.verb, entry.object_id, entry.new_value["reason"]) == ("modify_instance", str(order.pk), "by hand")
    assert entry.new_value["commands"] == ["cancel approve", "cancel paid", "before approve"]
    assert entry.new_value["skip_listeners"] is True


@pytest.mark.gate
def test_a_change_that_does_not_fit_changes_nothing(staff, order):  # noqa: F811
    client = staff(*VIEW, "modify_processinstance")
    data = {"cancel": ":approve", "after": "fork", "variables": '{"amount": ' + "[" * 300 + "]" * 300 + "}"}
    assert "nested at most 200 deep" in act(client, order, "modify", **data).content.decode()
    data["variables"] = '{"amount": ' + json.dumps("x" * 2_000_000)[:900_000] + '"}'
    assert "1 process instance skipped: " in told(act(client, order, "modify", **data))[0]
    Execution.objects.filter(element_id="paid").delete()
    data = {"cancel": [":approve", ":paid"], "after": "fork", "variables": "{}"}
    assert "Select a valid choice" in act(client, order, "modify", **data).content.decode()
    assert Execution.objects.filter(element_id="approve").exists()


def test_one_of_a_multi_instance_is_cancelled(staff):  # noqa: F811
    deploy(("p.bpmn", process(VOTES)), using="default")
    row = start("p", using="default")
    client = staff(*VIEW, "modify_processinstance")
    question = ask(client, row, "modify")
    assert "Vote (vote): all" in question
    assert "Vote (vote): number 4" in question, "the body, and three votes"
    activity = UserTask.objects.order_by("pk")[1].activity_id
    act(client, row, "modify", cancel=f"{activity}:vote", variables="{}")
    assert UserTask.objects.count() == 2
    assert activity not in UserTask.objects.values_list("activity_id", flat=True)


@pytest.mark.gate
def test_an_ended_instance_is_restarted(staff, order):  # noqa: F811
    client = staff(*VIEW, "cancel_processinstance", "restart_processinstance")
    assert 'value="restart"' not in page(client, order)
    act(client, order, "cancel", reason="")
    shown = page(client, order)
    assert 'value="restart"' in shown
    assert 'value="cancel"' not in shown
    data = {"before": "approve", "variables": '{"password": "geheim"}'}
    response = act(client, order, "restart", **data)
    made = ProcessInstance.objects.exclude(pk=order.pk).get()
    assert response.url == url(ProcessInstance, made)
    assert (made.business_key, made.start_user) == ("4711", response.wsgi_request.user.username)
    assert list(Execution.objects.filter(instance_id=made.pk).values_list("element_id", flat=True)) == ["approve"]
    assert "is running; modify it instead" in told(act(client, made, "restart", variables="{}"))[-1]


@pytest.fixture
def few_at_once(monkeypatch):
    monkeypatch.setattr("jobexec.admin.common.batching.BATCH_ABOVE", 3)


@pytest.mark.gate
def test_very_many_are_cancelled_in_the_background(staff, order, few_at_once):  # noqa: F811
    others = [start("order", business_key=str(n), variables={"amount": 5}, using="default") for n in range(4)]
    client = staff(*VIEW, "cancel_processinstance", "view_batch")
    post = {"_selected_action": str(order.pk), "action": "cancel", "select_across": "1", "reason": "no more"}
    address = f"{url(ProcessInstance)}?process=order"
    assert "a batch does this in the background" in client.post(address, post).content.decode()
    response = client.post(address, post | {"_apply": "1"})
    batch = Batch.objects.get()
    assert str(batch.pk) in response.url
    assert batch.create_user == response.wsgi_request.user.username
    assert ProcessInstance.objects.filter(state="active").count() == 1 + len(others)
    ManualExecutor("default", reraise=False).run_until_empty()
    assert set(ProcessInstance.objects.values_list("state", "delete_reason")) == {("cancelled", "no more")}
    batch.refresh_from_db()
    assert batch.state == "completed"


def test_other_actions_are_for_few(staff, order, few_at_once):  # noqa: F811
    for number in range(3):
        start("order", business_key=str(number), variables={"amount": 5}, using="default")
    client = staff(*VIEW, "suspend_processinstance")
    post = {"_selected_action": str(order.pk), "action": "suspend", "select_across": "1", "_apply": "1"}
    assert "at once: select fewer" in told(client.post(url(ProcessInstance), post))[0]
    assert not Suspension.objects.exists()


def test_variables_are_found_only_by_those_who_see_them(staff, order):  # noqa: F811
    client = staff("view_processinstance")
    assert "4711" not in client.get(url(ProcessInstance), {"variable": "amount=5"}).content.decode()
    assert "4711" in staff(*VIEW).get(url(ProcessInstance), {"variable": "amount=5"}).content.decode()
