"""Tasks, call activities and sub-processes, in each dialect."""

import pytest

from jobexec.processes.definition import Binding, Call, Expression, Form, Kind, Language, Mapping, Mode, Trigger, Work
from tests.processes.support.bpmn import activity, around, problems, process, read_node, read_process

VENDORS = ["camunda", "flowable", "activiti"]


def juel(text):
    return Expression(text)


def feel(text):
    return Expression(text, Language.FEEL)


@pytest.mark.parametrize(
    "kind",
    ["task", "manualTask", "receiveTask", "userTask"],
)
def test_simple_tasks(kind):
    node = read_node(f'<{kind} id="x" name="A task"><documentation>What <b>it</b> does</documentation></{kind}>')
    assert (node.kind, node.name, node.documentation) == (Kind(kind), "A task", "What it does")
    assert node.line == 3


@pytest.mark.parametrize("vendor", VENDORS)
@pytest.mark.parametrize("kind", ["serviceTask", "sendTask", "businessRuleTask"])
@pytest.mark.parametrize(
    ("attributes", "expected"),
    [
        ('V:delegateExpression="${ship}"', Work(handler="ship")),
        ('V:delegateExpression="#{shop.ship}"', Work(handler="shop.ship")),
        ('V:class="org.acme.Ship"', Work(handler="org.acme.Ship")),
        ('V:expression="${a + 1}"', Work(expression=juel("${a + 1}"))),
        ('V:expression="${a}" V:resultVariable="r"', Work(expression=juel("${a}"), result_variable="r")),
        ('V:class="A" V:resultVariableName="r"', Work(handler="A", result_variable="r")),
        ('V:class="A" jobexec:transaction="outside"', Work(handler="A", mode=Mode.OUTSIDE)),
        ('V:class="A" jobexec:transaction="step"', Work(handler="A")),
        ('V:type="external" V:topic="ship"', Work(mode=Mode.EXTERNAL, topic="ship")),
        ('V:type="external-worker" V:topic="${t}"', Work(mode=Mode.EXTERNAL, topic=juel("${t}"))),
    ],
)
def test_work_of_vendors(vendor, kind, attributes, expected):
    assert activity(f"{kind} {attributes.replace('V:', vendor + ':')}", vendor).work == expected


def test_work_of_zeebe():
    extensions = (
        '<zeebe:taskDefinition type="ship" retries="5"/><zeebe:taskHeaders><zeebe:header key="a" value="1"/>'
        "</zeebe:taskHeaders>"
    )
    node = activity("serviceTask", "zeebe", extensions=extensions)
    assert node.work == Work(mode=Mode.EXTERNAL, topic="ship", headers={"a": "1"})
    assert node.jobs.retries == 5
    node = activity("serviceTask", "zeebe", extensions='<zeebe:taskDefinition type="=kind" retries="=n"/>')
    assert (node.work.topic, node.jobs.retries) == (feel("=kind"), feel("=n"))


def test_scripts():
    node = activity('scriptTask scriptFormat="juel" camunda:resultVariable="r"', inside="<script>${a + 1}</script>")
    assert node.work == Work(expression=juel("${a + 1}"), result_variable="r")
    script = '<zeebe:script expression="=a + 1" resultVariable="r"/>'
    node = activity("scriptTask", "zeebe", extensions=script)
    assert node.work == Work(expression=feel("=a + 1"), result_variable="r")
    node = activity("scriptTask", "zeebe", extensions=script.replace("=a", "a"))
    assert node.work.expression == feel("=a + 1")
    node = activity("scriptTask", "zeebe", extensions='<zeebe:taskDefinition type="py"/>')
    assert node.work == Work(mode=Mode.EXTERNAL, topic="py")
    assert activity('scriptTask camunda:class="A"').work == Work(handler="A")


def test_fields():
    fields = (
        '<camunda:field name="a" stringValue="1"/><camunda:field name="b" expression="${x}"/>'
        '<camunda:field name="c"><camunda:string>t</camunda:string></camunda:field>'
        '<camunda:field name="d"><camunda:expression>${y}</camunda:expression></camunda:field>'
    )
    work = activity('serviceTask camunda:class="A"', extensions=fields).work
    assert work.arguments == {"a": "1", "b": juel("${x}"), "c": "t", "d": juel("${y}")}


def test_properties_of_an_external_task_are_its_headers():
    extensions = '<camunda:properties><camunda:property name="a" value="1"/></camunda:properties>'
    node = activity('serviceTask camunda:type="external" camunda:topic="t"', extensions=extensions)
    assert node.work.headers == node.properties == {"a": "1"}


def test_headers_of_a_user_task_are_its_properties():
    extensions = (
        '<zeebe:taskHeaders><zeebe:header key="a" value="1"/><zeebe:header key="b" value="2"/></zeebe:taskHeaders>'
        '<zeebe:properties><zeebe:property name="b" value="3"/></zeebe:properties><zeebe:userTask/>'
    )
    assert activity("userTask", "zeebe", extensions=extensions).properties == {"a": "1", "b": "3"}


@pytest.mark.parametrize("vendor", VENDORS)
def test_user_task(vendor):
    attributes = (
        'V:assignee="${owner}" V:candidateUsers="a, b" V:candidateGroups="sales" V:dueDate="P3D" '
        'V:followUpDate="${f}" V:priority="50" V:formKey="order/form"'
    ).replace("V:", f"{vendor}:")
    assert activity(f"userTask {attributes}", vendor).form == Form(
        assignee=juel("${owner}"),
        candidate_users="a, b",
        candidate_groups="sales",
        due_date="P3D",
        follow_up_date=juel("${f}"),
        priority="50",
        form_key="order/form",
    )


def test_the_name_of_a_user_task():
    """Camunda 7 and Flowable evaluate it; in files of Camunda 8 it is text."""
    node = activity('userTask name="Approve ${order}"')
    assert (node.name, node.form) == ("Approve ${order}", Form(name=juel("Approve ${order}")))
    for text, dialect in (("Approve", "camunda"), ("=order", "zeebe"), ("Approve ${order}", "zeebe")):
        node = activity(f'userTask name="{text}"', dialect)
        assert (node.name, node.form) == (text, Form())
    assert activity('task name="Pay ${order}"').name == "Pay ${order}"


def test_user_task_of_zeebe():
    extensions = (
        '<zeebe:userTask/><zeebe:assignmentDefinition assignee="=owner" candidateGroups="sales"/>'
        '<zeebe:formDefinition formId="order"/><zeebe:taskSchedule dueDate="=due" followUpDate="2026-01-01T00:00:00Z"/>'
        '<zeebe:priorityDefinition priority="70"/>'
    )
    node = activity("userTask", "zeebe", extensions=extensions)
    assert node.form == Form(
        assignee=feel("=owner"),
        candidate_groups="sales",
        form_key="order",
        due_date=feel("=due"),
        follow_up_date="2026-01-01T00:00:00Z",
        priority="70",
    )
    assert node.jobs.priority is None


def test_people_of_bpmn_itself():
    def owner(name, text):
        expression = f"<formalExpression>{text}</formalExpression>"
        return f"<{name}><resourceAssignmentExpression>{expression}</resourceAssignmentExpression></{name}>"

    inside = owner("humanPerformer", "ada") + owner("potentialOwner", "user(bob), group(sales), managers")
    form = activity("userTask", inside=inside).form
    assert (form.assignee, form.candidate_users, form.candidate_groups) == ("ada", "bob", "sales,managers")


def test_form_fields():
    extensions = (
        '<camunda:formData><camunda:formField id="size" label="Size" type="enum" defaultValue="m">'
        '<camunda:properties><camunda:property id="w" value="2"/></camunda:properties>'
        '<camunda:validation><camunda:constraint name="required"/><camunda:constraint name="max" config="5"/>'
        '</camunda:validation><camunda:value id="m" name="Medium"/></camunda:formField></camunda:formData>'
    )
    expected = {
        "id": "size",
        "label": "Size",
        "type": "enum",
        "default": "m",
        "properties": {"w": "2"},
        "constraints": {"required": None, "max": "5"},
        "values": {"m": "Medium"},
    }
    assert activity("userTask", extensions=extensions).form.fields == [expected]
    property_ = '<flowable:formProperty id="n" name="Number" type="long" required="true" writable="false"/>'
    found = activity("userTask", "flowable", extensions=property_).form.fields
    assert found == [{"id": "n", "label": "Number", "type": "long", "required": True, "writable": False}]


def test_form_of_a_start_event():
    node = read_process('<startEvent id="s" camunda:formKey="f" camunda:initiator="who"/>').node("s")
    assert (node.form, node.initiator) == (Form(form_key="f"), "who")
    assert read_process('<startEvent id="s"/>').node("s").form is None


def test_receive_task():
    node = read_node('<receiveTask id="x" messageRef="m"/>', top='<message id="m" name="paid-${id}"/>')
    assert (node.event.trigger, node.event.name) == (Trigger.MESSAGE, juel("paid-${id}"))
    subscription = '<zeebe:subscription correlationKey="=id"/>'
    top = f'<message id="m" name="paid"><extensionElements>{subscription}</extensionElements></message>'
    node = read_node('<receiveTask id="x" messageRef="m"/>', "zeebe", top)
    assert (node.event.name, node.event.key) == ("paid", feel("=id"))


@pytest.mark.parametrize(
    ("attributes", "binding", "version"),
    [
        ("", Binding.LATEST, None),
        ('camunda:calledElementBinding="deployment"', Binding.DEPLOYMENT, None),
        ('camunda:calledElementBinding="version" camunda:calledElementVersion="3"', Binding.VERSION, "3"),
        ('camunda:calledElementBinding="version" camunda:calledElementVersion="${v}"', Binding.VERSION, juel("${v}")),
        ('camunda:calledElementBinding="versionTag" camunda:calledElementVersionTag="t"', Binding.VERSION_TAG, "t"),
    ],
)
def test_bindings(attributes, binding, version):
    call = activity(f'callActivity calledElement="child" {attributes}').call
    assert call == Call("child", binding, version)


def test_mappings_of_a_call():
    extensions = (
        '<camunda:in businessKey="#{execution.processBusinessKey}"/><camunda:in source="a" target="b"/>'
        '<camunda:in sourceExpression="${a + 1}" target="c" local="true"/><camunda:in variables="all"/>'
        '<camunda:out variables="all" local="true"/><camunda:out source="r" target="s"/>'
    )
    call = activity('callActivity calledElement="${kind}"', extensions=extensions).call
    assert call.key == juel("${kind}")
    assert call.business_key == juel("#{execution.processBusinessKey}")
    assert call.inputs == (
        Mapping("b", juel("${execution.getVariable('a')}")),
        Mapping("c", juel("${a + 1}"), local=True),
        Mapping(None),
    )
    assert call.outputs == (Mapping(None, local=True), Mapping("s", juel("${execution.getVariable('r')}")))


def test_call_of_flowable():
    attributes = 'flowable:inheritVariables="true" flowable:sameDeployment="true" flowable:inheritBusinessKey="true"'
    call = activity(
        f'callActivity calledElement="child" flowable:calledElementType="key" {attributes}', "flowable"
    ).call
    assert call == Call("child", Binding.DEPLOYMENT, None, juel("${execution.businessKey}"), (Mapping(None),))


def test_call_of_zeebe():
    both = activity("callActivity", "zeebe", extensions='<zeebe:calledElement processId="child"/>').call
    assert both == Call("child", inputs=(Mapping(None),), outputs=(Mapping(None, zeebe=True),))
    extensions = (
        '<zeebe:calledElement processId="=kind" propagateAllChildVariables="false" propagateAllParentVariables="false" '
        'bindingType="versionTag" versionTag="v1"/>'
    )
    call = activity("callActivity", "zeebe", extensions=extensions).call
    assert call == Call(feel("=kind"), Binding.VERSION_TAG, "v1", inputs=(Mapping(None, local=True),))


def test_outputs_of_a_call_of_zeebe_see_the_called_process():
    extensions = (
        '<zeebe:calledElement processId="child"/>'
        '<zeebe:ioMapping><zeebe:input source="=a" target="b"/><zeebe:output source="=r" target="s"/></zeebe:ioMapping>'
    )
    node = activity("callActivity", "zeebe", extensions=extensions)
    assert node.inputs == (Mapping("b", feel("=a"), zeebe=True),)
    assert (node.outputs, node.call.outputs) == ((Mapping("s", feel("=r"), zeebe=True),), (Mapping(None),))


def test_sub_processes_are_nested():
    inner = '<subProcess id="y">{}<startEvent id="s3"/></subProcess>'
    content = around(
        '<subProcess id="x"><startEvent id="s2"/><sequenceFlow id="f" sourceRef="s2" targetRef="y"/>'
        + inner.format(
            '<subProcess id="z" triggeredByEvent="true"><startEvent id="s4" isInterrupting="false">'
            "<timerEventDefinition><timeDuration>PT1S</timeDuration></timerEventDefinition></startEvent></subProcess>"
        )
        + "</subProcess>"
    )
    found = read_process(content)
    parents = {node.id: node.parent for node in found.nodes}
    assert parents == {"s": None, "x": None, "s2": "x", "y": "x", "z": "y", "s4": "z", "s3": "y", "e": None}
    assert (found.node("z").by_event, found.node("s4").interrupting) == (True, False)


def test_compensation():
    content = around(
        '<serviceTask id="x" camunda:class="Book"/>'
        '<boundaryEvent id="b" attachedToRef="x"><compensateEventDefinition/></boundaryEvent>'
        '<serviceTask id="undo" isForCompensation="true" camunda:class="Cancel"/>'
        '<association id="a" associationDirection="One" sourceRef="b" targetRef="undo"/>'
    )
    found = read_process(content)
    assert found.find("b") is None
    assert found.node("x").compensated_by == "undo"
    assert found.node("undo").for_compensation


def test_what_only_draws_is_accepted():
    content = around(
        '<task id="x" implementation="##unspecified"><incoming>in</incoming><outgoing>out</outgoing>'
        '<property id="pr" name="__targetRef_placeholder"/><dataInputAssociation id="d"><sourceRef>o</sourceRef>'
        "</dataInputAssociation><ioSpecification><inputSet/><outputSet/></ioSpecification></task>"
        '<dataObject id="do"/><dataObjectReference id="o" dataObjectRef="do"/><dataStoreReference id="ds"/>'
        '<textAnnotation id="t"><text>note</text></textAnnotation><group id="g"/>'
        '<association id="a" sourceRef="t" targetRef="x"/>'
    )
    data = process(content).replace(b"<process", b'<category id="c"/><itemDefinition id="i"/><process', 1)
    assert problems(data) == []
