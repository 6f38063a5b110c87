"""mypy reads the Python blocks of the README as a reader's project would have them."""

import os
import re
import subprocess
import sys

import pytest

from tests.support.suite.databases import ROOT

#: What the blocks take for granted. A block is a file of its own; one that names several files is cut there.
MODELS = """
from typing import Any, ClassVar

class Order:
    objects: ClassVar[Any]
    pk: int
    key: str
    def send_invoice(self) -> None: ...
    def total(self) -> int: ...
"""
JOBS = "\n".join(
    f"@job\ndef {name}(order_id: int, amount: int = 0) -> dict[str, int]: ...\n"
    for name in ("charge", "refund", "pack", "invoice", "ship")
)
ORDER = "from shop.models import Order\norder = Order()\n"
BEFORE = {
    "result = total.enqueue": f"from shop.tasks import total\n{ORDER}",
    "from jobexec.processes import flow": f"from jobexec import job\n{ORDER}{JOBS}",
    "@service_task": "from typing import Any\nparcels: Any\n",
    "jobexec.external_job": f"import jobexec\nfrom shop.paid import paid\n{ORDER}",
    "def paid": "from jobexec import job\nfrom shop.models import Order\n",
    "@worker.task": "from typing import Any\nworker: Any\nasync def charge(order: int, amount: int) -> str: ...\n",
}


def parts():
    """Each file of the README: its name, if the README gives one, and its code."""
    for block in re.findall(r"^```python\n(.*?)^```$", (ROOT / "README.md").read_text(), re.DOTALL | re.MULTILINE):
        for part in re.split(r"^(?=# \w+/\w+\.py)", block, flags=re.MULTILINE):
            if part.strip():
                named = re.match(r"# ([\w/]+\.py)", part)
                yield named and named[1], part


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_mypy_finds_nothing_wrong_in_the_readme(tmp_path):
    pytest.importorskip("mypy")
    pytest.importorskip("mypy_django_plugin")
    folder = tmp_path / "shop"
    folder.mkdir()
    (folder / "__init__.py").touch()
    (folder / "models.py").write_text(MODELS)
    written, used = [], set()
    for number, (name, code) in enumerate(parts()):
        begins = [start for start in BEFORE if start in code]
        used.update(begins)
        path = tmp_path / (name or f"block_{number}.py")
        if "def paid" in code:
            path = folder / "paid.py"
        elif path.exists():
            path = tmp_path / f"block_{number}.py"
        path.write_text("".join(BEFORE[start] for start in begins) + code)
        written.append(str(path.relative_to(tmp_path)))
    assert used == BEFORE.keys()
    assert {"shop/jobs.py", "shop/views.py", "shop/tasks.py"} <= set(written)
    done = subprocess.run(
        [
            *(sys.executable, "-m", "mypy", f"--cache-dir={tmp_path / 'cache'}", "--config-file="),
            *("--no-error-summary", "--check-untyped-defs", "--disable-error-code=empty-body"),
            *("--follow-imports=silent", *written),
        ],
        cwd=tmp_path,
        env={**os.environ, "MYPYPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
