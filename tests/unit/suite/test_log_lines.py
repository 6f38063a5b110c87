"""A log line quotes an exception cut to one line: its text may quote an argument of megabytes."""

import ast
from collections.abc import Iterator
from pathlib import Path

import jobexec
from jobexec.operations.sql.errors import one_line

ROOT = Path(jobexec.__file__).parent

#: It cannot import the function that cuts them, and its exceptions quote no argument of a job.
ALLOWED = ("broker/",)


def quoted_raw(source: str) -> Iterator[str]:
    """The calls of a logger in this source that format an exception as it is."""
    tree = ast.parse(source)
    caught = {node.name for node in ast.walk(tree) if isinstance(node, ast.ExceptHandler)} | {"error"}
    for node in ast.walk(tree):
        if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)):
            continue
        if ast.unparse(node.func.value) not in ("logger", "failure_log"):
            continue
        if any(isinstance(each, ast.Name) and each.id in caught for each in node.args):
            yield f"{node.lineno}: {ast.unparse(node)}"


def test_no_log_line_quotes_an_exception_as_it_is():
    found = {}
    for path in ROOT.rglob("*.py"):
        name = path.relative_to(ROOT).as_posix()
        if not name.startswith(ALLOWED) and (quoted := list(quoted_raw(path.read_text()))):
            found[name] = quoted
    assert found == {}


def test_an_exception_that_is_quoted_is_found():
    source = 'try:\n    go()\nexcept OSError as problem:\n    logger.info("no: %s", problem)\n'
    assert list(quoted_raw(source)) == ["4: logger.info('no: %s', problem)"]
    assert list(quoted_raw(source.replace(", problem", ", one_line(problem)"))) == []


def test_an_exception_that_has_no_text_ends_nothing():
    class Silent(Exception):
        def __str__(self):
            raise KeyError("text")

    assert one_line(Silent()) == "Silent, which cannot be shown (KeyError)"
