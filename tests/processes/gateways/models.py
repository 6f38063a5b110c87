"""Files that clients deploy, and those who run what they make."""

from itertools import pairwise

from jobexec.testing import ManualExecutor

NAMESPACES = (
    'xmlns="http://www.omg.org/spec/BPMN/20100524/MODEL" xmlns:zeebe="http://camunda.org/schema/zeebe/1.0" '
    'xmlns:camunda="http://camunda.org/schema/1.0/bpmn" xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance" '
    'targetNamespace="tests"'
)


def xml(body, key="order", before=""):
    """A file with one process."""
    process = f'<process id="{key}" name="An order" isExecutable="true">{body}</process>'
    return f'<?xml version="1.0"?>\n<definitions {NAMESPACES}>{before}\n{process}</definitions>'.encode()


def chain(*elements, before="", key="order"):
    """A process of these elements, one after the other, between a start and an end."""
    ids = ["s", *(each.partition('id="')[2].partition('"')[0] for each in elements), "e"]
    flows = "".join(
        f'<sequenceFlow id="f{n}" sourceRef="{a}" targetRef="{b}"/>' for n, (a, b) in enumerate(pairwise(ids))
    )
    return xml(f'<startEvent id="s"/>{"".join(elements)}<endEvent id="e"/>{flows}', key, before)


#: An external job, in the words of Camunda 8.
PAY = (
    '<serviceTask id="pay"><extensionElements><zeebe:taskDefinition type="payment"/></extensionElements></serviceTask>'
)
#: A task of a person.
APPROVE = '<userTask id="approve" name="Approve it" camunda:assignee="ann" camunda:candidateGroups="sales"/>'
MESSAGE = '<message id="m" name="paid"/>'
AWAIT = '<receiveTask id="await" messageRef="m"/>'
SIGNAL = '<signal id="sig" name="go"/>'
CATCH = '<intermediateCatchEvent id="catch"><signalEventDefinition signalRef="sig"/></intermediateCatchEvent>'
SCRIPT = (
    '<scriptTask id="sum"><extensionElements><zeebe:script expression="=amount + 1" resultVariable="total"/>'
    "</extensionElements></scriptTask>"
)
BROKEN = chain('<complexGateway id="odd"/>')


def run(alias):
    """Run all jobs that are due."""
    ManualExecutor(alias, reraise=False).run_until_empty()
