"""Boundary events: armed with their activity, and what happens when one fires."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..definition import Node
from .cancel import interrupt
from .events import arm
from .moves import Do, Moves
from .rows import Token


def arm_all(moves: Moves, token: Token, activity: Node) -> None:
    for event in moves.process(token).boundary_events(activity.id):
        arm(moves, token, event)


def fire(moves: Moves, token: Token, event: Node, variables: Mapping[str, Any]) -> None:
    """The token of the activity goes on at the event, or a new one beside it does."""
    if event.interrupting:
        interrupt(moves, token)
        leaving = token
        leaving.data = {}
    else:
        leaving = moves.new_token(moves.place_around(token), event.id)
    leaving.element, leaving.flow = event.id, None
    moves.bring(leaving, variables)
    moves.push(Do.ENTER, leaving)
