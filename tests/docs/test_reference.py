"""The pages of the Python API show the names that people import, and all of them; and links lead where they should."""

import re
from importlib import import_module
from pathlib import Path

import pytest

REFERENCE = Path(__file__).parents[2] / "docs" / "reference"
_ENTRY = re.compile(r"\.\. (?:auto|py:)(?!currentmodule)(\w+):: ([\w.]+)")
PAGES = {
    "testing.md": ("jobexec.testing", "jobexec.processes.testing"),
    "api-processes.md": ("jobexec.processes", "jobexec.processes.exceptions", "jobexec.processes.models"),
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


def test_a_link_to_a_label_does_not_lead_to_a_heading_of_its_own_page():
    """Sphinx prefers the heading, and says nothing."""
    pages = {path: path.read_text() for path in REFERENCE.parent.rglob("*.md")}
    labels = re.compile(r"^\(([\w-]+)\)=$", re.MULTILINE)
    homes = {label: path for path, text in pages.items() for label in labels.findall(text)}
    assert "results" in homes
    astray = []
    for path, text in pages.items():
        headings = re.findall(r"^#{1,3} (.+)$", text, re.MULTILINE)
        own = {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}
        for label in set(re.findall(r"\]\(#([\w-]+)\)", text)) & own & homes.keys():
            if homes[label] != path:
                astray.append((path.name, label))
    assert astray == []
