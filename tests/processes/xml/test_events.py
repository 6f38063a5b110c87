"""Events, and what they are about."""

import pytest

from jobexec.processes.definition import Event, Expression, Kind, Language, Mapping, Mode, TimerKind, Trigger, Work
from tests.processes.support.bpmn import around, read_node, read_process

TOP = (
    '<message id="m" name="paid"/><signal id="sig" name="stock-${region}"/>'
    '<error id="err" name="Out of stock" errorCode="OUT" camunda:errorMessage="no ${article}"/>'
    '<error id="any" name="x"/>'
    '<escalation id="esc" name="Late" escalationCode="LATE"/>'
)


def juel(text):
    return Expression(text)


def feel(text):
    return Expression(text, Language.FEEL)


def caught(definition, dialect="camunda", top=TOP):
    """The event of an intermediate catch event, or of a boundary event where only that can catch it."""
    return read_node(f'<intermediateCatchEvent id="x">{definition}</intermediateCatchEvent>', dialect, top).event


def at_boundary(definition, top=TOP, attributes=""):
    boundary = f'<boundaryEvent id="b" attachedToRef="x" {attributes}>{definition}</boundaryEvent>'
    flow = '<sequenceFlow id="f" sourceRef="b" targetRef="e"/>'
    return read_process(around(f'<task id="x"/>{boundary}{flow}'), top=top).node("b")


def thrown(definition, kind="endEvent", dialect="camunda", top=TOP):
    return read_node(f'<{kind} id="x">{definition}</{kind}>', dialect, top, leaves=kind != "endEvent")


@pytest.mark.parametrize(
    ("element", "text", "timer", "when"),
    [
        ("timeDate", "2026-01-01T00:00:00Z", TimerKind.DATE, "2026-01-01T00:00:00Z"),
        ("timeDuration", " PT10S ", TimerKind.DURATION, "PT10S"),
        ("timeCycle", "R3/PT10S", TimerKind.CYCLE, "R3/PT10S"),
        ("timeCycle", "0 0 3 * * ?", TimerKind.CYCLE, "0 0 3 * * ?"),
        ("timeDuration", "${pause}", TimerKind.DURATION, juel("${pause}")),
        ("timeDuration", "PT${n}S", TimerKind.DURATION, juel("PT${n}S")),
    ],
)
def test_timers(element, text, timer, when):
    definition = f'<timerEventDefinition id="t"><{element} id="u" xsi:type="tFormalExpression">{text}</{element}>'
    expected = Event(Trigger.TIMER, timer=timer, when=when)
    assert at_boundary(f"{definition}</timerEventDefinition>").event == expected


def test_a_timer_of_zeebe():
    definition = "<timerEventDefinition><timeDate>=due</timeDate></timerEventDefinition>"
    assert caught(definition, "zeebe", "").when == feel("=due")


def test_messages():
    definition = '<messageEventDefinition messageRef="m"/>'
    assert caught(definition) == Event(Trigger.MESSAGE, name="paid")
    top = (
        '<message id="m" name="=kind"><extensionElements><zeebe:subscription correlationKey="=order.id"/>'
        "</extensionElements></message>"
    )
    assert caught(definition, "zeebe", top) == Event(Trigger.MESSAGE, name=feel("=kind"), key=feel("=order.id"))


def test_a_message_with_the_type_of_its_content():
    top = '<itemDefinition id="i" structureRef="xsd:string"/><message id="m" name="paid" itemRef="i"/>'
    assert caught('<messageEventDefinition messageRef="m"/>', top=top).name == "paid"


def test_a_reference_with_a_prefix():
    assert caught('<messageEventDefinition messageRef="tns:m"/>').name == "paid"


def test_signals():
    assert caught('<signalEventDefinition signalRef="sig"/>') == Event(Trigger.SIGNAL, name=juel("stock-${region}"))
    inputs = '<extensionElements><camunda:in source="a" target="b"/></extensionElements>'
    node = thrown(f'<signalEventDefinition signalRef="sig" camunda:async="true">{inputs}</signalEventDefinition>')
    assert node.event.inputs == (Mapping("b", juel("${execution.getVariable('a')}")),)


def test_errors():
    variables = 'camunda:errorCodeVariable="code" camunda:errorMessageVariable="text"'
    found = at_boundary(f'<errorEventDefinition errorRef="err" {variables}/>').event
    assert found == Event(
        Trigger.ERROR, code="OUT", code_variable="code", text_variable="text", text=juel("no ${article}")
    )
    assert at_boundary("<errorEventDefinition/>").event == Event(Trigger.ERROR)
    assert at_boundary('<errorEventDefinition errorRef="any"/>').event == Event(Trigger.ERROR)
    assert thrown('<errorEventDefinition errorRef="err"/>').event.code == "OUT"


def test_an_error_code_without_an_error_element():
    assert at_boundary('<errorEventDefinition errorRef="BAD"/>', top="").event == Event(Trigger.ERROR, code="BAD")


def test_escalations():
    found = at_boundary('<escalationEventDefinition escalationRef="esc" camunda:escalationCodeVariable="c"/>')
    assert found.event == Event(Trigger.ESCALATION, code="LATE", code_variable="c")
    assert thrown('<escalationEventDefinition escalationRef="esc"/>', "intermediateThrowEvent").event.code == "LATE"


def test_terminate():
    assert thrown("<terminateEventDefinition/>").event == Event(Trigger.TERMINATE)


def test_links():
    found = read_process(
        '<startEvent id="s"/><sequenceFlow id="f" sourceRef="s" targetRef="t"/>'
        '<intermediateThrowEvent id="t"><linkEventDefinition name="there"><target>c</target></linkEventDefinition>'
        '</intermediateThrowEvent><intermediateCatchEvent id="c"><linkEventDefinition name="there"/>'
        '</intermediateCatchEvent><sequenceFlow id="g" sourceRef="c" targetRef="e"/><endEvent id="e"/>'
    )
    assert found.node("t").event == found.node("c").event == Event(Trigger.LINK, name="there")


def test_compensation_is_thrown():
    node = thrown(
        '<compensateEventDefinition activityRef="y" waitForCompletion="true"/>'.replace(' activityRef="y"', "")
    )
    assert node.event == Event(Trigger.COMPENSATION)


def test_plain_events():
    assert thrown("").event is None
    assert thrown("", "intermediateThrowEvent").kind is Kind.THROW_EVENT
    assert read_process('<startEvent id="s"/>').node("s").event is None


def test_a_message_is_thrown_as_a_service_task_works():
    work = '<messageEventDefinition messageRef="m" camunda:type="external" camunda:topic="send"/>'
    assert thrown(work).work == Work(mode=Mode.EXTERNAL, topic="send")
    handler = '<messageEventDefinition messageRef="m" camunda:delegateExpression="${send}"/>'
    assert thrown(handler, "intermediateThrowEvent").work == Work(handler="send")
    nameless = '<messageEventDefinition camunda:class="org.acme.Send"/>'  # as in the manual of Camunda 7
    for kind in ("endEvent", "intermediateThrowEvent"):
        node = thrown(nameless, kind)
        assert (node.event, node.work) == (Event(Trigger.MESSAGE), Work(handler="org.acme.Send"))
    zeebe = '<extensionElements><zeebe:taskDefinition type="send"/></extensionElements>'
    definition = f'{zeebe}<messageEventDefinition messageRef="m"/>'
    assert thrown(definition, dialect="zeebe", top='<message id="m" name="n"/>').work.topic == "send"


def test_boundary_events():
    definition = "<timerEventDefinition><timeDuration>PT1S</timeDuration></timerEventDefinition>"
    node = at_boundary(definition)
    assert (node.attached_to, node.interrupting) == ("x", True)
    assert not at_boundary(definition, attributes='cancelActivity="false"').interrupting
    assert at_boundary(definition, attributes='camunda:asyncAfter="true"').jobs.after


def test_start_events():
    found = read_process(
        '<startEvent id="s"><timerEventDefinition><timeCycle>R/PT1H</timeCycle></timerEventDefinition></startEvent>'
        '<sequenceFlow id="f" sourceRef="s" targetRef="e"/>'
        '<startEvent id="t"><messageEventDefinition messageRef="m"/></startEvent>'
        '<sequenceFlow id="g" sourceRef="t" targetRef="e"/><endEvent id="e"/>',
        top=TOP,
    )
    assert [node.trigger for node in found.start_events(None)] == [Trigger.TIMER, Trigger.MESSAGE]
