"""Validate a definition by all rules; problems have the id and the line of the element."""

from __future__ import annotations

from .problem import InvalidProcess, Problem
from .process import Process
from .rules import FIRST, RULES


def problems_of(process: Process) -> list[Problem]:
    """All problems, in the order of their lines. Where names lead nowhere, only those problems."""
    found = [problem for rule in FIRST for problem in rule(process)]
    if not found:
        found = [problem for rule in RULES for problem in rule(process)]
    return sorted(found, key=lambda problem: (problem.line or 0, problem.element, problem.message))


def validate(process: Process) -> None:
    """Raise InvalidProcess if there is a problem."""
    if problems := problems_of(process):
        raise InvalidProcess(problems)
