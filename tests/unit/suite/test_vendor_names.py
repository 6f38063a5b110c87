"""Only the dialects decide by the vendor of a database: another database is a file there, and not a search."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import jobexec

ROOT = Path(jobexec.__file__).parent

#: The dialects. Below them are the models, whose columns and indexes Django creates by the vendor.
ALLOWED = ("operations/sql/", "migrations/", "models/base.py", "models/fields.py")

VENDOR = re.compile(r"(postgresql|mysql|mariadb|sqlite|oracle)\Z|.*\bpg_", re.IGNORECASE | re.DOTALL)


def names(source: str) -> Iterator[str]:
    """The texts in the source that are a vendor's name or call its functions; sentences about a vendor are none."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and VENDOR.match(node.value):
            yield f"{node.lineno}: {node.value}"


def test_only_the_dialects_name_a_vendor():
    found = {}
    for path in ROOT.rglob("*.py"):
        name = path.relative_to(ROOT).as_posix()
        if not name.startswith(ALLOWED) and (named := list(names(path.read_text()))):
            found[name] = named
    assert found == {}


def test_a_vendor_that_is_named_is_found():
    source = 'vendor == "postgresql"\n"""Faster on PostgreSQL."""\nexecute("SELECT pg_notify(%s)")'
    assert list(names(source)) == ["1: postgresql", "3: SELECT pg_notify(%s)"]
