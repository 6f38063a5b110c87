"""What every action of ``manage.py jobs`` has."""

from __future__ import annotations

from argparse import ArgumentParser
from collections.abc import Mapping
from typing import Any, Protocol

from .output.screen import Screen


class Action(Protocol):
    """One word after ``manage.py jobs``."""

    name: str
    help: str
    positionals: str
    """What follows the options, for the line that says how it is used."""

    def add_options(self, parser: ArgumentParser) -> None:
        """Add what it understands besides the options of all actions."""
        ...

    def run(self, options: Mapping[str, Any], screen: Screen) -> int:
        """Do it; returns the exit code."""
        ...
