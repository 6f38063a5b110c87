"""The actions of ``manage.py jobs`` by name, in the order of its help."""

from __future__ import annotations

from argparse import ArgumentParser

from .action import Action
from .batches.list import Batches
from .changes.change import Change
from .changes.enqueue import Enqueue, Rerun
from .changes.execute import Execute
from .changes.reencrypt import Reencrypt
from .changes.subcommands import REENCRYPT, SUBCOMMANDS
from .cleanup import CleanUp
from .completion import Completion
from .definitions import Definitions
from .deployments import Deployments
from .groups import Groups
from .incidents import Incidents
from .index import Index
from .look.explain import Why
from .look.listing import List
from .look.show import Show
from .messages.list import Messages
from .nodes import Nodes
from .resources.list import Resources
from .schedules.list import Schedules
from .stats.command import Stats
from .stats.top import Top
from .watched import add_watch

_ALL: tuple[Action, ...] = (
    List(),
    Show(),
    Why(),
    Enqueue(),
    Rerun(),
    Execute(),
    *(Change(each) for each in SUBCOMMANDS),
    Reencrypt(REENCRYPT),
    Incidents(),
    Groups(),
    Batches(),
    Definitions(),
    Deployments(),
    Nodes(),
    Schedules(),
    Resources(),
    Messages(),
    Index(),
    CleanUp(),
    Stats(),
    Top(),
    Completion(),
)

ACTIONS: dict[str, Action] = {action.name: action for action in _ALL}

#: The actions that ``--watch`` repeats.
_WATCHED = frozenset({"list", "show", "why", "incidents", "groups", "batches", "nodes", "resource", "stats"})


def add_options(parser: ArgumentParser, action: Action) -> None:
    """Add the options of all actions, and those of this one."""
    parser.add_argument("--database", metavar="ALIAS", help="the engine; default: the database of the models")
    parser.add_argument("--json", action="store_true", help="write JSON")
    if action.name in _WATCHED:
        add_watch(parser)
    action.add_options(parser)
