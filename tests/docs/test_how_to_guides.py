"""All guides: their Python imports what is there, and ``manage.py`` accepts their commands."""

import ast
import re
import shlex
import sys
from importlib import import_module
from textwrap import dedent, indent

import pytest
from django.core.management import get_commands, load_command_class

from tests.support.suite.databases import ROOT

GUIDES = sorted((ROOT / "docs" / "how-to").rglob("*.md"))
BLOCK = re.compile(r"^( *)(?:: )?```(python|console)\n(.*?)^ *```$", re.MULTILINE | re.DOTALL)
#: Packages of which each import is checked; what an external worker uses need not be installed.
CHECKED = {"jobexec", "django", *sys.stdlib_module_names}


def blocks(kind):
    return [
        pytest.param(dedent(content), id=f"{guide.stem}-{number}")
        for guide in GUIDES
        for number, (_, found, content) in enumerate(BLOCK.findall(guide.read_text()))
        if found == kind
    ]


def commands():
    """The lines ``$ python manage.py ...`` of jobexec's and the demo's commands, without what follows in the shell."""
    lines = {line for block in blocks("console") for line in block.values[0].replace("\\\n", " ").splitlines()}
    found = {match[1] for line in lines if (match := re.match(r"\$ python manage\.py (.*?)(?: &&| \||  +#|$)", line))}
    return sorted(
        line for line in found if str(get_commands().get(line.split()[0])).startswith(("jobexec", "demo_project"))
    )


def parsed(code):
    """The code as it is, or as a part of an async function or a dict. Parts of two dicts are no Python."""
    for text in (code, f"async def guide():\n{indent(code, '    ')}", f"{{{code}}}"):
        try:
            return ast.parse(text)
        except SyntaxError:
            continue
    return ast.parse("")


@pytest.mark.parametrize("code", blocks("python"))
def test_python_imports_what_is_there(code):
    for node in ast.walk(parsed(code)):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.partition(".")[0] in CHECKED:
            module = import_module(node.module)
            assert [each.name for each in node.names if not hasattr(module, each.name)] == []


@pytest.mark.parametrize("line", commands())
def test_commands_are_accepted(line):
    name, *arguments = shlex.split(line)
    load_command_class(get_commands()[name], name).create_parser("manage.py", name).parse_args(arguments)
