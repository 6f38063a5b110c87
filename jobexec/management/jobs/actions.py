"""The actions of ``manage.py jobs`` by name, in the order of its help."""

from __future__ import annotations

from .action import Action
from .batches.list import Batches
from .changes.change import Change
from .changes.execute import Execute
from .changes.reencrypt import Reencrypt
from .changes.subcommands import REENCRYPT, SUBCOMMANDS
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

_ALL: tuple[Action, ...] = (
    List(),
    Show(),
    Why(),
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
    Stats(),
    Top(),
)

ACTIONS: dict[str, Action] = {action.name: action for action in _ALL}
