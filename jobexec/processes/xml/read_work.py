"""Read the work of a task: a handler, an expression, or the job of an external worker."""

from __future__ import annotations

from jobexec.processes.definition import Expression, Mode, Value, Work

from .element import Element
from .read_extensions import headers, properties
from .reading import Reading

_EXTERNAL = ("external", "external-worker")
#: Types of Flowable's and Camunda's own tasks.
_REFUSED_TYPES = {
    "shell": "models cannot start programs",
    "mail": "send mail in a registered handler",
    "http": "call the service in a registered handler",
    "camel": "Camel is not supported",
    "mule": "Mule is not supported",
    "dmn": "decisions (DMN) are not supported; use a registered handler",
    "case": "cases (CMMN) are not supported",
    "send-event": "events of a registry are not sent; use a registered handler",
}
_REFUSED_ATTRIBUTES = {
    "decisionRef": "decisions (DMN) are not supported; use a registered handler",
    "decisionRefBinding": "decisions (DMN) are not supported",
    "decisionRefVersion": "decisions (DMN) are not supported",
    "mapDecisionResult": "decisions (DMN) are not supported",
    "resource": "scripts in files are not supported",
    "useLocalScopeForResultVariable": "declare an output mapping instead",
    "storeResultVariableAsTransient": "variables are stored",
    "ruleVariablesInput": "rules (Drools) are not supported; use a registered handler",
    "rules": "rules (Drools) are not supported; use a registered handler",
}
_LANGUAGES = ("juel", "feel")


def read_work(element: Element, reading: Reading) -> Work | None:
    """None if the element names neither a handler, an expression nor a topic."""
    element.refuse_attributes(_REFUSED_ATTRIBUTES)
    kind, topic = element.vendor("type"), element.vendor("topic")
    if kind is not None and kind not in _EXTERNAL:
        element.problem(f"A task of the type {kind!r} is not supported: {_REFUSED_TYPES.get(kind, 'it is unknown')}.")
        return Work(handler=kind)  # so that nothing else is missed
    if kind is not None:
        return Work(
            mode=Mode.EXTERNAL,
            topic=reading.value(element, topic),
            headers=properties(element),
            arguments=_fields(element, reading),
            result_variable=_result_variable(element),
        )
    if topic is not None:
        element.problem("A topic needs the type 'external'.")
    return _zeebe_work(element, reading) or _inside(element, reading)


def _zeebe_work(element: Element, reading: Reading) -> Work | None:
    definition, script = element.zeebe("taskDefinition"), element.zeebe("script")
    if script is not None:
        expression = reading.feel(script, script.get("expression"))
        return Work(
            expression=expression if isinstance(expression, Expression) else None,
            result_variable=script.get("resultVariable"),
        )
    if definition is None:
        return None
    topic = reading.value(definition, definition.get("type"))
    return Work(mode=Mode.EXTERNAL, topic=topic, headers=headers(element))


def _inside(element: Element, reading: Reading) -> Work | None:
    class_name, delegate = element.vendor("class"), element.vendor("delegateExpression")
    text = element.vendor("expression")
    given = [each for each in (class_name, delegate, text) if each]
    if not given:
        return None
    if len(given) > 1:
        element.problem("A task has either a class, a delegateExpression or an expression.")
    handler = reading.dotted_name(element, delegate, "delegateExpression") if delegate else class_name
    expression = None if handler else reading.expression(element, text, "expression")
    if text and not handler and expression is None:
        return Work(handler=text)
    return Work(
        handler=handler,
        expression=expression,
        result_variable=_result_variable(element),
        mode=_mode(element),
        arguments=_fields(element, reading),
    )


def read_script(element: Element, reading: Reading) -> Work | None:
    """A script of a closed language is an expression; it may also be done by a handler or a worker, as other tasks."""
    script, language = element.child("script"), (element.get("scriptFormat") or "").lower()
    if script is None:
        return read_work(element, reading)
    element.refuse_attributes(_REFUSED_ATTRIBUTES)
    if element.vendor_flag("autoStoreVariables", False):
        element.problem("The attribute autoStoreVariables is not supported: a script sets its result variable.")
    text = script.text
    if language not in ("", *_LANGUAGES):
        element.problem(
            f"A script in {language!r} is not supported; expected JUEL, FEEL, or a service task with a registered "
            "handler."
        )
        return Work(handler=language)
    if language == "feel" and not reading.is_zeebe:
        element.problem("FEEL is the language of Zeebe's files; this one has no namespace of Zeebe.")
    expression = reading.expression(element, text, "script") if text else None
    if not text:
        element.problem("The script is empty.")
    return Work(
        handler=None if expression else "?",
        expression=expression,
        result_variable=_result_variable(element),
    )


def _mode(element: Element) -> Mode:
    found = element.own("transaction")
    if found not in (None, "step", "outside"):
        element.problem(f"The attribute jobexec:transaction is {found!r}; expected 'step' or 'outside'.")
    return Mode.OUTSIDE if found == "outside" else Mode.STEP


def _result_variable(element: Element) -> str | None:
    return element.vendor("resultVariable", "resultVariableName")


def _fields(element: Element, reading: Reading) -> Value:
    """``camunda:field``: text or an expression, as attribute or element."""
    found = {each.get("name") or "": _field(each, reading) for each in element.extensions("field")}
    return found or None


def _field(element: Element, reading: Reading) -> Value:
    for name in ("string", "expression"):
        child = element.vendor_child(name)
        if child is not None:
            return reading.value(child, child.text)
    return reading.value(element, element.get("stringValue") or element.get("expression"))
