"""Who may start an instance in the admin, and with which form."""

import pytest
from django.contrib.auth.models import Group, User
from django.http import HttpResponse
from django.urls import path

from jobexec.processes.handlers.registry import function
from jobexec.processes.models import ProcessDefinition, ProcessInstance
from jobexec.processes.operations.deploy import deploy
from tests.processes.support.bpmn import process
from tests.urls import urlpatterns as others

from .pages import url
from .test_pages import VIEW, act, staff, told  # noqa: F401 (fixtures)

pytest.importorskip("lxml")

BODY = (
    '<startEvent id="s" {}><extensionElements>{}</extensionElements></startEvent><userTask id="x"/>'
    '<sequenceFlow id="f" sourceRef="s" targetRef="x"/>'
)


def deployed(attributes="", of_start="", extensions=""):
    deploy(("p.bpmn", process(BODY.format(of_start, extensions), attributes=attributes)), using="default")
    return ProcessDefinition.objects.get()


def offers(client, row):
    return 'value="start"' in client.get(url(ProcessDefinition, row)).content.decode()


def starts(client, row, **data):
    response = act(client, row, "start", **{"business_key": "", "variables": "{}", **data})
    return ProcessInstance.objects.count(), told(response)[0]


MANAGERS = 'camunda:candidateStarterUsers="anna, bert" camunda:candidateStarterGroups="managers"'


@pytest.mark.parametrize(
    ("name", "group", "is_superuser", "may"),
    [
        ("anna", None, False, True),
        ("carl", "managers", False, True),
        ("carl", None, False, False),
        ("managers", "anna", False, False),
        ("carl", None, True, True),
    ],
)
def test_candidate_starters_may_start_it(staff, name, group, is_superuser, may):  # noqa: F811
    row, client = deployed(MANAGERS), staff(*VIEW, "start_processinstance")
    user = User.objects.last()
    user.username, user.is_superuser = name, is_superuser
    user.save()
    if group:
        user.groups.add(Group.objects.create(name=group))
    assert offers(client, row) is may
    count, message = starts(client, row)
    assert count == may
    assert may or "only its candidate starters may start it" in message


def test_a_candidate_starter_needs_the_permission(staff):  # noqa: F811
    row, client = deployed('camunda:candidateStarterUsers="user0"'), staff(*VIEW)
    assert User.objects.get().username == "user0"
    assert not offers(client, row)
    act(client, row, "start", business_key="", variables="{}")
    assert not ProcessInstance.objects.exists()


def test_what_is_not_startable_is_not_started_by_hand(admin_client):
    row = deployed('camunda:isStartableInTasklist="false"')
    assert not offers(admin_client, row)
    count, message = starts(admin_client, row)
    assert (count, "its file says that it is not started by users" in message) == (0, True)


@function("tests.starting.today")
def today():
    return "2030-01-31"


FORM = (
    '<camunda:formData businessKey="order"><camunda:formField id="order" label="Number of the order" type="string">'
    '<camunda:validation><camunda:constraint name="required"/></camunda:validation></camunda:formField>'
    '<camunda:formField id="amount" type="long" defaultValue="${2 + 3}"/>'
    '<camunda:formField id="due" type="string" defaultValue="${tests.starting.today()}"/></camunda:formData>'
)


def test_the_form_of_the_start_event(admin_client):
    row = deployed(extensions=FORM)
    asked = admin_client.post(url(ProcessDefinition), {"_selected_action": row.pk, "action": "start"}).content.decode()

    assert "Number of the order" in asked
    assert 'name="field_amount" value="5"' in asked
    assert 'name="field_due" value="2030-01-31"' in asked
    assert "This field is required" in act(admin_client, row, "start", variables="{}").content.decode()
    data = {"field_order": "4711", "field_amount": "7", "field_due": "", "variables": '{"urgent": true}'}
    assert starts(admin_client, row, **data)[0] == 1
    instance = ProcessInstance.objects.get()
    assert instance.business_key == "4711"
    found = dict(instance_variables(instance))
    assert found == {"order": "4711", "amount": 7, "urgent": True}


def instance_variables(instance):
    from jobexec.processes.models import Variable

    return Variable.objects.filter(scope_id=instance.pk).values_list("name", "value")


def test_a_business_key_that_is_given_comes_first(admin_client):
    starts(admin_client, deployed(extensions=FORM), field_order="4711", business_key="mine")
    assert ProcessInstance.objects.get().business_key == "mine"


urlpatterns = [
    *others,
    path("orders/begin/<str:definition>/", lambda request, definition: HttpResponse(), name="begin-order"),
]


@pytest.mark.urls(__name__)
@pytest.mark.parametrize(("key", "is_link"), [("begin-order", True), ("embedded:app:forms/order.html", False)])
def test_the_form_key_of_the_start_event(admin_client, key, is_link):
    row = deployed(of_start=f'camunda:formKey="{key}"')
    page = admin_client.get(url(ProcessDefinition, row)).content.decode()
    link = f'<a href="/orders/begin/{row.pk}/">begin-order</a>'
    assert link in page if is_link else key in page


def test_the_fields_are_named_on_the_page(admin_client):
    page = admin_client.get(url(ProcessDefinition, deployed(extensions=FORM))).content.decode()
    assert "Number of the order (string), amount (long), due (string)" in page
