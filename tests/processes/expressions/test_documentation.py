"""The reference names each function and each limit."""

from pathlib import Path

from jobexec.processes.expressions import limits
from jobexec.processes.expressions.feel_functions import FEEL_FUNCTIONS
from jobexec.processes.expressions.juel import OBJECTS
from jobexec.processes.xml import safe

DOCS = Path(__file__).parents[3] / "docs" / "reference"


def test_each_function_is_named():
    text = (DOCS / "expressions.md").read_text()
    assert [name for name in sorted(FEEL_FUNCTIONS.names()) if f"`{name}`" not in text] == []


def test_each_property_is_named():
    lines = (DOCS / "expressions.md").read_text().splitlines()
    for object, known in OBJECTS.items():
        (line,) = [line for line in lines if line.startswith(f"| `{object}` |")]
        assert [name for name in sorted(known) if f"`{name}`" not in line] == [], object


def test_each_limit_is_named():
    text = (DOCS / "expressions.md").read_text()
    for name in ("MAX_SOURCE", "MAX_DEPTH", "MAX_OPERATIONS", "MAX_TEXT", "MAX_BITS", "MAX_RESULT_VALUES"):
        assert f"{getattr(limits, name):,}" in text, name
    text = (DOCS / "bpmn.md").read_text()
    for limit in (safe.MAX_ELEMENTS, safe.MAX_LEVELS, safe.MAX_ATTRIBUTE):
        assert f"{limit:,}" in text
