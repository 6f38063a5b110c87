"""The conformance page of processes: its tests and scenarios exist, and no name that files may contain is missing."""

import ast
import re

import pytest

from tests.support.suite.conformance import ROOT, cases_of

TEXT = (ROOT / "docs" / "reference" / "bpmn-conformance.md").read_text()
READERS = ROOT / "jobexec" / "processes" / "xml"
TEST = re.compile(r"`(tests/[\w/]+\.py)::(\w+)(?:\[([^\]`]+)\])?`")
HEAD = "| in the model | from | what happens | test |"
#: What reads a name of an element or an attribute.
LOOK_UPS = {"get", "child", "children", "vendor", "vendor_flag", "vendor_child", "zeebe", "flag", "own", "extensions"}
#: Names of values inside an element that the page names, and words that are no names of a file.
INSIDE = {
    *("associationDirection", "bpmnElement", "calledElement", "endPointRef", "extensionElements", "id", "key", "label"),
    *("language", "name", "participantMultiplicity", "partitionElement", "partitionElementRef", "property"),
    *("relationship", "scope", "value", "it is unknown"),
}


def rows():
    lines = [line for line in TEXT.splitlines() if line.startswith("|") and line != HEAD and not set(line) <= set("|-")]
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines]


ROWS = rows()


def names_read():
    """The names that readers of files look up or refuse."""
    for path in sorted(READERS.glob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in LOOK_UPS:
                found = node.args
            elif isinstance(node, ast.Assign) and isinstance(node.value, ast.Dict) and "REFUSED" in _target(node):
                found = node.value.keys
            else:
                continue
            yield from (each.value for each in found if isinstance(each, ast.Constant) and isinstance(each.value, str))


def _target(node):
    return ast.unparse(node.targets[0])


def test_each_row_has_a_behaviour_and_a_test():
    assert len(ROWS) > 90
    assert [row for row in ROWS if len(row) != 4 or not all(row) or not TEST.search(row[3])] == []


def test_what_looks_like_a_test_is_written_as_one():
    assert TEXT.count(".py::") == len(TEST.findall(TEXT))


@pytest.mark.parametrize("path", sorted({path for path, *_ in TEST.findall(TEXT)}))
def test_the_tests_and_scenarios_that_are_named_exist(path):
    named = {(name, case) for file, name, case in TEST.findall(TEXT) if file == path}
    source = (ROOT / path).read_text() if cases_of(path) else ""
    # A scenario is a line of its own, or the key of a case.
    cases = {line.strip() for line in source.splitlines()} | set(re.findall(r'^ *"([^"]+)": ', source, re.MULTILINE))
    assert {name for name, _ in named} - cases_of(path).keys() == set()
    assert {case for _, case in named if case} - cases == set()


def test_each_name_that_a_file_may_contain_is_on_the_page():
    text = " ".join(row[0] + row[2] for row in ROWS)
    known = set(re.findall(r"[\w-]+", " ".join(re.findall(r"`([^`]+)`", text))))
    assert sorted(set(names_read()) - known - INSIDE) == []


def test_nothing_is_excused_that_no_reader_knows():
    assert INSIDE - set(names_read()) == set()
