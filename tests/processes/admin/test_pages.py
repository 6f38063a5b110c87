"""The pages of processes: who may do what, what they show, and how many statements they send."""

import json
import re
from datetime import timedelta
from uuid import UUID

import pytest
from django.contrib.auth.models import Permission, User
from django.contrib.messages import get_messages
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from jobexec import clock
from jobexec.admin.common.display import NONE, absolute
from jobexec.identifiers import uuid7s
from jobexec.models import AuditLog, DeadLetterJob, Job
from jobexec.processes.admin.forms import VariablesForm
from jobexec.processes.admin.task_form import form_of
from jobexec.processes.flows.builder import Flow
from jobexec.processes.models import ActivityInstance, Execution, ProcessDefinition, ProcessInstance, UserTask
from jobexec.processes.operations import statistics
from jobexec.processes.operations.deploy import deploy
from jobexec.processes.operations.start import start
from jobexec.processes.operations.user_tasks import claim, complete
from jobexec.testing import ManualExecutor, controlled_clock
from tests.support.factories import make_row

from ..support.bpmn import process
from .pages import DRAWN, notes, shop, url

pytest.importorskip("lxml")

VIEW = ("view_processinstance", "view_processdefinition", "view_usertask", "view_variable")


@pytest.fixture(autouse=True)
def fresh():
    statistics.forget()


@pytest.fixture
def staff(db, client):
    """Log in a user with exactly these permissions."""

    def log_in(*permissions):
        user = User.objects.create_user(f"user{User.objects.count()}", is_staff=True)
        found = Permission.objects.filter(codename__in=permissions)
        assert {each.codename for each in found} == set(permissions)
        user.user_permissions.set(found)
        client.force_login(user)
        return client

    return log_in


@pytest.fixture
def order(db):
    deploy(("order.bpmn", DRAWN), using="default")
    found = start("order", business_key="4711", variables={"amount": 5, "password": "geheim"}, using="default")
    ManualExecutor("default", reraise=False).run_until_empty()
    return found


def act(client, row, action, **data):
    post = {"_selected_action": str(row.pk), "action": action, "_apply": "1", "_from_page": "1", **data}
    return client.post(url(type(row)), post)


def told(response):
    return [str(message) for message in get_messages(response.wsgi_request)]


ACTIONS = [
    ("cancel", "cancel_processinstance", {"reason": "no more"}),
    ("retry", "requeue_deadletterjob", {"retries": "2"}),
    ("set_variable", "change_variables", {"name": "amount", "value": "7"}),
    ("suspend", "suspend_processinstance", {}),
    ("modify", "modify_processinstance", {"cancel": ":paid", "variables": "{}"}),
]


@pytest.mark.gate
@pytest.mark.parametrize(("action", "permission", "data"), ACTIONS)
def test_each_action_on_an_instance_has_its_permission(staff, order, action, permission, data):
    others = [each for _, each, _ in ACTIONS if each != permission]
    client = staff(*VIEW, *others)
    assert f'value="{action}"' not in client.get(url(ProcessInstance, order)).content.decode()
    act(client, order, action, **data)
    assert not AuditLog.objects.exists()
    client = staff(*VIEW, permission)
    assert f'value="{action}"' in client.get(url(ProcessInstance, order)).content.decode()
    act(client, order, action, **data)
    assert AuditLog.objects.exists()


@pytest.mark.gate
def test_an_incident_is_retried_alone(staff, order):
    client = staff(*VIEW, "requeue_deadletterjob", "view_incident")
    dead = DeadLetterJob.objects.get()
    page = client.get(url(ProcessInstance, order)).content.decode()
    assert f'name="job" value="{dead.pk}"' in page
    other = "01900000-0000-7000-8000-000000000000"
    assert told(act(client, order, "retry", retries="1", job=other)) == [
        f"1 process instance skipped: it has no incident ({order.pk})."
    ]
    assert told(act(client, order, "retry", retries="1", job=str(dead.pk)))[-1:] == ["1 incident is retried."]
    assert Job.objects.get().pk == dead.pk
    assert "Retry its incidents" not in client.get(url(ProcessInstance, order)).content.decode()


@pytest.mark.gate
def test_a_variable_is_changed_and_a_masked_one_is_not_shown(staff, order):
    client = staff(*VIEW, "change_variables")
    page = client.get(url(ProcessInstance, order)).content.decode()
    assert "geheim" not in page
    response = act(client, order, "set_variable", name="amount", value="{")
    assert "Enter a valid JSON" in response.content.decode()
    act(client, order, "set_variable", name="amount", value='{"net": 1}')
    page = client.get(url(ProcessInstance, order)).content.decode()
    assert "net" in page
    client = staff("view_processinstance")
    page = client.get(url(ProcessInstance, order)).content.decode()
    assert 'id="jobexec-variables"' not in page  # seeing variables is a permission of its own
    assert "net" not in page


@pytest.mark.gate
def test_why_repeats_nothing_of_tables_that_the_user_may_not_view(staff, order):
    flow = Flow("waits", business_key="1")
    flow.wait("paid", key="card-4711", name="paid")
    waits = flow.start(using="default")
    told = {
        "the warehouse does not answer": ("view_deadletterjob", order),
        "managers": ("view_usertask", order),
        "fires on": ("view_timerjob", order),
        "card-4711": ("view_variable", waits),
    }
    for text, (permission, instance) in told.items():
        assert text in why_of(staff("view_processinstance", permission), instance)
        others = [each for each, _ in told.values() if each != permission]
        assert text not in why_of(staff("view_processinstance", *others), instance)
    plain = why_of(staff("view_processinstance"), order)
    assert "Reserve the stock (reserve) has an incident.<" in plain and "waits for a timer.<" in plain
    assert "has been waiting for the message paid since" in why_of(staff("view_processinstance"), waits)


def why_of(client, instance):
    page = client.get(url(ProcessInstance, instance)).content.decode()
    return re.sub(r" → <a .*?</a>", "", re.search(r'id="jobexec-why".*?</ul>', page, re.DOTALL).group())


@pytest.mark.gate
def test_who_may_start_an_instance(staff, order):
    definition = ProcessDefinition.objects.get(key="order")
    client = staff(*VIEW)
    act(client, definition, "start", business_key="1", variables="{}")
    assert ProcessInstance.objects.count() == 1
    client = staff(*VIEW, "start_processinstance")
    response = act(client, definition, "start", business_key="1", variables='{"amount": 1}')
    made = ProcessInstance.objects.get(business_key="1")
    assert (response.url, made.start_user) == (url(ProcessInstance, made), User.objects.last().username)


def test_what_a_handler_does_not_find_is_not_taken_for_the_row(staff):
    body = '<startEvent id="s"/><serviceTask id="t" camunda:delegateExpression="${tests.pages.find}"/>'
    deploy(("find.bpmn", process(f'{body}<sequenceFlow id="f" sourceRef="s" targetRef="t"/>')))
    client = staff(*VIEW, "start_processinstance")
    with pytest.raises(User.DoesNotExist):
        act(client, ProcessDefinition.objects.get(), "start", business_key="1", variables="{}")


def test_a_flow_is_not_started_from_its_shape(staff):
    shop().start(using="default")
    row = ProcessDefinition.objects.get()
    client = staff(*VIEW, "start_processinstance")
    assert 'value="start"' not in client.get(url(ProcessDefinition, row)).content.decode()
    assert "it is the shape of a flow" in told(act(client, row, "start", business_key="", variables="{}"))[0]
    assert ProcessInstance.objects.count() == 1


@pytest.mark.gate
def test_the_diagram_is_for_those_who_may_see_definitions(staff, order):
    address = f"{url(ProcessInstance, order)[: -len('change/')]}diagram/"
    client = staff("view_processinstance")
    assert client.get(address).status_code == 403
    assert "jobexec-diagram" not in client.get(url(ProcessInstance, order)).content.decode()
    assert staff("view_processdefinition").get(address).status_code == 404
    found = staff(*VIEW).get(address).json()
    assert found["xml"] == DRAWN.decode()
    assert found["taken"] == ["f1", "f2", "f3", "f4"]
    at = {id: (each["tokens"], each["incidents"], each["classes"]) for id, each in found["elements"].items()}
    assert at == {
        "ordered": (0, 0, ["done"]),
        "fork": (0, 0, ["done"]),
        "approve": (1, 0, ["waits"]),
        "reserve": (1, 1, ["incident"]),
        "paid": (1, 0, ["waits"]),
    }


@pytest.mark.gate
def test_a_model_without_a_diagram_has_the_picture_alone(staff):
    shop().start(using="default")
    client = staff(*VIEW)
    for row in (ProcessInstance.objects.get(), ProcessDefinition.objects.get()):
        page = client.get(url(type(row), row)).content.decode()
        assert "<svg" in page
        assert "jobexec-diagram" not in page
        assert client.get(f"{url(type(row), row)[: -len('change/')]}diagram/").status_code == 404


def test_pages_of_another_tenant_do_not_exist(staff, settings):
    deploy(("order.bpmn", DRAWN), tenant_id="acme", using="default")
    found = start("order", variables={"amount": 5}, tenant_id="acme", using="default")
    settings.JOBEXEC = {**settings.JOBEXEC, "ADMIN_TENANTS": f"{__name__}.only_beta"}
    client = staff(*VIEW)
    definition = ProcessDefinition.objects.get(key="order")
    for row in (found, definition):
        for view in ("change/", "diagram/", "xml/"):
            assert client.get(f"{url(type(row), row)[: -len('change/')]}{view}").status_code in (302, 404)


def only_beta(request):
    return ["beta"]


def test_calls_are_linked_in_both_directions(staff):
    deploy(("order.bpmn", DRAWN), using="default")
    parent = start("order", variables={"amount": 2000}, using="default")
    token = Execution.objects.get(element_id="reserve")
    Execution.objects.filter(pk=token.pk).update(element_id="deliver")
    child = start("delivery", using="default")
    ProcessInstance.objects.filter(pk=child.pk).update(root_id=parent.pk, parent_execution_id=token.pk)
    Execution.objects.filter(instance_id=child.pk).update(root_id=parent.pk)
    Execution.objects.filter(pk=token.pk).update(called_instance_id=child.pk)
    client = staff(*VIEW, "cancel_processinstance")
    page = client.get(url(ProcessInstance, parent)).content.decode()
    assert url(ProcessInstance, child) in page
    assert "called by" in page
    page = client.get(url(ProcessInstance, child)).content.decode()
    assert url(ProcessInstance, parent) in page
    assert "has called this instance" in page
    assert 'value="cancel"' not in page  # its root is cancelled, not it


@pytest.mark.gate
def test_the_page_of_a_job_links_to_its_instance(staff, order):
    dead = DeadLetterJob.objects.get()
    address = reverse("admin:jobexec_deadletterjob_change", args=[dead.pk])
    page = staff(*VIEW, "view_deadletterjob").get(address).content.decode()
    assert f'<a href="{url(ProcessInstance, order)}">The process instance order 4711</a>' in page
    assert url(ProcessInstance, order) not in staff("view_deadletterjob").get(address).content.decode()
    DeadLetterJob.objects.update(process_instance_id="no id of ours")
    assert "The process instance" not in staff(*VIEW, "view_deadletterjob").get(address).content.decode()


FILTERS = [
    ({"q": "47"}, True),
    ({"q": "order"}, True),
    ({"q": "approve"}, False),
    ({"process": "order"}, True),
    ({"process": "other"}, False),
    ({"version": "1"}, True),
    ({"version": "2"}, False),
    ({"version": "x"}, False),
    ({"process": "delivery", "version": "1"}, False),
    ({"business_key": "4711"}, True),
    ({"business_key": "47"}, False),
    ({"element": "approve"}, True),
    ({"element": "approve", "process": "order"}, True),
    ({"element": "fork"}, False),
    ({"incident": "yes"}, True),
    ({"suspended": "yes"}, False),
    ({"suspended": "no"}, True),
    ({"variable": "amount=5"}, True),
    ({"variable": "amount = 5"}, True),
    ({"variable": 'amount="5"'}, False),
    ({"variable": "amount=6"}, False),
    ({"variable": "amount"}, False),
    ({"variable": "amount=1e999"}, False),
    ({"variable": "=5"}, False),
    ({"variable": 'lines=[1, {"a": null}]'}, True),
    ({"variable": "customer=Zoë"}, True),
    ({"variable": "nothing=null"}, True),
    ({"variable": "password=geheim"}, False),
    ({"variable": "amount=5", "business_key": "1"}, False),
    ({"state__exact": "active"}, True),
    ({"state__exact": "completed"}, False),
]


@pytest.mark.every_database
@pytest.mark.parametrize(("query", "found"), FILTERS, ids=lambda value: str(value))
def test_instances_are_found(alias, query, found):
    """On each database: ids are texts in one table, and UUIDs in the other."""
    from django.contrib import admin
    from django.test import RequestFactory

    deploy(("order.bpmn", DRAWN), using=alias)
    values = {"lines": [1, {"a": None}], "customer": "Zoë", "nothing": None, "password": "geheim"}
    start("order", business_key="4711", variables={"amount": 5, **values}, using=alias)
    ManualExecutor(alias, reraise=False).run_until_empty()
    page = admin.site._registry[ProcessInstance]
    request = RequestFactory().get("/", query)
    request.user = User(is_superuser=True, is_active=True, is_staff=True)
    queryset, _ = page.get_search_results(request, ProcessInstance.objects.using(alias), query.get("q", ""))
    for each in page.list_filter:
        if isinstance(each, type):
            chosen = each(request, {name: [value] for name, value in query.items()}, ProcessInstance, page)
            queryset = chosen.queryset(request, queryset)
    if "state__exact" in query:
        queryset = queryset.filter(**query)
    assert queryset.exists() is found


@pytest.mark.gate
def test_the_list_reads_the_latest_instances_alone(staff, order):
    row = {"definition_id": order.definition_id, "definition_key": "order", "start_time": clock.now()}
    ProcessInstance.objects.bulk_create([ProcessInstance(id=id, root_id=id, **row) for id in uuid7s(5_000)])
    client = staff(*VIEW)
    for query in ({}, {"o": "-7"}):
        with CaptureQueriesContext(connection) as captured:
            assert client.get(url(ProcessInstance), query).status_code == 200
        of_rows = next(sql for each in captured if re.search("processinstance.*ORDER BY", sql := each["sql"]))
        with connection.cursor() as cursor:
            cursor.execute(f"{connection.ops.explain_query_prefix()} {of_rows}")
            plan = str(cursor.fetchall())
        assert "SCAN jobexec_processes_processinstance USING INDEX" in plan and "TEMP B-TREE" not in plan, of_rows


@pytest.mark.gate
def test_the_id_finds_an_instance(staff, order):
    client = staff(*VIEW)
    assert "4711" in client.get(url(ProcessInstance), {"q": str(order.pk)}).content.decode()
    page = client.get(url(ProcessInstance)).content.decode()
    assert "approve, paid, reserve" in page


@pytest.mark.gate
def test_the_list_asks_before_it_cancels_many(staff, order):
    others = [start("order", variables={"amount": 5}, using="default") for _ in range(4)]
    client = staff(*VIEW, "cancel_processinstance")
    keys = [str(each.pk) for each in [order, *others]]
    page = client.post(url(ProcessInstance), {"_selected_action": keys, "action": "cancel"}).content.decode()
    assert "5 process instances" in page
    assert ProcessInstance.objects.filter(state="active").count() == 5
    client.post(url(ProcessInstance), {"_selected_action": keys, "action": "cancel", "_apply": "1", "reason": "x"})
    assert not ProcessInstance.objects.filter(state="active").exists()


# Figures.


@pytest.mark.every_database
def test_the_figures_of_a_definition(alias):
    deploy(("order.bpmn", DRAWN), using=alias)
    order = start("order", variables={"amount": 5}, using=alias)
    now, definition = clock.now(alias), order.definition_id
    ActivityInstance.objects.using(alias).all().delete()
    rows = [(1, 1, "completed"), (3, 2, "completed"), (8, 3, "completed"), (99, 4, "cancelled"), (99, 40, "completed")]
    for seconds, age, state in rows:
        end = now - timedelta(days=age)
        ActivityInstance.objects.using(alias).create(
            instance_id=order.pk, definition_id=definition, element_id="approve", kind="userTask",
            start_time=end - timedelta(seconds=seconds), end_time=end, state=state,
        )  # fmt: skip
    assert statistics.runs(alias, definition) == {"approve": statistics.Runs(3, 3.0)}
    assert statistics.tokens(alias, definition) == {"approve": 1, "reserve": 1, "paid": 1}
    assert statistics.incidents(alias, definition) == {}
    statistics.forget()
    for element in ("approve", "approve", "paid"):
        make_row(DeadLetterJob, alias, process_definition_id=definition, failed_activity_id=element)
    make_row(DeadLetterJob, alias, process_definition_id="other", failed_activity_id="paid")
    assert statistics.incidents(alias, definition) == {"approve": 2, "paid": 1}
    assert statistics.of_definitions(alias, [definition, "none"]) == {definition: (1, 3), "none": (0, 0)}


def test_figures_are_kept_for_a_moment(order):
    with controlled_clock() as time:
        assert statistics.tokens("default", order.definition_id) == {"approve": 1, "reserve": 1, "paid": 1}
        Execution.objects.filter(element_id="paid").delete()
        assert "paid" in statistics.tokens("default", order.definition_id)
        time.advance(6)
        assert "paid" not in statistics.tokens("default", order.definition_id)


def test_the_definition_shows_its_figures_and_heat(staff, order):
    client = staff(*VIEW)
    row = ProcessDefinition.objects.get(key="order")
    page = client.get(url(ProcessDefinition, row)).content.decode()
    assert 'jobexec-element incident" data-element="reserve"' in page
    assert f"{url(ProcessInstance)}?definition_id=order%3A1%3A" in page
    assert "Runs in 30 days" not in page
    page = client.get(url(ProcessDefinition, row), {"show": "runs"}).content.decode()
    assert "Runs in 30 days" in page
    assert 'jobexec-element heat-5" data-element="fork"' in page
    found = client.get(f"{url(ProcessDefinition, row)[: -len('change/')]}diagram/", {"show": "runs"}).json()
    assert found["elements"]["fork"]["classes"] == ["heat-5"]


# Statements.


def statements(client, address):
    statistics.forget()
    client.get(address)
    statistics.forget()
    with CaptureQueriesContext(
        connection,
    ) as seen:
        assert client.get(address).status_code == 200
    return len(seen)


@pytest.mark.gate
def test_the_statements_of_a_page_do_not_grow_with_its_rows(staff, order):
    client = staff(*VIEW, "view_joblog", "view_incident", "view_job", "view_timerjob", "view_deadletterjob")
    definition = ProcessDefinition.objects.get(key="order")
    addresses = [url(ProcessInstance), url(ProcessInstance, order), url(UserTask), url(ProcessDefinition)]
    few = [statements(client, each) for each in addresses]
    on_definition = statements(client, url(ProcessDefinition, definition))
    for number in range(8):
        start("order", business_key=str(number), variables={"amount": 5}, using="default")
    now = clock.now("default")
    ActivityInstance.objects.bulk_create(
        ActivityInstance(
            instance_id=order.pk, definition_id=order.definition_id, element_id="fork", kind="parallelGateway",
            start_time=now, end_time=now + timedelta(seconds=number), state="completed",
        )
        for number in range(500)
    )  # fmt: skip
    assert [statements(client, each) for each in addresses] == few
    assert statements(client, url(ProcessDefinition, definition)) == on_definition
    assert max(few) <= 40
    assert on_definition <= 30  # one more for each element that ran: its median
    page = client.get(url(ProcessInstance, order)).content.decode()
    assert page.count("jobexec-bar") == 500
    assert "The latest 500." in page


# Forms of tasks.

FIELDS = [
    {"id": "approved", "label": "Approved?", "type": "boolean", "default": "true"},
    {"id": "comment", "type": "string", "constraints": {"required": None, "maxlength": "5"}},
    {"id": "rate", "type": "long", "constraints": {"min": "1", "max": "5"}},
    {"id": "day", "type": "date"},
    {"id": "way", "type": "enum", "values": {"road": "By road", "air": None}, "default": "road"},
    {"id": "total", "type": "long", "default": 17, "writable": False},
    {"id": "secret", "type": "string", "readable": False},
]


def filled(**values):
    form = form_of(FIELDS)({"variables": "{}", **{f"field_{name}": value for name, value in values.items()}})
    return form, (form.cleaned_data["variables"] if form.is_valid() else None)


def test_a_form_of_fields():
    form, variables = filled(comment="good", rate="3", day="2026-01-31", way="air", total="1")
    assert form.errors == {}
    assert variables == {
        "approved": False, "comment": "good", "rate": 3, "day": "2026-01-31", "way": "air", "total": 17,
    }  # fmt: skip
    json.dumps(variables)
    assert "field_secret" not in form.fields
    assert form.fields["field_approved"].initial is True
    assert form.fields["field_way"].choices == [("", NONE), ("road", "By road"), ("air", "air")]


def test_the_forms_of_fields_are_of_their_task_alone():
    label = VariablesForm().fields["variables"].label
    form = form_of(FIELDS)()
    assert form.fields["variables"].label != label
    assert list(form.fields) == [
        *(f"field_{each['id']}" for each in FIELDS if f"field_{each['id']}" in form.fields),
        "variables",
    ]
    assert VariablesForm().fields["variables"].label == label


@pytest.mark.parametrize("odd", ["²", "--5", "many"])
def test_a_limit_that_is_no_number_limits_nothing(odd):
    form = form_of([{"id": "a", "type": "long", "constraints": {"min": odd, "max": "7"}}])
    assert form({"field_a": "7"}).is_valid() and not form({"field_a": "8"}).is_valid()


def test_a_form_of_fields_refuses_what_its_model_does():
    form, variables = filled(rate="9", way="sea", comment="too long")
    assert variables is None
    assert set(form.errors) == {"field_rate", "field_way", "field_comment"}
    assert set(filled()[0].errors) == {"field_comment"}


def test_other_variables_go_beside_the_fields():
    form = form_of(FIELDS)({"variables": '{"more": [1], "comment": "other"}', "field_comment": "mine"})
    assert form.is_valid()
    assert form.cleaned_data["variables"] == {"more": [1], "comment": "mine", "approved": False, "total": 17}


@pytest.mark.gate
@pytest.mark.parametrize(
    ("language", "texts"),
    [
        ("de", ("Warum wartet sie?", "ist eine nicht übernommene Aufgabe", "wartet auf die Nachricht paid")),
        ("fr", ("Pourquoi attend-elle", "est une tâche non prise", "attend le message paid")),
    ],
)
def test_in_other_languages(staff, order, settings, language, texts):
    settings.LANGUAGE_CODE = language
    page = staff(*VIEW).get(url(ProcessInstance, order)).content.decode()
    for text in texts:
        assert text in page


def test_an_activity_has_its_user_and_its_job(staff, order):
    task = UserTask.objects.get()
    complete(claim(task, "anna", using="default"), {"approved": True}, using="default")
    done = ActivityInstance.objects.get(element_id="approve")
    ActivityInstance.objects.filter(pk=done.pk).update(job_id=UUID(int=7))
    section = staff(*VIEW).get(url(ProcessInstance, order)).content.decode().partition('id="jobexec-activities"')[2]
    assert '<span class="jobexec-beneath">anna</span>' in section
    assert f'href="{reverse("admin:jobexec_job_locate", args=[UUID(int=7)])}"' in section


def test_activities_are_below_their_scopes(staff):
    flow = shop()
    flow.map(notes, over=["x", "y"], name="notify_again")
    found = flow.start(using="default")
    ManualExecutor("default", reraise=False).run_until_empty()
    page = staff(*VIEW).get(url(ProcessInstance, found)).content.decode()
    section = page.partition('id="jobexec-activities"')[2]
    rows = re.findall(r'<tr class="jobexec-depth-(\d)"><th scope="row">(\w+)', section)
    for name in ("notify", "notify_again"):
        at = rows.index(("0", name))
        assert rows[at + 1 : at + 3] == [("1", name)] * 2


TWO_BRANCHES = """
<startEvent id="s"/><parallelGateway id="fork"/><parallelGateway id="both"/><endEvent id="e"/>
<serviceTask id="pack" camunda:asyncBefore="true" camunda:expression="${1}"/>
<sequenceFlow id="f1" sourceRef="s" targetRef="fork"/><sequenceFlow id="f2" sourceRef="fork" targetRef="pack"/>
<sequenceFlow id="f3" sourceRef="fork" targetRef="both"/><sequenceFlow id="f4" sourceRef="pack" targetRef="both"/>
<sequenceFlow id="f5" sourceRef="both" targetRef="e"/>"""


def test_what_waits_for_its_job_or_at_a_join_is_among_the_activities(staff, db):
    deploy(("two.bpmn", process(TWO_BRANCHES)), using="default")
    found = start("p", using="default")
    job = Job.objects.get()

    def rows():
        page = staff(*VIEW, "view_job").get(url(ProcessInstance, found)).content.decode()
        section = page.partition('id="jobexec-activities"')[2].partition("</table>")[0]
        cells = re.findall(r'<th scope="row">(.+?)</th>.*?"State">(.+?)<.*?"Started">(.+?)<', section)
        return {element: (state, started) for element, state, started in cells if element in ("pack", "both")}

    assert rows() == {
        "pack": ("waits for the job that starts it", absolute(job.create_time)),
        "both": ("waits for others at a join", absolute(found.start_time)),
    }
    Job.objects.update(create_time=job.create_time - timedelta(hours=1))
    assert rows()["pack"][1] == absolute(job.create_time - timedelta(hours=1))
    Job.objects.all().delete()
    assert rows()["pack"] == ("waits for the job that starts it", NONE)
