"""Flows, gateways, lanes, processes, and the drawing."""

import pytest

from jobexec.processes.definition import Expression, Kind, Language, from_json, to_json
from jobexec.processes.xml import Edge, Participant, Shape
from jobexec.processes.xml.model import Bounds
from tests.processes.support.bpmn import around, definitions, problems, process, read_model, read_node, read_process

BRANCHES = (
    '<startEvent id="s"/><sequenceFlow id="f" sourceRef="s" targetRef="x"/><exclusiveGateway id="x" default="b"/>'
    '<sequenceFlow id="a" name="yes" sourceRef="x" targetRef="e">'
    '<conditionExpression xsi:type="tFormalExpression">CONDITION</conditionExpression></sequenceFlow>'
    '<sequenceFlow id="b" sourceRef="x" targetRef="e"/><endEvent id="e"/>'
)


def test_conditions():
    found = read_process(BRANCHES.replace("CONDITION", " ${amount &gt; 100} "))
    assert found.flow("a").condition == Expression("${amount > 100}")
    assert (found.flow("a").name, found.flow("a").source, found.flow("a").target) == ("yes", "x", "e")
    assert found.node("x").default == "b"
    found = read_process(BRANCHES.replace("CONDITION", "=amount &gt; 100"), "zeebe")
    assert found.flow("a").condition == Expression("=amount > 100", Language.FEEL)
    found = read_process(BRANCHES.replace("CONDITION", "<![CDATA[${amount > 100 && true}]]>"))
    assert found.flow("a").condition == Expression("${amount > 100 && true}")


def test_the_language_of_a_condition():
    for language in ("juel", "http://www.java.com/juel", "feel"):
        text = BRANCHES.replace('"tFormalExpression">C', f'"tFormalExpression" language="{language}">C')
        assert problems(process(text.replace("CONDITION", "${a}"))) == []


def test_gateways():
    for kind in ("parallelGateway", "inclusiveGateway", "exclusiveGateway"):
        node = read_node(f'<{kind} id="x" gatewayDirection="Diverging" camunda:asyncBefore="true"/>')
        assert (node.kind, node.jobs.before) == (Kind(kind), True)
    catch = '<intermediateCatchEvent id="{0}"><timerEventDefinition><timeDuration>PT1S</timeDuration>'
    catch += '</timerEventDefinition></intermediateCatchEvent><sequenceFlow id="i{0}" sourceRef="x" targetRef="{0}"/>'
    catch += '<sequenceFlow id="o{0}" sourceRef="{0}" targetRef="e"/>'
    gateway = '<eventBasedGateway id="x" eventGatewayType="Exclusive" instantiate="false"/>'
    content = around(gateway, leaves=False) + catch.format("a") + catch.format("b") + '<endEvent id="e"/>'
    assert read_process(content).node("x").kind is Kind.EVENT_BASED_GATEWAY


def test_attributes_of_a_process():
    attributes = (
        'name="Order" camunda:versionTag="v1" camunda:historyTimeToLive="P30D" camunda:isStartableInTasklist="false" '
        'camunda:candidateStarterUsers="a, b" camunda:candidateStarterGroups="sales" camunda:jobPriority="5" '
        'processType="None" isClosed="false"'
    )
    found = read_process(
        "<documentation>It &lt;b&gt;sells&lt;/b&gt;</documentation>" + around('<task id="x"/>'), attributes=attributes
    )
    assert (found.key, found.name, found.version_tag, found.history_ttl) == ("p", "Order", "v1", "P30D")
    assert (found.startable, found.starter_users, found.starter_groups) == (False, ("a", "b"), ("sales",))
    assert (found.priority, found.executable, found.documentation) == (5, True, "It <b>sells</b>")


def test_version_tag_of_zeebe():
    extensions = (
        '<extensionElements><zeebe:versionTag value="v2"/><zeebe:properties><zeebe:property name="a" value="1"/>'
    )
    found = read_process(f"{extensions}</zeebe:properties></extensionElements>" + around('<task id="x"/>'), "zeebe")
    assert (found.version_tag, found.properties) == ("v2", {"a": "1"})


def test_lanes():
    lanes = (
        '<laneSet id="ls"><lane id="l1" name="Sales"><flowNodeRef>x</flowNodeRef><childLaneSet><lane id="l2" '
        'name="Boss"><flowNodeRef>e</flowNodeRef></lane></childLaneSet></lane></laneSet>'
    )
    found = read_process(lanes + around('<task id="x"/>'))
    assert {node.id: node.lane for node in found.nodes} == {"s": None, "x": "Sales", "e": "Boss"}


POOLS = """
<collaboration id="c"><participant id="pool1" name="Shop" processRef="p"/><participant id="pool2" name="Customer"/>
 <messageFlow id="mf" sourceRef="pool2" targetRef="pool1"/><textAnnotation id="ta"><text>x</text></textAnnotation>
</collaboration>
<process id="p" isExecutable="true"><startEvent id="s"/></process>
<process id="q" isExecutable="false"><task id="lonely"/><complexGateway id="partner"/>
 <adHocSubProcess id="free"><task id="inside"/></adHocSubProcess><serviceTask id="x" camunda:type="magic" y="z"/>
</process>
"""


def test_several_processes_and_pools():
    model = read_model(POOLS)
    assert [(each.key, each.executable) for each in model.processes] == [("p", True), ("q", False)]
    assert model.participants == (Participant("pool1", "Shop", "p"), Participant("pool2", "Customer", None))


@pytest.mark.parametrize(
    ("dialect", "executable"), [("camunda", False), ("zeebe", False), ("flowable", True), ("activiti", True)]
)
def test_a_process_that_does_not_say_whether_it_is_executable(dialect, executable):
    """In Camunda it is not, so it may be incomplete."""
    shop = '<process id="shop" isExecutable="true"><startEvent id="s"/></process>'
    customer = '<process id="customer"><startEvent id="t"/>{}</process>'
    model = read_model(shop + customer.format(""), dialect)
    assert [(each.key, each.executable) for each in model.processes] == [("shop", True), ("customer", executable)]
    bare = '<sendTask id="x"/><sequenceFlow id="f" sourceRef="t" targetRef="x"/>'
    found = problems(definitions(shop + customer.format(bare), dialect))
    assert {element for element, _ in found} == (set() if not executable else {"x"})


@pytest.mark.parametrize("dialect", ["camunda", "zeebe"])
def test_a_file_without_an_executable_process(dialect):
    unsaid = '<process id="p"><startEvent id="s"/></process>'
    said = '<process id="q" isExecutable="false"><startEvent id="t"/></process>'
    told = 'No process of the file is executable. In files of Camunda, this takes isExecutable="true".'
    assert problems(definitions(unsaid, dialect)) == problems(definitions(unsaid + said, dialect)) == [("p", told)]
    assert problems(definitions(said, dialect)) == []


def test_the_drawing():
    model = read_model(
        '<process id="p" isExecutable="true"><startEvent id="s"/></process>'
        '<bpmndi:BPMNDiagram id="D"><bpmndi:BPMNPlane bpmnElement="p">'
        '<bpmndi:BPMNShape id="S" bpmnElement="s" isExpanded="true" isHorizontal="false">'
        '<dc:Bounds x="10" y="20.5" width="36" height="36"/><bpmndi:BPMNLabel>'
        '<dc:Bounds x="1" y="2" width="3" height="4"/>'
        '</bpmndi:BPMNLabel></bpmndi:BPMNShape><bpmndi:BPMNEdge id="E" bpmnElement="f"><di:waypoint x="1" y="2"/>'
        '<di:waypoint x="-3" y="4"/></bpmndi:BPMNEdge></bpmndi:BPMNPlane><bpmndi:BPMNLabelStyle id="ls"/>'
        "</bpmndi:BPMNDiagram>"
    )
    assert model.shapes == (Shape("s", Bounds(10, 20.5, 36, 36), Bounds(1, 2, 3, 4)),)
    assert model.edges == (Edge("f", ((1, 2), (-3, 4))),)


def test_a_drawing_that_cannot_be_drawn():
    shape = '<bpmndi:BPMNShape id="S" bpmnElement="s"><dc:Bounds x="{}" y="0" width="1" height="1"/></bpmndi:BPMNShape>'
    for number in ("NaN", "inf", "1e300", "ten"):
        diagram = (
            f"<bpmndi:BPMNDiagram><bpmndi:BPMNPlane>{shape.format(number)}</bpmndi:BPMNPlane></bpmndi:BPMNDiagram>"
        )
        data = process(around('<task id="x"/>')).replace(b"</definitions>", f"{diagram}</definitions>".encode())
        ((_, message),) = problems(data)
        assert message.startswith(f"The x is {number!r}")


def test_what_is_read_survives_its_json():
    found = read_process(BRANCHES.replace("CONDITION", "${a}"))
    assert from_json(to_json(found)) == found


def test_flows_need_no_id():
    content = (
        '<startEvent id="s"/><sequenceFlow sourceRef="s" targetRef="e"/><sequenceFlow sourceRef="s" targetRef="e"/>'
    )
    found = read_process(f'{content}<sequenceFlow id="s-to-e" sourceRef="s" targetRef="e"/><endEvent id="e"/>')
    assert [flow.id for flow in found.flows] == ["s-to-e-2", "s-to-e-3", "s-to-e"]


def test_marks_of_juel_are_plain_text_in_zeebe():
    inputs = '<zeebe:ioMapping><zeebe:input source="costs ${5}" target="a"/></zeebe:ioMapping>'
    task = f'<task id="x"><extensionElements>{inputs}</extensionElements></task>'
    assert read_node(task, "zeebe").inputs[0].source == "costs ${5}"
