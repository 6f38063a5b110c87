"""The overlay of a process: the same for the server's picture and for a diagram."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from django.utils.translation import ngettext

#: The levels of heat, from no run to the most.
HOTTEST = 5


@dataclass(frozen=True)
class Standing:
    """At one element: tokens that wait, incidents, arrivals that are over; ``told`` says it in words.

    ``heat`` is 0 to HOTTEST, and ``runs`` the number that it stands for.
    """

    tokens: int = 0
    incidents: int = 0
    done: int = 0
    runs: int = 0
    heat: int = 0
    told: str = ""

    @property
    def classes(self) -> str:
        """The names of its classes in the style sheet."""
        state = "incident" if self.incidents else "waits" if self.tokens else "done" if self.done else ""
        return " ".join(filter(None, (state, f"heat-{self.heat}" if self.heat else "")))


NOTHING = Standing()


def standing(tokens: int, incidents: int, done: int = 0) -> Standing:
    """The state of an element, also in words."""
    told = []
    if tokens:
        told.append(ngettext("%(count)d token", "%(count)d tokens", tokens) % {"count": tokens})
    if incidents:
        told.append(ngettext("%(count)d incident", "%(count)d incidents", incidents) % {"count": incidents})
    if done:
        told.append(ngettext("done once", "done %(count)d times", done) % {"count": done})
    return Standing(tokens, incidents, done, told=", ".join(told))


@dataclass(frozen=True)
class Overlay:
    """The state of each element, and the flows that were taken, by their ids."""

    elements: Mapping[str, Standing]
    taken: frozenset[str] = field(default=frozenset())

    def as_json(self) -> dict[str, Any]:
        return {
            "elements": {
                id: {
                    "tokens": standing.tokens,
                    "incidents": standing.incidents,
                    "runs": standing.runs,
                    "classes": standing.classes.split(),
                    "told": standing.told,
                }
                for id, standing in self.elements.items()
            },
            "taken": sorted(self.taken),
        }
