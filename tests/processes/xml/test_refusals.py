"""What is not executed is refused, by element and line, all of it at once."""

import pytest

from jobexec.processes.definition import InvalidProcess
from jobexec.processes.xml import read
from tests.processes.support.bpmn import around, definitions, problems, process

CATCH = '<intermediateCatchEvent id="x">{}</intermediateCatchEvent>'
BOUNDARY = '<task id="y"/><boundaryEvent id="x" attachedToRef="y">{}</boundaryEvent>'
EXTENDED = '<serviceTask id="x" camunda:class="A"><extensionElements>{}</extensionElements></serviceTask>'
LOOP = (
    '<task id="x"><multiInstanceLoopCharacteristics {}><loopCardinality>2</loopCardinality>{}'
    "</multiInstanceLoopCharacteristics></task>"
)

CASES = {
    # elements
    "complex gateway": ('<complexGateway id="x"/>', "complex gateways are not supported"),
    "transaction": ('<transaction id="x"><startEvent id="i"/></transaction>', "transactions are not supported"),
    "ad hoc": ('<adHocSubProcess id="x"><task id="i"/></adHocSubProcess>', "ad-hoc sub-processes are not supported"),
    "choreography": ('<choreographyTask id="x"/>', "choreographies are not supported"),
    "an unknown element": ('<wobble id="x"/>', "The element wobble is not supported here"),
    "an unknown element inside": ('<task id="x"><wobble/></task>', "The element wobble is not supported here"),
    "conditional event": (CATCH.format("<conditionalEventDefinition/>"), "conditional events are not supported"),
    "cancel event": (BOUNDARY.format("<cancelEventDefinition/>"), "transactions are not supported"),
    "several definitions": (
        CATCH.format('<linkEventDefinition name="l"/><terminateEventDefinition/>'),
        "An event with several event definitions is not supported; use one event for each.",
    ),
    "shared definition": (CATCH.format("<eventDefinitionRef>d</eventDefinitionRef>"), "A shared event definition"),
    "parallel multiple": (
        '<intermediateThrowEvent id="x" parallelMultiple="true"/>',
        "waits for several things at once",
    ),
    "event gateway starts": ('<eventBasedGateway id="x" instantiate="true"/>', "starts a process is not supported"),
    "parallel event gateway": ('<eventBasedGateway id="x" eventGatewayType="Parallel"/>', "A parallel event-based"),
    "standard loop": ('<task id="x"><standardLoopCharacteristics/></task>', "A standard loop is not supported"),
    "loop behavior": (LOOP.format('behavior="One"', ""), "The behavior of a multi-instance"),
    "loop data": (LOOP.format("", "<loopDataInputRef>a</loopDataInputRef>"), "The element loopDataInputRef"),
    "loop by number and list": (
        LOOP.format('camunda:collection="a"', "<loopCardinality>2</loopCardinality>"),
        "has either a loopCardinality or a collection",
    ),
    "loop index": (LOOP.format('camunda:elementIndexVariable="i"', ""), "the variable loopCounter"),
    "web service": ('<serviceTask id="x" camunda:class="A" operationRef="o"/>', "web services are not supported"),
    "receive starts": ('<receiveTask id="x" instantiate="true"/>', "does not start a process"),
    "quantity": ('<task id="x" startQuantity="2"/>', "The startQuantity of an activity can only be 1"),
    # scripts and tasks of vendors
    "groovy": ('<scriptTask id="x" scriptFormat="groovy"><script>1</script></scriptTask>', "A script in 'groovy'"),
    "JavaScript": ('<scriptTask id="x" scriptFormat="JavaScript"><script>1</script></scriptTask>', "'javascript'"),
    "python": ('<scriptTask id="x" scriptFormat="python"><script>1</script></scriptTask>', "A script in 'python'"),
    "an empty script": ('<scriptTask id="x" scriptFormat="juel"><script/></scriptTask>', "The script is empty"),
    "a script that is text": (
        '<scriptTask id="x" scriptFormat="juel"><script>a + 1</script></scriptTask>',
        "The script 'a + 1' is not an expression; expressions begin with '${'",
    ),
    "shell": ('<serviceTask id="x" flowable:type="shell"/>', "models cannot start programs"),
    "mail": ('<serviceTask id="x" camunda:type="mail"/>', "send mail in a registered handler"),
    "http": ('<serviceTask id="x" flowable:type="http"/>', "call the service in a registered handler"),
    "camel": ('<serviceTask id="x" activiti:type="camel"/>', "Camel is not supported"),
    "an unknown type": ('<serviceTask id="x" camunda:type="magic"/>', "it is unknown"),
    "DMN": ('<businessRuleTask id="x" camunda:decisionRef="d"/>', "decisions (DMN) are not supported"),
    "Drools": ('<businessRuleTask id="x" activiti:rules="r"/>', "rules (Drools) are not supported"),
    "two handlers": (
        '<serviceTask id="x" camunda:class="A" camunda:expression="${a}"/>',
        "either a class, a delegateExpression or an expression",
    ),
    "no handler": ('<serviceTask id="x"/>', "needs a handler, an expression or a topic"),
    "a topic alone": ('<serviceTask id="x" camunda:class="A" camunda:topic="t"/>', "A topic needs the type 'external'"),
    "a delegate that computes": (
        '<serviceTask id="x" camunda:delegateExpression="${a ? b : c}"/>',
        "must be the name of a handler",
    ),
    "a method call": (
        '<serviceTask id="x" camunda:expression="${bean.run(execution)}"/>',
        "character 12: 'execution' is not a value",
    ),
    "a transaction mode": (
        '<serviceTask id="x" camunda:class="A" jobexec:transaction="none"/>',
        "expected 'step' or 'outside'",
    ),
    "a skip expression": ('<task id="x" flowable:skipExpression="${a}"/>', "skipExpression is not supported"),
    "triggerable": ('<serviceTask id="x" flowable:class="A" flowable:triggerable="true"/>', "triggerable is not"),
    # extensions
    "connector": (
        EXTENDED.format("<camunda:connector><camunda:connectorId>h</camunda:connectorId></camunda:connector>"),
        "connectors call",
    ),
    "an unknown extension": (EXTENDED.format("<camunda:wobble/>"), "The element camunda:wobble is not supported here"),
    "another vendor's": (
        EXTENDED.format('<acme:thing xmlns:acme="http://acme.example"/>'),
        "The element {http://acme.example}thing is not supported here",
    ),
    "a scripted mapping": (
        EXTENDED.format(
            '<camunda:inputOutput><camunda:inputParameter name="a"><camunda:script scriptFormat="groovy">1'
            "</camunda:script></camunda:inputParameter></camunda:inputOutput>"
        ),
        "A script in a mapping is not supported",
    ),
    "a script in a list": (
        EXTENDED.format(
            '<camunda:inputOutput><camunda:inputParameter name="a"><camunda:list><camunda:script scriptFormat="groovy">'
            "1</camunda:script></camunda:list></camunda:inputParameter></camunda:inputOutput>"
        ),
        "A script in a list is not supported; use an expression.",
    ),
    "a scripted listener": (
        EXTENDED.format(
            '<camunda:executionListener event="start"><camunda:script scriptFormat="groovy">1</camunda:script>'
            "</camunda:executionListener>"
        ),
        "A script as a listener is not supported",
    ),
    "an unknown event of a listener": (
        EXTENDED.format('<camunda:executionListener event="wake" class="A"/>'),
        "The event of a listener is 'wake'; expected one of start, end, take",
    ),
    "a scripted task listener": (
        '<userTask id="x"><extensionElements><camunda:taskListener event="create"><camunda:script '
        'scriptFormat="groovy">1</camunda:script></camunda:taskListener></extensionElements></userTask>',
        "A script as a listener is not supported; use a registered listener.",
    ),
    "a field of a listener": (
        EXTENDED.format(
            '<camunda:executionListener event="start" class="A"><camunda:field name="f" stringValue="1"/>'
            "</camunda:executionListener>"
        ),
        "Fields of a listener are not passed on; it reads variables.",
    ),
    "a listener without an event": (
        EXTENDED.format('<camunda:executionListener class="A"/>'),
        "The event of a listener is ''; expected one of start, end, take",
    ),
    "a listener to a flow at a task": (
        EXTENDED.format('<camunda:executionListener event="take" class="A"/>'),
        "A listener to 'take' is never called here; expected one of start, end.",
    ),
    "a task listener of a service task": (
        EXTENDED.format('<camunda:taskListener event="create" class="A"/>'),
        "A listener to 'create' is never called here; expected one of start, end.",
    ),
    "a task listener to what never happens": (
        '<userTask id="x"><extensionElements><camunda:taskListener event="update" class="A"/></extensionElements>'
        "</userTask>",
        "The event of a listener is 'update'; expected one of create, assignment, complete, delete",
    ),
    "a task listener with a timer": (
        '<userTask id="x"><extensionElements><camunda:taskListener id="l" event="timeout" class="A">'
        "<timerEventDefinition><timeDuration>PT1H</timeDuration></timerEventDefinition></camunda:taskListener>"
        "</extensionElements></userTask>",
        "expected one of create, assignment, complete, delete; use a timer boundary event that does not interrupt.",
    ),
    "a listener of a variable": (
        EXTENDED.format('<camunda:variableListener class="A"/>'),
        "The element camunda:variableListener is not supported: a variable has no listeners; give one to the activity "
        "that sets it.",
    ),
    "an error that a worker maps": (
        EXTENDED.format('<camunda:errorEventDefinition id="q" errorRef="e" expression="${a}"/>'),
        "The element camunda:errorEventDefinition is not supported: a worker reports an error of BPMN by its code.",
    ),
    "a mapping without a name": (
        EXTENDED.format(
            "<camunda:inputOutput><camunda:inputParameter>1</camunda:inputParameter></camunda:inputOutput>"
        ),
        "The camunda:inputParameter needs a name",
    ),
    # attributes
    "a name that is no expression": ('<userTask id="x" name="Approve ${"/>', "expected '}', found the end"),
    "an unknown attribute": ('<task id="x" wobble="1"/>', "The attribute wobble of task is not supported"),
    "an unknown attribute of a vendor": ('<task id="x" camunda:wobble="1"/>', "The attribute camunda:wobble of task"),
    "a flag": ('<task id="x" camunda:asyncBefore="maybe"/>', "is 'maybe'; expected true or false"),
    "a priority": ('<task id="x" camunda:jobPriority="high"/>', "expected a whole number or an expression"),
    "two priorities": (
        '<serviceTask id="x" camunda:type="external" camunda:topic="t" camunda:jobPriority="1" '
        'camunda:taskPriority="2"/>',
        "jobPriority '1' and taskPriority '2' differ",
    ),
    "form of Camunda": ('<userTask id="x" camunda:formRef="f"/>', "forms of Camunda are not rendered"),
    "calendar": ('<userTask id="x" flowable:businessCalendarName="c"/>', "calendars are not supported"),
    "a case": ('<callActivity id="x" camunda:caseRef="c"/>', "cases (CMMN) are not supported"),
    "a tenant": ('<callActivity id="x" calledElement="c" camunda:calledElementTenantId="t"/>', "has the tenant of"),
    "a business key that comes back": (
        '<callActivity id="x" calledElement="c"><extensionElements><camunda:out businessKey="${k}"/>'
        "</extensionElements></callActivity>",
        "Only the camunda:in of a call activity passes a business key",
    ),
    "a business key of a signal": (
        '<intermediateThrowEvent id="x"><signalEventDefinition signalRef="sig"><extensionElements>'
        '<camunda:in businessKey="${k}"/></extensionElements></signalEventDefinition></intermediateThrowEvent>',
        "Only the camunda:in of a call activity passes a business key",
    ),
    "a binding": (
        '<callActivity id="x" calledElement="c" camunda:calledElementBinding="best"/>',
        "expected one of latest",
    ),
    # expressions
    "an expression": ('<task id="x" camunda:jobPriority="${1 +}"/>', "character 6: expected a value"),
    "an expression in a mapping": (
        EXTENDED.format(
            '<camunda:inputOutput><camunda:inputParameter name="a">${x y}</camunda:inputParameter>'
            "</camunda:inputOutput>"
        ),
        "character 5: expected an operator",
    ),
    "an expression in a timer": (
        CATCH.format("<timerEventDefinition><timeDuration>${</timeDuration></timerEventDefinition>"),
        "expected '}', found the end",
    ),
    # references
    "no message": (
        CATCH.format('<messageEventDefinition messageRef="nobody"/>'),
        "There is no message with the id 'nobody'",
    ),
    "a message that is caught without a name": (
        CATCH.format("<messageEventDefinition/>"),
        "Its message needs a name",
    ),
    "a message that nothing sends": (
        '<intermediateThrowEvent id="x"><messageEventDefinition/></intermediateThrowEvent>',
        "A message that is thrown needs a handler, an expression or a topic",
    ),
    "a start by a compensation": (
        '<startEvent id="x"><compensateEventDefinition/></startEvent>',
        "This is not supported here: a startEvent with compensate.",
    ),
    "no signal": (CATCH.format('<signalEventDefinition signalRef="nobody"/>'), "There is no signal"),
    "a timer without a time": (CATCH.format("<timerEventDefinition/>"), "A timer needs a date"),
    "a timer with two times": (
        CATCH.format("<timerEventDefinition><timeDate>a</timeDate><timeCycle>b</timeCycle></timerEventDefinition>"),
        "either a date, a duration or a cycle",
    ),
    "an end date": (
        CATCH.format('<timerEventDefinition><timeCycle flowable:endDate="x">R/PT1H</timeCycle></timerEventDefinition>'),
        "write the end into the cycle",
    ),
}
#: What the flows around the element cannot lead to, or leave.
MISPLACED = (
    "cancel event",
    "several definitions",
    "event gateway starts",
    "parallel event gateway",
    "a start by a compensation",
)
ALL = 'xmlns:flowable="http://flowable.org/bpmn" xmlns:activiti="http://activiti.org/bpmn" id="file"'


@pytest.mark.parametrize("name", CASES)
def test_refused(name):
    element, reason = CASES[name]
    found = problems(process(around(element)).replace(b'id="file"', ALL.encode()))
    assert any(reason in message for id, message in found if id == "x"), found
    if name not in MISPLACED:
        assert {id for id, _ in found} <= {"x", "y"}, "one mistake makes no problems elsewhere"


MESSAGE = '<message id="m" name="paid"/>'
LATER = "<timerEventDefinition><timeDuration>PT1H</timeDuration></timerEventDefinition>"
WAIT = f'<intermediateCatchEvent id="{{}}">{LATER}</intermediateCatchEvent>'


def flow(source, target, condition=""):
    inside = f"<conditionExpression>{condition}</conditionExpression>" if condition else ""
    return f'<sequenceFlow id="{source}-{target}" sourceRef="{source}" targetRef="{target}">{inside}</sequenceFlow>'


#: What flows make of an element: the elements after the start event, and the only problem.
FLOWS = {
    "a receive task behind an event-based gateway": (
        '<eventBasedGateway id="g"/><receiveTask id="r" messageRef="m"/>'
        + WAIT.format("t")
        + flow("s", "g")
        + flow("g", "r")
        + flow("g", "t")
        + flow("r", "e")
        + flow("t", "e"),
        "g-r",
        "After an event-based gateway comes an intermediate event that waits for a timer, a message or a signal, and "
        "to which no other flow leads; use one in place of the receive task.",
    ),
    "a condition behind a start event": (
        '<task id="x"/>' + flow("s", "x", "${a}") + flow("x", "e"),
        "s-x",
        "A flow out of the startEvent 's' cannot have a condition.",
    ),
    "a condition behind a catching event": (
        WAIT.format("x") + flow("s", "x") + flow("x", "e", "${a}"),
        "x-e",
        "A flow out of the intermediateCatchEvent 'x' cannot have a condition.",
    ),
    "a condition behind a boundary event": (
        f'<task id="x"/><boundaryEvent id="b" attachedToRef="x">{LATER}</boundaryEvent>'
        + flow("s", "x")
        + flow("x", "e")
        + flow("b", "e", "${a}"),
        "b-e",
        "A flow out of the boundaryEvent 'b' cannot have a condition.",
    ),
    "a condition behind a parallel gateway": (
        '<parallelGateway id="x"/><task id="y"/>'
        + flow("s", "x")
        + flow("x", "y")
        + flow("y", "e")
        + flow("x", "e", "${a}"),
        "x-e",
        "A flow out of the parallelGateway 'x' cannot have a condition.",
    ),
    "an element that no flow leads to": (
        '<task id="x"/><task id="y"/>' + flow("s", "x") + flow("x", "e") + flow("y", "e"),
        "y",
        "No flow leads to it.",
    ),
}


@pytest.mark.parametrize("name", FLOWS)
def test_refused_because_of_flows(name):
    content, element, message = FLOWS[name]
    data = process(f'<startEvent id="s"/>{content}<endEvent id="e"/>', top=MESSAGE)
    assert problems(data) == [(element, message)]


ZEEBE = {
    "execution listeners": (
        "<zeebe:executionListeners><zeebe:executionListener/></zeebe:executionListeners>",
        "job workers as listeners",
    ),
    "task listeners": ("<zeebe:taskListeners/>", "job workers as listeners"),
    "a decision": ('<zeebe:calledDecision decisionId="d"/>', "decisions (DMN) are not supported"),
    "an unknown element": ("<zeebe:wobble/>", "The element zeebe:wobble is not supported here"),
    "FEEL": (
        '<zeebe:ioMapping><zeebe:input source="=1 +" target="a"/></zeebe:ioMapping>',
        "expected a value, found the end",
    ),
    "no target": ('<zeebe:ioMapping><zeebe:input source="=1"/></zeebe:ioMapping>', "The zeebe:input needs a target"),
    "retries": ('<zeebe:taskDefinition type="t" retries="many"/>', "The retries are 'many'"),
    "a function": (
        '<zeebe:ioMapping><zeebe:input source="=function(x) x" target="a"/></zeebe:ioMapping>',
        "does not execute functions",
    ),
}


@pytest.mark.parametrize("name", ZEEBE)
def test_refused_in_zeebe(name):
    extension, reason = ZEEBE[name]
    task = f'<task id="x"><extensionElements>{extension}</extensionElements></task>'
    found = problems(process(around(task), "zeebe"))
    assert {id for id, _ in found} == {"x"}
    assert any(reason in message for _, message in found)


@pytest.mark.parametrize(
    ("content", "element", "reason"),
    [
        (
            '<import importType="x" location="http://127.0.0.1:9/x"/>',
            "import",
            "imports of other files are not supported",
        ),
        ('<interface id="i" name="n"/>', "i", "web services are not supported"),
        ('<globalTask id="g"/>', "g", "global tasks are not supported"),
        ('<signal id="g" name="n" camunda:scope="processInstance"/>', "g", "its scope can only be global"),
        ('<wobble id="w"/>', "w", "The element wobble is not supported here"),
        ('<process id="p"><startEvent id="z"/></process>', "p", "Another process of the file has this id"),
        ('<message id="m" name="${1 +}"/>', "m", None),
    ],
)
def test_the_top_of_a_file(content, element, reason):
    found = problems(definitions(content + '<process id="p" isExecutable="true"><startEvent id="s"/></process>'))
    assert found == [] if reason is None else any(id == element and reason in message for id, message in found)


def test_a_listener_of_a_compensation_event():
    listener = '<extensionElements><camunda:executionListener event="start" class="A"/></extensionElements>'
    content = around('<task id="x"/>') + (
        f'<boundaryEvent id="b" attachedToRef="x">{listener}<compensateEventDefinition/></boundaryEvent>'
        '<task id="undo" isForCompensation="true"/><association id="a" sourceRef="b" targetRef="undo"/>'
    )
    told = "A listener of a compensation event is never called; the activity that compensates has listeners."
    assert problems(process(content)) == [("b", told)]


def test_all_problems_of_a_file_in_the_order_of_lines():
    content = around('<task id="x" camunda:wobble="1"/>', leaves=False) + (
        '\n<complexGateway id="c"/>\n<scriptTask id="g" scriptFormat="groovy"><script>1</script></scriptTask>'
        '\n<userTask id="u" camunda:assignee="${"/>\n<sequenceFlow id="f" sourceRef="x" targetRef="nowhere"/>'
    )
    with pytest.raises(InvalidProcess) as caught:
        read(process(content))
    found = [(problem.element, problem.line) for problem in caught.value.problems]
    assert found == [("x", 3), ("c", 4), ("g", 5), ("u", 6), ("f", 7)]
    assert str(caught.value).splitlines()[1].startswith("line 4: c: The element complexGateway is not supported")


def test_an_element_without_an_id():
    assert ("p", "The task needs an id.") in problems(process(around('<task id="x"/>') + "<task/>"))


def test_two_elements_with_one_id():
    assert ("x", "2 elements have this id.") in problems(process(around('<task id="x"/><task id="x"/>')))


def test_names_of_the_model_are_not_executed_as_code():
    """Handlers are names; nothing of the file is imported or evaluated while it is read."""
    data = process(around('<serviceTask id="x" camunda:class="os.system"/>'))
    (found,) = read(data).processes
    assert found.node("x").work.handler == "os.system"
