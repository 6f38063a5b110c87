"""What is written twice, in a portable form and in a faster one, is tested in both."""

from typing import Any

import pytest

from jobexec.operations import transfer

#: How rows move from table to table.
MOVES = ("inside", "through Python")


def move(form: str, alias: str, monkeypatch: Any) -> None:
    """Let rows move in this form until the end of the test."""
    if form == "through Python":
        monkeypatch.setattr(transfer, "is_possible", lambda using: False)
    elif not transfer.is_possible(alias):
        pytest.skip("MySQL moves rows through Python only")
