"""What the tests of pages look at."""

from django.contrib.auth.models import User
from django.urls import reverse

from jobexec import job
from jobexec.processes.flows.builder import Flow
from jobexec.processes.handlers.registry import service_task
from tests.support.suite.databases import ROOT

FILE = b"""<?xml version="1.0"?>
<definitions xmlns="http://www.omg.org/spec/BPMN/20100524/MODEL" targetNamespace="tests"
  xmlns:camunda="http://camunda.org/schema/1.0/bpmn">
  <process id="approval" name="Approval" isExecutable="true">
    <startEvent id="s"/><userTask id="approve" name="Approve it" camunda:candidateGroups="managers"/><endEvent id="e"/>
    <boundaryEvent id="late" attachedToRef="approve"><timerEventDefinition><timeDuration>PT1H</timeDuration>
    </timerEventDefinition></boundaryEvent><endEvent id="too_late"/>
    <sequenceFlow id="f1" sourceRef="s" targetRef="approve"/><sequenceFlow id="f2" sourceRef="approve" targetRef="e"/>
    <sequenceFlow id="f3" sourceRef="late" targetRef="too_late"/>
  </process>
</definitions>"""

#: A file with a diagram: an order that waits for its approval, its payment and a call.
DRAWN = (ROOT / "docs/examples/order.bpmn").read_bytes()


@job(name="tests.pages.break")
def breaks():
    raise ValueError("broken")


@job(name="tests.pages.note")
def notes(name):
    return name


@service_task("warehouse.reserve")
def reserve(context):
    raise ValueError("the warehouse does not answer")


@service_task("tests.pages.find")
def find(context):
    raise User.DoesNotExist("User matching query does not exist.")


def shop():
    """A flow with an incident in the middle."""
    flow = Flow("shop", business_key="order-17")
    first = flow.step(notes, "a", name="charge")
    broken = flow.step(breaks, after=first, name="pack")
    billed = flow.step(notes, "b", after=first, when=first.result == "a", name="invoice")
    flow.map(notes, over=["x", "y"], after=first, name="notify")
    flow.step(notes, "c", after=[broken, billed], name="ship")
    flow.step(notes, "d", after=broken.failed, when=first.result == "b", name="apologise")
    return flow


def url(model, row=None):
    name = f"admin:jobexec_processes_{model._meta.model_name}"
    return reverse(f"{name}_change", args=[row.pk]) if row else reverse(f"{name}_changelist")
