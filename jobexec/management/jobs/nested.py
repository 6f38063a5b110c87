"""Nested actions: ``jobs batches show ID``."""

from __future__ import annotations

from argparse import SUPPRESS, ArgumentParser
from collections.abc import Iterable, Mapping
from typing import Any

from .action import Action
from .output.screen import Screen


def add_nested(parser: ArgumentParser, actions: Iterable[Action]) -> None:
    """Add the nested actions as optional subcommands."""
    groups = parser.add_subparsers(dest="nested", metavar="ACTION", prog=parser.prog)
    for action in actions:
        group = groups.add_parser(action.name, help=action.help, description=action.help)
        group.usage = f"{group.prog} [options]{action.positionals}"
        # Also accepted after the nested action. Its default must not override a value before it.
        group.add_argument(
            "--database", metavar="ALIAS", default=SUPPRESS, help="the engine; default: the database of the models"
        )
        group.add_argument("--json", action="store_true", default=SUPPRESS, help="write JSON")
        action.add_options(group)


def run_nested(actions: Iterable[Action], options: Mapping[str, Any], screen: Screen) -> int | None:
    """Run the named action; None if none was named."""
    named = {action.name: action for action in actions}.get(options["nested"])
    return None if named is None else named.run(options, screen)
