"""Messages for the instance whose variables have given values."""

from datetime import date
from decimal import Decimal

import pytest

from jobexec.exceptions import InvalidJob
from jobexec.identifiers import uuid7
from jobexec.processes.exceptions import MismatchingMessage
from jobexec.processes.handlers import deliver, stepping
from jobexec.processes.models import EventSubscription, ProcessInstance
from jobexec.processes.operations.deploy import deploy
from jobexec.processes.operations.events import correlate
from jobexec.processes.operations.start import start
from tests.processes.support.bpmn import around, process

pytest.importorskip("lxml")

PAID = '<message id="m" name="paid"/>'
WAITS = '<receiveTask id="x" messageRef="m"/>'
CALLS = '<callActivity id="x" calledElement="p"/>'
BEGINS = '<startEvent id="s"><messageEventDefinition messageRef="m"/></startEvent>'


@pytest.fixture
def started(alias):
    """Starts an instance that waits for the message; returns its id."""
    deploy(("p.bpmn", process(around(WAITS), top=PAID)), using=alias)

    def start_one(business_key="", **variables):
        return start("p", business_key=business_key, variables=variables, using=alias).pk

    return start_one


def waiting(alias):
    rows = EventSubscription.objects.using(alias).filter(instance_id__isnull=False)
    return set(rows.values_list("instance_id", flat=True))


@pytest.mark.every_database
@pytest.mark.parametrize(
    "value",
    [5, 5.5, "5", "", True, False, None, Decimal("5.50"), date(2026, 1, 1), ["a", {"b": 1}]],
    ids=str,
)
def test_the_instance_whose_variable_has_the_value(alias, started, value):
    others = {started(order=other) for other in (6, "6", [1])} | {started(other=value)}
    one = started(order=value, colour="red")
    assert correlate("paid", match={"order": value, "colour": "red"}, variables={"amount": 9}, using=alias) == 1
    assert waiting(alias) == others
    assert ProcessInstance.objects.using(alias).get(pk=one).final_variables["amount"] == 9


@pytest.mark.every_database
@pytest.mark.parametrize(("value", "others"), [(5, ["5", True]), ("5", [5]), (1, [True, "1"]), (True, [1, "true"])])
def test_a_value_of_another_type_does_not_match(alias, started, value, others):
    left = {started(order=other) for other in others}
    with pytest.raises(MismatchingMessage, match="0 do"):
        correlate("paid", match={"order": value}, using=alias)
    started(order=value)
    assert correlate("paid", match={"order": value}, using=alias) == 1
    assert waiting(alias) == left


def test_all_variables_have_to_match(alias, started):
    one = started(order=1, colour="red")
    two = started(order=1, colour="blue")
    with pytest.raises(MismatchingMessage, match="must match exactly one instance that waits for it; 2 do"):
        correlate("paid", match={"order": 1}, using=alias)
    with pytest.raises(MismatchingMessage, match="0 do"):
        correlate("paid", match={"order": 1, "colour": "green"}, using=alias)
    assert waiting(alias) == {one, two}
    assert correlate("paid", match={"order": 1, "colour": "blue"}, using=alias) == 1
    assert waiting(alias) == {one}


def test_with_a_business_key_or_an_instance(alias, started):
    """Those that have the values, but not the key, do not count."""
    one, _, three = (started(key, order=1) for key in ("a", "b", "c"))
    assert correlate("paid", match={"order": 1}, business_key="b", using=alias) == 1
    assert correlate("paid", match={"order": 1}, instance=three, using=alias) == 1
    assert waiting(alias) == {one}
    with pytest.raises(MismatchingMessage, match="0 do"):
        correlate("paid", match={"order": 2}, instance=one, using=alias)


def test_all_that_match(alias, started):
    rest = started(order=2)
    for _ in range(2):
        started(order=1)
    assert correlate("paid", match={"order": 1}, all=True, using=alias) == 2
    assert correlate("paid", match={"order": 1}, all=True, using=alias) == 0
    assert waiting(alias) == {rest}


def test_all_that_match_are_locked_in_one_order(alias, started, monkeypatch):
    """As other transactions that lock several instances, so that they do not wait for each other."""
    first, second = (started(order=1) for _ in range(2))
    EventSubscription.objects.using(alias).filter(instance_id=first).update(id=uuid7())
    locked = []

    def proceed(using, root, event, place):
        locked.append(root)
        return stepping.proceed(using, root, event)

    monkeypatch.setattr(deliver, "proceed", proceed)
    assert correlate("paid", match={"order": 1}, all=True, using=alias) == 2
    assert locked == [first, second]


def test_variables_of_a_scope_or_of_the_caller_do_not_match(alias, started):
    """Only those of the instance itself, as in Camunda."""
    local = around(
        WAITS.replace(
            "/>",
            '><extensionElements><camunda:inputOutput><camunda:inputParameter name="order">1</camunda:inputParameter>'
            "</camunda:inputOutput></extensionElements></receiveTask>",
        )
    )
    started()
    deploy(("q.bpmn", process(around(CALLS)).replace(b'id="p"', b'id="q"')), using=alias)
    deploy(("r.bpmn", process(local, top=PAID).replace(b'id="p"', b'id="r"')), using=alias)
    start("q", variables={"order": 1}, using=alias)
    start("r", using=alias)
    for value in (1, "1"):
        with pytest.raises(MismatchingMessage, match="0 do"):
            correlate("paid", match={"order": value}, using=alias)


def test_a_start_event_has_no_variables(alias):
    content = BEGINS + '<endEvent id="e"/><sequenceFlow id="f" sourceRef="s" targetRef="e"/>'
    deploy(("p.bpmn", process(content, top=PAID)), using=alias)
    with pytest.raises(MismatchingMessage, match="0 do"):
        correlate("paid", match={"order": 1}, using=alias)
    assert correlate("paid", match={}, using=alias) == 1


@pytest.mark.parametrize(
    ("match", "told"),
    [
        ({"order": object()}, "order: expected JSON"),
        ({1: 1}, "The name of a variable"),
        ({f"v{n}": n for n in range(21)}, "by at most 20 variables, got 21"),
    ],
)
def test_what_cannot_be_a_variable_is_refused(alias, started, match, told):
    one = started()
    with pytest.raises(InvalidJob, match=told):
        correlate("paid", match=match, using=alias)
    assert waiting(alias) == {one}
