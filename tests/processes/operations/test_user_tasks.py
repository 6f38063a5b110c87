"""User tasks: who hears of an assignment, and who may take a task."""

import pytest
from django.contrib.auth.models import Group, Permission, User

from jobexec.models import AuditLog, OperatorType
from jobexec.operations.audit import acting
from jobexec.operations.values.operator import Operator
from jobexec.processes.engine.exceptions import StepError, UncaughtError
from jobexec.processes.exceptions import NotCandidate, Suspended, TaskOver
from jobexec.processes.handlers.registry import function, listener
from jobexec.processes.models import TaskCandidate, UserTask
from jobexec.processes.operations.deploy import deploy
from jobexec.processes.operations.start import start
from jobexec.processes.operations.suspend import suspend
from jobexec.processes.operations.user_tasks import claim, complete, release
from tests.processes.support.bpmn import around, process

pytest.importorskip("lxml")

HEARD = []


@pytest.fixture(autouse=True)
def heard():
    HEARD.clear()


@function("tests.user_tasks.hear")
def hear(event, assignee):
    HEARD.append((event, assignee))


@listener("tests.user_tasks.meet")
def meet(context):
    HEARD.append((context.event, context.task.assignee))


BY_EXPRESSION = 'event="{}" expression="${{tests.user_tasks.hear(task.eventName, task.assignee)}}"'
BY_FUNCTION = 'event="{}" delegateExpression="${{tests.user_tasks.meet}}"'


def task(alias, attributes="", *listeners, **variables):
    """The task of a new instance."""
    inside = "".join(f"<camunda:taskListener {each}/>" for each in listeners)
    element = f'<userTask id="x" {attributes}><extensionElements>{inside}</extensionElements></userTask>'
    deploy(("p.bpmn", process(around(element))), using=alias)
    start("p", variables=variables, using=alias)
    return UserTask.objects.using(alias).get()


@pytest.mark.every_database
@pytest.mark.parametrize("how", [BY_EXPRESSION, BY_FUNCTION], ids=["expression", "function"])
def test_listeners_hear_each_change_of_the_assignee(alias, how):
    """As in Camunda 7: at the creation, when the assignee changes, and when there is none any more."""
    found = task(alias, 'camunda:assignee="kim"', how.format("assignment"), how.format("create"))
    assert HEARD == [("create", "kim"), ("assignment", "kim")]
    claim(found, "kim", using=alias)  # has it already
    claim(found, "anna", override=True, using=alias)
    assert (release(found, using=alias), UserTask.objects.using(alias).get().assignee) == (None, "")
    release(found, using=alias)  # nobody has it
    claimed = claim(found, "bert", using=alias)
    assert HEARD[2:] == [
        ("assignment", "anna"),
        ("assignment", None if how == BY_EXPRESSION else ""),
        ("assignment", "bert"),
    ]
    assert claimed.assignee == UserTask.objects.using(alias).get().assignee == "bert"


def test_nobody_hears_of_a_claim_that_is_refused(alias):
    found = task(alias, 'camunda:assignee="kim"', BY_EXPRESSION.format("assignment"))
    with pytest.raises(TaskOver, match="is done, or another user has it"):
        claim(found, "anna", using=alias)
    suspend("p", using=alias)
    for act in (lambda: claim(found, "anna", override=True, using=alias), lambda: release(found, using=alias)):
        with pytest.raises(Suspended):
            act()
    assert HEARD == [("assignment", "kim")]
    assert UserTask.objects.using(alias).get().assignee == "kim"


@listener("tests.user_tasks.refuse")
def refuse(context):
    from jobexec.processes import BpmnError

    if context.task.assignee == "anna":
        raise BpmnError("NOT_HER")


@pytest.mark.transactional
def test_a_listener_may_refuse_an_assignment(alias):
    found = task(alias, "", 'event="assignment" delegateExpression="${tests.user_tasks.refuse}"')
    with pytest.raises(UncaughtError, match="x: Nothing catches the error NOT_HER"):
        claim(found, "anna", using=alias)
    assert UserTask.objects.using(alias).get().assignee == ""
    assert claim(found, "bert", using=alias).assignee == "bert"


def test_the_name_of_a_task_may_be_an_expression(alias):
    named = 'name="Approve ${1 + 1} for ${execution.currentActivityName}" camunda:assignee="${boss}"'
    found = task(alias, named, BY_EXPRESSION.format("create").replace("task.assignee", "task.name"), boss="kim")
    assert found.name == "Approve 2 for Approve ${1 + 1} for ${execution.currentActivityName}"
    assert [("create", found.name)] == HEARD
    assert found.assignee == "kim"


def test_the_name_of_a_task_that_is_null(alias):
    assert task(alias, "name=\"${execution.getVariable('order')}\"").name == ""


def test_the_name_of_a_task_that_cannot_be_evaluated(alias):
    with pytest.raises(StepError, match="there is no variable 'order'"):
        task(alias, 'name="Approve ${order}"')
    assert not UserTask.objects.using(alias).exists()
    with pytest.raises(StepError, match="x: Its name is a string of at most 255 characters"):
        task(alias, 'name="Approve the ${order}"', order="x" * 255)


def user(name, *groups, permission=None, **columns):
    made = User.objects.create_user(name, **columns)
    made.groups.set([Group.objects.get_or_create(name=group)[0] for group in groups])
    if permission:
        made.user_permissions.add(Permission.objects.get(codename=permission))
    return made


CANDIDATES = 'camunda:candidateUsers="anna" camunda:candidateGroups="managers, sales"'
TAKE = {
    "claim": claim,
    "complete": lambda found, by: complete(found, user=by),
}


@pytest.mark.parametrize("take", TAKE.values(), ids=TAKE)
@pytest.mark.parametrize(
    ("who", "may"),
    [
        ({"name": "anna"}, True),
        ({"name": "bert", "groups": ["sales"]}, True),
        ({"name": "bert", "groups": ["buyers"]}, False),
        ({"name": "managers", "groups": ["anna"]}, False),
        ({"name": "bert", "permission": "complete_usertask"}, False),
        ({"name": "bert", "permission": "change_usertask"}, True),
        ({"name": "bert", "is_superuser": True}, True),
    ],
    ids=str,
)
def test_candidates_may_take_a_task(db, who, may, take):
    columns = {name: value for name, value in who.items() if name not in ("name", "groups")}
    found, by = task("default", CANDIDATES), user(who["name"], *who.get("groups", ()), **columns)
    if may:
        take(found, by)
        return
    with pytest.raises(NotCandidate, match=f"{by} is none of the candidates of the task {found.pk}"):
        take(found, by)
    assert UserTask.objects.get().assignee == ""


@pytest.mark.parametrize("take", TAKE.values(), ids=TAKE)
@pytest.mark.parametrize("attributes", ["", 'camunda:assignee="bert" ' + CANDIDATES], ids=["no candidates", "has it"])
def test_who_else_may_take_a_task(db, take, attributes):
    take(task("default", attributes), user("bert"))


def test_an_assignment_by_another_is_not_limited_to_candidates(db):
    """Nor is that of a name alone, which need not be that of a user: of the gateways, for example, as in Camunda."""
    found = task("default", CANDIDATES)
    assert claim(found, user("bert"), override=True).assignee == "bert"
    release(found)
    assert claim(found, "carl").assignee == "carl"


@pytest.mark.parametrize(
    ("value", "names"),
    [
        (17, ["17"]),
        (["sales", "sales", 3], ["3", "sales"]),
        ("sales, ,buyers", ["buyers", "sales"]),
        (None, []),
        (True, "candidate_groups are names of at most 255 characters, as a list or as a string with commas, not True"),
        ([["sales"]], "candidate_groups are names"),
        ("x" * 256, "candidate_groups are names"),
    ],
    ids=lambda value: str(value)[:20],
)
def test_candidates_that_an_expression_names(db, value, names):
    attributes = 'camunda:candidateGroups="${groups}"'
    if isinstance(names, list):
        task("default", attributes, groups=value)
        assert sorted(TaskCandidate.objects.values_list("name", flat=True)) == names
        return
    with pytest.raises(StepError, match=f"^x: Its {names}"):
        task("default", attributes, groups=value)
    assert not UserTask.objects.exists()


@pytest.mark.parametrize("listeners", [[], [BY_EXPRESSION.format("assignment")]], ids=["none", "listener"])
def test_a_change_is_recorded(alias, listeners):
    found = task(alias, "", *listeners)
    with acting(Operator(OperatorType.USER, "anna")):
        claim(found, "anna", using=alias)
        release(found, using=alias)
    rows = AuditLog.objects.using(alias).filter(object_type="usertask").order_by("pk")
    assert [row.new_value for row in rows] == [{"assignee": "anna"}, {"assignee": ""}]


@pytest.mark.parametrize(
    ("attributes", "variables", "told"),
    [
        ('camunda:assignee="${who}"', {"who": ["anna"]}, r"Its assignee is a string of at most 255 .*, not \['anna'\]"),
        ('camunda:assignee="${who}"', {"who": True}, "Its assignee is a string"),
        ('camunda:priority="${who}"', {"who": 1.9}, "Its priority is a whole number, not 1.9"),
    ],
)
def test_a_form_is_not_made_of_what_does_not_fit(alias, attributes, variables, told):
    with pytest.raises(StepError, match=told):
        task(alias, attributes, **variables)
    assert not UserTask.objects.using(alias).exists()


def test_a_whole_number_with_a_point_is_a_priority(alias):
    assert task(alias, 'camunda:priority="${who}"', who=7.0).priority == 7
