"""``jobs nodes``: the running executors, and their control."""

from __future__ import annotations

from argparse import ArgumentParser
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from jobexec import operations
from jobexec.operations.manage.nodes import living_nodes
from jobexec.operations.overview import overview
from jobexec.operations.targets.for_each import OperationResult

from .arguments.meant import no_such
from .arguments.named import node
from .nested import Group
from .output.outcome import tell
from .output.screen import Exit, Screen
from .stats import as_object, as_text


@dataclass(slots=True)
class Control:
    """Pause, resume or drain nodes."""

    name: str
    help: str
    verb: Callable[..., OperationResult]
    positionals: str = " NODE [NODE ...]"

    def add_options(self, parser: ArgumentParser) -> None:
        parser.add_argument("nodes", nargs="+", metavar="NODE", help="a name, an id, or the beginning of an id")

    def run(self, options: Mapping[str, Any], screen: Screen) -> int:
        result = self.verb([node(text, screen.using) for text in options["nodes"]], using=screen.using)
        result.skipped = {name: _(reason) for name, reason in result.skipped.items()}
        strangers = result.skipped.keys() & set(options["nodes"])
        known = [row.label for row in living_nodes(screen.using).told_apart()] if strangers else []
        result.skipped |= {
            name: no_such(f"{result.skipped[name]}.", name, known).removesuffix(".") for name in strangers
        }
        return tell(self.name, _told, result, screen, _left)


def _told(count: int) -> str:
    text = ngettext(
        "%(count)d node will follow at its next heartbeat.",
        "%(count)d nodes will follow at their next heartbeats.",
        count,
    )
    return text % {"count": count}


def _left(count: int) -> str:
    return ngettext("%(count)d node was skipped:", "%(count)d nodes were skipped:", count) % {"count": count}


_NESTED: Sequence[Control] = (
    Control("pause", "Take no more jobs; running jobs finish.", operations.pause_nodes),
    Control("resume", "Take jobs again.", operations.resume_nodes),
    Control("drain", "Finish the running jobs and end the process.", operations.drain_nodes),
)


class Nodes(Group):
    """List the nodes, or run a nested action."""

    name = "nodes"
    help = "List the running executors with their load; or pause, resume or drain them."
    positionals = " [pause|resume|drain NODE ...]"
    nested = _NESTED

    def _list(self, options: Mapping[str, Any], screen: Screen) -> int:
        seen = overview(screen.using, parts={"nodes"})
        if screen.json:
            for each in as_object.nodes(seen):
                screen.tell(each)
        elif part := as_text.nodes(seen, screen):
            for line in part.shown(screen):
                screen.say(line)
        else:
            screen.say(_("No executor is running."))
        return Exit.DONE
