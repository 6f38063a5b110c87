"""Multi-instance characteristics."""

from __future__ import annotations

from jobexec.processes.definition import Expression, Loop, Value

from .element import Element
from .read_extensions import job_options, number
from .reading import Reading

#: The variables of a multi-instance that are counted.
_COUNTED = ("loopCounter", "nrOfInstances", "nrOfCompletedInstances", "nrOfActiveInstances")
_REFUSED = {"elementIndexVariable": "the index is the variable loopCounter"}


def read_loop(element: Element, reading: Reading) -> Loop | None:
    """The loop of an activity, None if it has none."""
    standard = element.child("standardLoopCharacteristics")
    if standard is not None:
        standard.problem("A standard loop is not supported; use a multi-instance, or a flow back.")
        standard.discard()
    found = element.child("multiInstanceLoopCharacteristics")
    return None if found is None else _multi_instance(found, reading)


def _multi_instance(element: Element, reading: Reading) -> Loop:
    _refuse_data(element)
    element.refuse_attributes(_REFUSED)
    zeebe = element.zeebe("loopCharacteristics")
    completion = element.child("completionCondition")
    cardinality = element.child("loopCardinality")
    if cardinality is not None and zeebe is None and element.vendor("collection"):
        element.problem("A multi-instance has either a loopCardinality or a collection.")
    result = None if zeebe is None else _zeebe(zeebe, reading, "outputElement")
    item = element.vendor("elementVariable") if zeebe is None else zeebe.get("inputElement")
    result_name = reading.root_of(result)
    return Loop(
        sequential=element.flag("isSequential", False),
        cardinality=number(element, reading, _text(cardinality), "cardinality"),
        collection=_collection(element, reading) if zeebe is None else _zeebe(zeebe, reading, "inputCollection"),
        item=item,
        result=result,
        result_name=None if result_name in (item, *_COUNTED) else result_name,
        results=None if zeebe is None else zeebe.get("outputCollection"),
        first=0 if zeebe is None else 1,
        completion=reading.expression(element, _text(completion), "completion condition"),
        jobs=job_options(element, reading),
    )


def _collection(element: Element, reading: Reading) -> Value:
    """An expression, or the name of a variable."""
    found = reading.value(element, element.vendor("collection"))
    if isinstance(found, str):
        return reading.value(element, f"${{{found}}}")
    return found


def _zeebe(element: Element, reading: Reading, name: str) -> Expression | None:
    return reading.expression(element, element.get(name), name)


def _text(element: Element | None) -> str | None:
    if element is None:
        return None
    check_language(element)
    return element.text


def check_language(element: Element) -> None:
    """Only the closed languages are evaluated."""
    language = (element.get("language") or "").rpartition("/")[2].lower()
    if language not in ("", "juel", "feel", "xpath"):
        element.problem(f"The language {language!r} is not supported; expected JUEL or FEEL.")


def _refuse_data(element: Element) -> None:
    for each in element.children("loopDataInputRef", "loopDataOutputRef", "inputDataItem", "outputDataItem"):
        each.problem(f"The element {each.shown} is not supported; expected a collection of Camunda, Flowable or Zeebe.")
        each.discard()
    if element.get("behavior") not in (None, "All") or element.get("noneBehaviorEventRef"):
        element.problem("The behavior of a multi-instance is not supported; it can only be All.")
    for each in element.children("complexBehaviorDefinition"):
        each.problem("A complex behavior of a multi-instance is not supported.")
        each.discard()
