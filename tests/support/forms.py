"""What is written twice, in a portable form and in a faster one, is tested in both."""

from typing import Any

import pytest

from jobexec.operations.rows import move_statement

#: How rows move from table to table.
MOVES = ("inside", "through Python")


def move(form: str, alias: str, monkeypatch: Any) -> None:
    """Let rows move in this form until the end of the test."""
    if form == "through Python":
        monkeypatch.setattr(move_statement, "is_possible", lambda using: False)
    elif not move_statement.is_possible(alias):
        pytest.skip("MySQL moves rows through Python only")


#: How verbs go through many rows: the first defines what they mean, also where it is the only one.
VERBS = ("one by one", "at once", "at once, through Python")


def verbs(form: str, alias: str, monkeypatch: Any) -> None:
    """Let verbs take this form until the end of the test, also for a single row."""
    monkeypatch.setattr("jobexec.operations.targets.for_each._FEWEST", 10**9 if form == "one by one" else 1)
    if form != "one by one":
        move("through Python" if form.endswith("Python") else "inside", alias, monkeypatch)
