"""Actions with nested ones: ``jobs batches`` lists, ``jobs batches show ID`` runs a nested action."""

from __future__ import annotations

from argparse import SUPPRESS, ArgumentParser
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from .action import Action
from .arguments import values
from .output.screen import Screen
from .watched import add_watch

#: The nested actions that change nothing, which ``--watch`` repeats, too.
LOOKING = ("list", "show")


class Group:
    """Lists, unless a nested action is named; an :class:`.Action`."""

    name: str
    help: str
    positionals: str
    nested: ClassVar[Sequence[Action]]
    #: How many rows it lists without ``--limit``; None if there is no such option.
    limit: ClassVar[int | None] = None

    def add_options(self, parser: ArgumentParser) -> None:
        """Add ``--limit``, and the nested actions as optional subcommands."""
        if self.limit is not None:
            most = f"at most N; default {self.limit}"
            parser.add_argument("--limit", type=values.count, default=self.limit, metavar="N", help=most)
        groups = parser.add_subparsers(dest="nested", metavar="ACTION", prog=parser.prog)
        for action in self.nested:
            group = groups.add_parser(action.name, help=action.help, description=action.help)
            group.usage = f"{group.prog} [options]{action.positionals}"
            # Also accepted after the nested action. Its default must not override a value before it.
            group.add_argument(
                "--database", metavar="ALIAS", default=SUPPRESS, help="the engine; default: the database of the models"
            )
            group.add_argument("--json", action="store_true", default=SUPPRESS, help="write JSON")
            if action.name in LOOKING:
                add_watch(group, default=SUPPRESS)
            action.add_options(group)

    def run(self, options: Mapping[str, Any], screen: Screen) -> int:
        """Run the named action, or list; return the exit code."""
        named = {action.name: action for action in self.nested}.get(options["nested"])
        return self._list(options, screen) if named is None else named.run(options, screen)

    def _list(self, options: Mapping[str, Any], screen: Screen) -> int:
        return self.nested[0].run(options, screen)
