"""What documentation and messages say about installing jobexec works before it is on PyPI, and after."""

import re
import tomllib
from itertools import chain
from pathlib import Path

import pytest

from tests.support.suite.databases import ROOT

DOCUMENTS = [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *filter(Path.is_file, ROOT.glob("docs/examples/*"))]
CODE = [path for folder in ("jobexec", "demo_project") for path in (ROOT / folder).rglob("*.py")]
#: A path ends in the name, too.
_BARE = re.compile(r"""pip3? install\s(?:[^\n`]*[\s"'`])?(?<![/.])jobexec\b""")
_EXTRA = re.compile(r"""\b(?:extra(?:\]\([\w/.#-]+\))?)\s+(?:`+|'|")(\w+)(?:`|'|")""")


def extras():
    return tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]


@pytest.mark.parametrize(
    ("text", "bare"),
    [
        ("$ pip install jobexec", True),
        ('$ pip install "jobexec[grpc]"', True),
        ("pip install\n'jobexec[grpc]'", True),
        ('$ pip install Django "psycopg[binary]" jobexec', True),
        ("$ pip install ./jobexec", False),
        ('$ pip install --upgrade "../jobexec[bpmn]"', False),
        ('$ pip install "dist/jobexec-0.1.0-py3-none-any.whl[bpmn]"', False),
    ],
)
def test_a_bare_name_is_found(text, bare):
    assert bool(_BARE.search(text)) is bare


def test_nothing_says_to_install_it_from_pypi():
    found = {path: _BARE.findall(path.read_text()) for path in chain(DOCUMENTS, CODE)}
    assert {path: bare for path, bare in found.items() if bare} == {}


def test_the_extras_that_are_named_are_there():
    named = {}
    for path in chain(DOCUMENTS, CODE):
        named |= dict.fromkeys(_EXTRA.findall(path.read_text()), path)
    assert {"grpc", "metrics", "bpmn", "broker", "encryption", "backport"} <= set(named)
    assert {name: path for name, path in named.items() if name not in extras()} == {}


def test_the_page_lists_the_extras_for_projects():
    listed = re.findall(r"^\| `(\w+)` \|", (ROOT / "docs" / "how-to" / "install.md").read_text(), re.MULTILINE)
    ours = {"test", "lint", "docs", "audit", "themes", "peers", "tenants"}
    assert sorted(listed) == sorted(extras().keys() - ours)
