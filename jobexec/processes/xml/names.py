"""Namespaces of BPMN files, and what in them only draws or documents."""

from __future__ import annotations

BPMN = "http://www.omg.org/spec/BPMN/20100524/MODEL"
BPMNDI = "http://www.omg.org/spec/BPMN/20100524/DI"
DC = "http://www.omg.org/spec/DD/20100524/DC"
DI = "http://www.omg.org/spec/DD/20100524/DI"
XSI = "http://www.w3.org/2001/XMLSchema-instance"

CAMUNDA = "http://camunda.org/schema/1.0/bpmn"
FOX = "http://www.camunda.com/fox"
FLOWABLE = "http://flowable.org/bpmn"
ACTIVITI = "http://activiti.org/bpmn"
ZEEBE = "http://camunda.org/schema/zeebe/1.0"
MODELER = "http://camunda.org/schema/modeler/1.0"
#: Of jobexec's own attributes.
JOBEXEC = "urn:jobexec:bpmn"

#: The engines that descend from Activiti. They agree on most names, so each name is accepted in each namespace.
VENDORS = (CAMUNDA, FLOWABLE, ACTIVITI, FOX)

#: For messages.
PREFIXES = {
    BPMN: "",
    BPMNDI: "bpmndi:",
    DC: "dc:",
    DI: "di:",
    XSI: "xsi:",
    CAMUNDA: "camunda:",
    FOX: "fox:",
    FLOWABLE: "flowable:",
    ACTIVITI: "activiti:",
    ZEEBE: "zeebe:",
    MODELER: "modeler:",
    JOBEXEC: "jobexec:",
}

#: Attributes and elements of these namespaces are for editors: colours, positions, templates' versions.
DRAWING = frozenset(
    {
        MODELER,
        XSI,
        "http://bpmn.io/schema/bpmn/biocolor/1.0",
        "http://www.omg.org/spec/BPMN/non-normative/color/1.0",
        "http://flowable.org/design",
        "http://www.signavio.com",
        "http://www.w3.org/XML/1998/namespace",
    }
)

#: Attributes of BPMN that say nothing about the execution. ``gatewayDirection`` repeats what the flows say.
DRAWN_ATTRIBUTES = frozenset(
    {
        *("exporter", "exporterVersion", "targetNamespace", "expressionLanguage", "typeLanguage"),
        *("processType", "isClosed", "gatewayDirection", "isImmediate", "textFormat", "implementation"),
        *("itemSubjectRef", "structureRef", "isCollection", "dataObjectRef", "dataStoreRef", "categoryValueRef"),
        *("isMarkerVisible", "itemRef"),
    }
)
#: Attributes of vendors that concern their editors, or their caches.
DRAWN_VENDOR_ATTRIBUTES = frozenset(
    {
        *("modelerTemplate", "modelerTemplateVersion", "modelerTemplateIcon", "diagramRelationId"),
        *("isEagerExecutionFetch", "formFieldValidation"),
    }
)
#: Elements of BPMN that are drawn, or repeat what other elements say. Nothing inside them is executed.
DRAWN_ELEMENTS = frozenset(
    {
        *("incoming", "outgoing", "textAnnotation", "group", "category", "categoryValue", "auditing", "monitoring"),
        *("dataObjectReference", "dataStoreReference", "dataStore", "itemDefinition", "ioSpecification", "property"),
        *("dataInputAssociation", "dataOutputAssociation", "dataInput", "dataOutput", "inputSet", "outputSet"),
        *("correlationKey", "correlationProperty", "messageFlow", "extension"),
    }
)
#: The same, of vendors, in extensionElements.
DRAWN_EXTENSIONS = frozenset({"modelerTemplate", "modelerTemplateIcon", "editor-resource-id"})


def shown(namespace: str | None, name: str) -> str:
    """A name as in a file: ``camunda:class``."""
    return f"{PREFIXES.get(namespace, f'{{{namespace}}}')}{name}" if namespace else name
