"""The pages of the Python API show the names that people import, and all of them."""

import re
from importlib import import_module
from pathlib import Path

import pytest

REFERENCE = Path(__file__).parents[2] / "docs" / "reference"
_ENTRY = re.compile(r"\.\. (?:auto|py:)(?!currentmodule)(\w+):: ([\w.]+)")
PAGES = {
    "testing.md": ("jobexec.testing", "jobexec.processes.testing"),
    "api-processes.md": ("jobexec.processes", "jobexec.processes.exceptions"),
}


def entries(page: str) -> dict[str, str]:
    """The directive of each name on the page."""
    found = _ENTRY.findall((REFERENCE / page).read_text())
    return {name if "." in name else f"{PAGES[page][0]}.{name}": kind for kind, name in found}


@pytest.mark.parametrize("page", PAGES)
def test_every_entry_is_imported_from_where_the_page_says(page):
    found = entries(page)
    for name, kind in found.items():
        home = name if kind == "module" else name.rpartition(".")[0]
        assert home in (*PAGES[page], *found), name
        if home in PAGES[page] and home != name:
            assert hasattr(import_module(home), name.rpartition(".")[2]), name


@pytest.mark.parametrize(("page", "package"), [(page, homes[0]) for page, homes in PAGES.items()])
def test_every_public_name_has_an_entry(page, package):
    found = entries(page)
    assert [name for name in import_module(package).__all__ if f"{package}.{name}" not in found] == []
