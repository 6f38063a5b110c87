"""The tiers of the tests named on the conformance page; run as a program, it writes them into the page."""

import ast
import re
from collections.abc import Iterable
from functools import cache
from pathlib import Path

from tests.support.suite.tiers import LATER

ROOT = Path(__file__).resolve().parents[3]
PAGE = ROOT / "docs" / "reference" / "conformance.md"
TEST = re.compile(r"`(tests/[\w/]+\.py)::([\w:]+)`")
HEAD = re.compile(r"^\| [\w ]+ \| behaviour \| jobexec \|")
_MARK = re.compile(rf"mark\.({'|'.join(LATER)})\b")


def tiers_of(tests: Iterable[tuple[str, str]]) -> str:
    """Return the first tiers of these tests, pairs of file and name: "quick", "quick, gate", or a dash."""
    found = {cases_of(path)[name] for path, name in tests if name in cases_of(path)}
    return ", ".join(tier for tier in ("quick", "gate", "nightly") if tier in found) or "-"


@cache
def cases_of(path: str) -> dict[str, str]:
    """Return the tests of a file, functions and Class::method, each with its tier; none if the file is missing."""
    if not (ROOT / path).is_file():
        return {}
    found = {}
    body = ast.parse((ROOT / path).read_text()).body
    whole = [ast.unparse(node.value) for node in body if isinstance(node, ast.Assign) and _assigns_marks(node)]
    for node in body:
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            outer = [*whole, *map(ast.unparse, node.decorator_list)]
            found[node.name] = _tier(outer)
            for inner in node.body if isinstance(node, ast.ClassDef) else ():
                if isinstance(inner, ast.FunctionDef):
                    found[f"{node.name}::{inner.name}"] = _tier([*outer, *map(ast.unparse, inner.decorator_list)])
    return {name: tier for name, tier in found.items() if name.rpartition("::")[2].startswith("test_")}


def _assigns_marks(node: ast.Assign) -> bool:
    return any(isinstance(target, ast.Name) and target.id == "pytestmark" for target in node.targets)


def _tier(marks: Iterable[str]) -> str:
    text = " ".join(marks).replace("browser.marks", "mark.browser")
    found = set(_MARK.findall(text))
    return "nightly" if "nightly" in found else "gate" if found else "quick"


def main() -> None:
    lines = []
    inside = False
    for line in PAGE.read_text().splitlines():
        cells = line.strip("|").split(" | ")
        if HEAD.match(line):
            inside, line = True, "| " + " | ".join([*(cell.strip() for cell in cells[:3]), "tier"]) + " |"
        elif inside and line.startswith("|---"):
            line = "|---|---|---|---|"
        elif inside and line.startswith("|"):
            line = "|" + " | ".join([*cells[:2], cells[2].strip(), tiers_of(TEST.findall(cells[2]))]) + " |"
        else:
            inside = False
        lines.append(line)
    PAGE.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
