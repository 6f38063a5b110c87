"""Whole files, as the modelers of Camunda 7, Flowable and Camunda 8 write them."""

from pathlib import Path

import pytest

from jobexec.processes import expressions
from jobexec.processes.definition import Expression, Kind, Language, Mode, Trigger, from_json, problems_of, to_json
from jobexec.processes.xml import read

FILES = sorted((Path(__file__).parent / "files").glob("*.bpmn"))


def read_file(name):
    model = read((Path(__file__).parent / "files" / f"{name}.bpmn").read_bytes())
    return model, model.processes[0]


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_can_be_read(path):
    for process in read(path.read_bytes()).processes:
        assert problems_of(process) == []
        assert from_json(to_json(process)) == process


def test_camunda_7():
    model, process = read_file("travel.camunda7")
    assert (process.key, process.version_tag, process.properties) == ("travel", "1.0", {"owner": "trips"})
    hotel = process.node("hotel")
    assert (hotel.work.handler, hotel.jobs.before, hotel.jobs.exclusive) == ("bookHotel", True, False)
    assert hotel.jobs.retry_plan == "R3/PT10S"
    assert process.node("flight").work.mode is Mode.EXTERNAL
    assert process.node("flight").jobs.priority == Expression("${trip.urgent ? 100 : 50}")
    assert (process.node("full").event.code, process.node("full").event.text_variable) == ("FULL", "reason")
    assert not process.node("reminder").interrupting
    assert process.node("cancelled").trigger is Trigger.TERMINATE
    assert [shape.element for shape in model.shapes] == ["asked", "fork"]
    assert model.edges[0].points == ((188, 200), (245, 200))


def test_camunda_8():
    _, process = read_file("order.zeebe")
    assert process.node("pay").work.headers == {"method": "card"}
    assert process.node("pay").inputs[0].source == Expression("=order.total * 1.19", Language.FEEL)
    assert process.node("paid").event.key == Expression("=order.id", Language.FEEL)
    assert process.node("fetch").loop.results == "fetched"
    assert process.node("out").event.code == "OUT_OF_STOCK"
    assert process.node("ship").call.outputs == ()
    condition = process.flow("big").condition
    items = [{"price": 50}, {"price": 500}, {"price": 600}]
    parsed = expressions.parse(condition.text, condition.language)
    assert parsed.evaluate({"amount": 2000, "order": {"items": items}}) is True
    assert parsed.evaluate({"amount": 2000, "order": {"items": items[:1]}}) is False


def test_flowable():
    _, process = read_file("approval.flowable")
    assert process.executable
    assert process.starter_groups == ("staff",)
    assert process.node("start").initiator == "asker"
    assert process.node("check").parent == "review"
    assert process.node("check").loop.collection == Expression("${reviewers}")
    assert process.node("remind").work.arguments == {"text": Expression("Dear ${asker}, it takes long")}
    assert process.node("decide").work.result_variable == "approved"
    assert process.node("changes").by_event
    assert process.node("note").kind is Kind.SERVICE_TASK


def test_functions_to_register():
    """What deploying has to look for in the project."""
    _, process = read_file("approval.flowable")
    note = process.node("note").work.expression
    assert expressions.parse(note.text, note.language).functions == {"budget.note"}
