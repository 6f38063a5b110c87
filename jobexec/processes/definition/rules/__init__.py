"""The rules that a definition obeys, by family. A rule takes a process and yields its problems."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from ..problem import Problem
from ..process import Process
from . import activities, events, gateways, graph

Rule = Callable[[Process], Iterator[Problem]]

# Names that lead nowhere make all other rules meaningless.
FIRST: tuple[Rule, ...] = graph.NAMES
RULES: tuple[Rule, ...] = (*graph.RULES, *gateways.RULES, *events.RULES, *activities.RULES)
