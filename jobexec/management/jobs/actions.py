"""The actions of ``manage.py jobs`` by name, in the order of its help."""

from __future__ import annotations

from .action import Action
from .batch_list import Batches
from .change import Change
from .definitions import Definitions
from .deployments import Deployments
from .execute import Execute
from .explain import Why
from .incidents import Incidents
from .listing import List
from .schedule_list import Schedules
from .show import Show
from .stats import Stats
from .top import Top
from .verbs import VERBS

_ALL: tuple[Action, ...] = (
    List(),
    Show(),
    Why(),
    Execute(),
    *(Change(verb) for verb in VERBS),
    Incidents(),
    Batches(),
    Definitions(),
    Deployments(),
    Schedules(),
    Stats(),
    Top(),
)

ACTIONS: dict[str, Action] = {action.name: action for action in _ALL}
