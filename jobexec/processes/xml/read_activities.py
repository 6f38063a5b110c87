"""Tasks, sub-processes and call activities."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

from jobexec.processes.definition import Binding, Call, Form, Mapping, Value

from .element import Element
from .read_events import message_event
from .read_extensions import business_key, call_mappings
from .read_work import read_script, read_work
from .reading import Reading

#: Elements that are refused by name, with the reason.
REFUSED = {
    "transaction": "transactions are not supported",
    "adHocSubProcess": "ad-hoc sub-processes are not supported",
    "complexGateway": "complex gateways are not supported; use exclusive, parallel and inclusive ones",
    "choreographyTask": "choreographies are not supported",
    "subChoreography": "choreographies are not supported",
    "callChoreography": "choreographies are not supported",
    "implicitThrowEvent": "implicit throw events are not supported",
    "event": "an event needs one of the kinds of BPMN",
}
_REFUSED_FORMS = {
    "formRef": "forms of Camunda are not rendered; use a formKey and a view of the project",
    "formRefBinding": "forms of Camunda are not rendered",
    "formRefVersion": "forms of Camunda are not rendered",
    "formHandlerClass": "a form is handled by the project's own view",
    "businessCalendarName": "calendars are not supported",
}
_REFUSED_CALLS = {
    "caseRef": "cases (CMMN) are not supported",
    "calledElementTenantId": "the called process has the tenant of the calling one",
    "variableMappingClass": "declare the mappings in the model",
    "variableMappingDelegateExpression": "declare the mappings in the model",
    "processInstanceName": "instances have a business key and no name",
    "completeAsync": "use asyncAfter",
    "fallbackToDefaultTenant": "the called process has the tenant of the calling one",
    "processInstanceIdVariableName": "the instance page shows which instance was called",
    "useLocalScopeForOutParameters": "declare an output mapping instead",
}
_USERS_AND_GROUPS = re.compile(r"\s*(user|group)\(([^)]*)\)\s*|\s*([^,()]+?)\s*(?:,|$)")


def task_fields(element: Element, reading: Reading) -> dict[str, Any]:
    """The fields of a node that tasks of this kind have."""
    if element.child("operationRef") is not None or element.get("operationRef"):
        element.problem("Operations of web services are not supported; use a registered handler.")
    if element.name == "scriptTask":
        return {"work": read_script(element, reading)}
    if element.name in ("serviceTask", "sendTask", "businessRuleTask"):
        element.get("messageRef")  # of a send task: says what its handler sends
        return {"work": read_work(element, reading)}
    if element.name == "receiveTask":
        return _receive(element, reading)
    return {"form": read_form(element, reading)} if element.name == "userTask" else {}


def _receive(element: Element, reading: Reading) -> dict[str, Any]:
    if element.flag("instantiate", False):
        element.problem("A receive task does not start a process; use a message start event.")
    reference = element.get("messageRef")
    return {"event": message_event(element, reading, reference)} if reference else {}


def read_form(element: Element, reading: Reading) -> Form | None:
    """The form of a user task or a start event, and the people of a task; None if there is nothing of it."""
    element.refuse_attributes(_REFUSED_FORMS)
    form = Form(form_key=_form_key(element, reading), fields=_form_fields(element, reading))
    if element.name == "startEvent":
        return form if form != Form() else None
    element.zeebe("userTask")  # tasks of job workers and of the engine are the same here
    return replace(
        form,
        name=reading.juel(element, element.get("name")),
        **_people(element, reading),
        **_schedule(element, reading),
    )


def _people(element: Element, reading: Reading) -> dict[str, Value]:
    zeebe = element.zeebe("assignmentDefinition")

    def named(name: str) -> Value:
        return reading.value(element, element.vendor(name) or (zeebe.get(name) if zeebe is not None else None))

    found = {
        "assignee": named("assignee"),
        "candidate_users": named("candidateUsers"),
        "candidate_groups": named("candidateGroups"),
    }
    for name, value in _standard_people(element, reading).items():
        found[name] = found[name] if found[name] is not None else value
    return found


def _standard_people(element: Element, reading: Reading) -> dict[str, Value]:
    """``humanPerformer`` and ``potentialOwner`` of BPMN itself: ``user(kermit), group(sales), managers``."""
    performers = [_resource(each) for each in element.children("humanPerformer", "performer")]
    users: list[str] = []
    groups: list[str] = []
    for owner in element.children("potentialOwner"):
        for kind, inside, bare in _USERS_AND_GROUPS.findall(_resource(owner)):
            (users if kind == "user" else groups).append((inside or bare).strip())
    return {
        "assignee": reading.value(element, performers[0] if performers else None),
        "candidate_users": reading.value(element, ",".join(users)),
        "candidate_groups": reading.value(element, ",".join(groups)),
    }


def _resource(element: Element) -> str:
    assignment = element.child("resourceAssignmentExpression")
    expression = None if assignment is None else assignment.child("formalExpression")
    if expression is None:
        element.problem(f"The element {element.shown} needs a resourceAssignmentExpression.")
    return "" if expression is None else expression.text


def _schedule(element: Element, reading: Reading) -> dict[str, Value]:
    schedule, priority = element.zeebe("taskSchedule"), element.zeebe("priorityDefinition")

    def named(name: str) -> Value:
        return reading.value(element, element.vendor(name) or (schedule.get(name) if schedule is not None else None))

    return {
        "due_date": named("dueDate"),
        "follow_up_date": named("followUpDate"),
        "priority": reading.value(
            element, element.vendor("priority") or (priority.get("priority") if priority is not None else None)
        ),
    }


def _form_key(element: Element, reading: Reading) -> Value:
    zeebe = element.zeebe("formDefinition")
    if zeebe is None:
        return reading.value(element, element.vendor("formKey"))
    if zeebe.get("bindingType") not in (None, "latest") or zeebe.get("versionTag"):
        zeebe.problem("A form has no versions: it is a view of the project.")
    return reading.value(zeebe, zeebe.get("formKey") or zeebe.get("formId") or zeebe.get("externalReference"))


def _form_fields(element: Element, reading: Reading) -> Value:
    data = element.extension("formData")
    if data is not None:
        key = data.get("businessKey") if element.name == "startEvent" else None
        found = [_form_field(each, reading) for each in data.vendor_children("formField")]
        return [{**each, "business_key": True} if key and each.get("id") == key else each for each in found]
    return [_form_property(each, reading) for each in element.extensions("formProperty")] or None


def _form_field(element: Element, reading: Reading) -> dict[str, Value]:
    validation, properties = element.vendor_child("validation"), element.vendor_child("properties")
    constraints = [] if validation is None else validation.vendor_children("constraint")
    extra = [] if properties is None else properties.vendor_children("property")
    found: dict[str, Value] = {
        "id": element.get("id"),
        "label": element.get("label"),
        "type": element.get("type"),
        "default": reading.value(element, element.get("defaultValue")),
        "pattern": element.get("datePattern"),
        "values": {each.get("id") or "": each.get("name") for each in element.vendor_children("value")},
        "constraints": {each.get("name") or "": each.get("config") for each in constraints},
        "properties": {each.get("id") or "": each.get("value") for each in extra},
    }
    return {name: value for name, value in found.items() if value not in (None, {})}


def _form_property(element: Element, reading: Reading) -> dict[str, Value]:
    """Activiti's and Flowable's fields."""
    for name in ("variable", "expression"):
        if element.get(name):
            element.problem(f"The {name} of a form property is not supported: a field is a variable by its id.")
    found: dict[str, Value] = {
        "id": element.get("id"),
        "label": element.get("name"),
        "type": element.get("type"),
        "default": reading.value(element, element.get("default")),
        "pattern": element.get("datePattern"),
        "required": element.flag("required", False) or None,
        "readable": None if element.flag("readable", True) else False,
        "writable": None if element.flag("writable", True) else False,
        "values": {each.get("id") or "": each.get("name") for each in element.vendor_children("value")},
    }
    return {name: value for name, value in found.items() if value not in (None, {})}


def read_call(element: Element, reading: Reading) -> Call:
    element.refuse_attributes(_REFUSED_CALLS)
    zeebe = element.zeebe("calledElement")
    return _vendor_call(element, reading) if zeebe is None else _zeebe_call(zeebe, reading)


def _vendor_call(element: Element, reading: Reading) -> Call:
    if element.vendor("calledElementType") not in (None, "key"):
        element.problem("A call activity names the process by its key, not by its id.")
    binding, version = _binding(element, element.vendor("calledElementBinding"))
    inputs = call_mappings(element, reading, "in")
    if element.vendor_flag("inheritVariables", False):
        inputs = (Mapping(None), *inputs)
    key = business_key(element, reading) or reading.value(element, element.vendor("businessKey"))
    if element.vendor_flag("inheritBusinessKey", False):
        key = reading.value(element, "${execution.businessKey}")
    return Call(
        key=reading.value(element, element.get("calledElement")),
        binding=binding,
        version=reading.value(element, version),
        business_key=key,
        inputs=inputs,
        outputs=call_mappings(element, reading, "out"),
    )


def _binding(element: Element, text: str | None) -> tuple[Binding, str | None]:
    if element.vendor_flag("sameDeployment", False):
        text = text or "deployment"
    version, tag = element.vendor("calledElementVersion"), element.vendor("calledElementVersionTag")
    if text is not None and text not in list(Binding):
        element.problem(f"The binding {text!r} is unknown; expected one of {', '.join(Binding)}.")
        return Binding.LATEST, None
    binding = Binding(text or "latest")
    return binding, tag if binding is Binding.VERSION_TAG else version


def _zeebe_call(element: Element, reading: Reading) -> Call:
    """Without attributes, all variables go both ways; without those of the parent, the inputs of the call go in."""
    binding = element.get("bindingType") or "latest"
    if binding not in ("latest", "deployment", "versionTag"):
        element.problem(f"The bindingType {binding!r} is unknown; expected latest, deployment or versionTag.")
        binding = "latest"
    tag = element.get("versionTag")
    return Call(
        key=reading.value(element, element.get("processId")),
        binding=Binding(binding),
        version=tag if binding == "versionTag" else None,
        inputs=(Mapping(None, local=not element.flag("propagateAllParentVariables", True)),),
        outputs=(Mapping(None, zeebe=True),) if element.flag("propagateAllChildVariables", True) else (),
    )
