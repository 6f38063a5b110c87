"""The interface of the actions of ``manage.py jobs``."""

from __future__ import annotations

from argparse import ArgumentParser
from collections.abc import Mapping
from typing import Any, Protocol

from .output.screen import Screen


class Action(Protocol):
    """An action: one word after ``manage.py jobs``."""

    name: str
    help: str
    positionals: str
    """The arguments after the options, for the usage line."""

    def add_options(self, parser: ArgumentParser) -> None:
        """Add the options of this action; those of all actions are added elsewhere."""
        ...

    def run(self, options: Mapping[str, Any], screen: Screen) -> int:
        """Run the action; return the exit code."""
        ...
