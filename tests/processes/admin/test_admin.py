"""The pages of processes."""

import pytest
from django.contrib.auth.models import Group, Permission, User

from jobexec.models import AuditLog
from jobexec.processes.flows.builder import Flow
from jobexec.processes.flows.calls import call
from jobexec.processes.flows.terms import previous
from jobexec.processes.models import ProcessDefinition, ProcessInstance, UserTask
from jobexec.processes.operations.deploy import deploy
from jobexec.processes.operations.start import start
from jobexec.testing import ManualExecutor

from .pages import FILE, notes, shop, url

pytest.importorskip("lxml")


@pytest.fixture
def operator(db, client):
    user = User.objects.create_user("anna", is_staff=True)
    user.user_permissions.set(Permission.objects.filter(content_type__app_label__in=["jobexec_processes", "jobexec"]))
    client.force_login(user)
    return user


@pytest.fixture
def instance(db):
    deploy(("approval.bpmn", FILE), using="default")
    return start("approval", business_key="4711", variables={"amount": 5, "password": "geheim"}, using="default")


def test_the_page_of_an_instance(operator, client, instance):
    page = client.get(url(ProcessInstance, instance)).content.decode()
    for text in ("4711", "<svg", 'class="jobexec-element waits" data-element="approve"', "Approve it", "amount"):
        assert text in page
    assert "geheim" not in page
    assert "4711" in client.get(url(ProcessInstance)).content.decode()


@pytest.mark.gate
def test_the_page_of_a_definition(operator, client, instance):
    row = ProcessDefinition.objects.get()
    page = client.get(url(ProcessDefinition, row)).content.decode()
    assert 'class="jobexec-element waits" data-element="approve"' in page
    file = client.get(f"{url(ProcessDefinition, row)[: -len('change/')]}xml/")
    assert file.content == FILE
    assert file["Content-Disposition"] == 'attachment; filename="approval.bpmn"'
    assert "approval" in client.get(url(ProcessDefinition)).content.decode()


def test_a_task_is_claimed_and_completed(operator, client, instance):
    task = UserTask.objects.get()
    page = client.get(url(UserTask, task)).content.decode()
    assert "managers" in page
    post = {"_selected_action": str(task.pk), "action": "claim"}
    client.post(url(UserTask), post)
    assert UserTask.objects.get().assignee == "anna"
    answer = client.post(url(UserTask), post | {"action": "complete", "_apply": "1", "variables": "[1]"})
    assert "Expected a JSON object" in answer.content.decode()
    client.post(url(UserTask), post | {"action": "complete", "_apply": "1", "variables": '{"approved": true}'})
    found = ProcessInstance.objects.get()
    assert (found.state, found.final_variables["approved"]) == ("completed", True)


def test_who_is_no_candidate_is_offered_no_task(client, instance):
    user = User.objects.create_user("bert", is_staff=True)
    names = ("view_usertask", "view_processinstance", "complete_usertask")
    user.user_permissions.set(Permission.objects.filter(codename__in=names))
    client.force_login(user)
    task = UserTask.objects.get()

    def offered():
        page = client.get(url(UserTask, task)).content.decode()
        return [name for name in ("claim", "complete", "release") if f'value="{name}"' in page]

    assert offered() == []
    post = {"_selected_action": str(task.pk), "action": "claim"}
    answer = client.post(url(UserTask), post, follow=True).content.decode()
    assert "1 user task skipped: bert is none of the candidates" in answer
    user.groups.add(Group.objects.create(name="managers"))
    assert offered() == ["claim", "complete"]
    client.post(url(UserTask), post)
    assert UserTask.objects.get().assignee == "bert"
    assert offered() == ["complete", "release"]


def test_an_instance_is_cancelled(operator, client, instance):
    post = {"_selected_action": str(instance.pk), "action": "cancel", "_apply": "1", "reason": "no more"}
    client.post(url(ProcessInstance), post)
    found = ProcessInstance.objects.get()
    assert (found.state, found.delete_reason) == ("cancelled", "no more")
    entry = AuditLog.objects.get()
    assert (entry.object_type, entry.object_id) == ("processinstance", str(instance.pk))


def test_a_cancellation_that_an_expression_stops_is_refused(operator, client):
    flow = Flow("order")
    flow.wait("never", key="k", after=flow.step(notes, 5, compensate=call(notes, previous["amount"])))
    instance = flow.start(using="default")
    ManualExecutor("default").run_until_empty()
    post = {"_selected_action": str(instance.pk), "action": "cancel", "_apply": "1"}
    answer = client.post(url(ProcessInstance), post, follow=True).content.decode()
    import re

    print(
        re.findall("skipped.*", answer),
        re.findall("messagelist.*", answer, re.S)[0][:800],
        ProcessInstance.objects.get().state,
    )
    assert "1 process instance skipped: undo.note: " in answer
    assert ProcessInstance.objects.get().state == "active"


def test_who_may_only_look(client, instance):
    user = User.objects.create_user("bert", is_staff=True)
    user.user_permissions.set(Permission.objects.filter(codename="view_processinstance"))
    client.force_login(user)
    assert client.get(url(ProcessInstance, instance)).status_code == 200
    client.post(url(ProcessInstance), {"_selected_action": str(instance.pk), "action": "cancel", "_apply": "1"})
    assert ProcessInstance.objects.get().state == "active"
    assert client.get(url(UserTask)).status_code == 403


@pytest.mark.gate
def test_a_flow_is_drawn_with_its_incident(operator, client):
    flow = shop()
    del flow.elements[-1]  # the way for the failure: without it, the failure is an incident
    instance = flow.start(using="default")
    ManualExecutor("default", reraise=False).run_until_empty()
    page = client.get(url(ProcessInstance, instance)).content.decode()
    assert 'class="jobexec-element done" data-element="charge"' in page
    assert 'class="jobexec-element waits" data-element="pack"' in page
