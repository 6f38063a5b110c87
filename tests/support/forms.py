"""Select the form of code that has a portable and a faster form, to test both."""

from typing import Any

import pytest

from jobexec.operations.rows import move_statement

#: The forms of moving rows between tables.
MOVES = ("inside", "through Python")


def move(form: str, alias: str, monkeypatch: Any) -> None:
    """Move rows in this form until the end of the test."""
    if form == "through Python":
        monkeypatch.setattr(move_statement, "is_possible", lambda using: False)
    elif not move_statement.is_possible(alias):
        pytest.skip("MySQL moves rows through Python only")


#: The forms of applying verbs to many rows; the first one defines their meaning and exists for all verbs.
VERBS = ("one by one", "at once", "at once, through Python")


def verbs(form: str, alias: str, monkeypatch: Any) -> None:
    """Apply verbs in this form until the end of the test, even to a single row."""
    monkeypatch.setattr("jobexec.operations.targets.for_each._FEWEST", 10**9 if form == "one by one" else 1)
    if form != "one by one":
        move("through Python" if form.endswith("Python") else "inside", alias, monkeypatch)
