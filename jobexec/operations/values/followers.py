"""The jobs that a running job has enqueued, and that its own node keeps for itself."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from uuid import UUID

if TYPE_CHECKING:
    from django.db.backends.base.base import BaseDatabaseWrapper

    from .acquired_job import AcquiredJob

#: How many follow-ups may descend from one acquired job; the next one is acquired like any other, in the order of all.
MOST = 10


@dataclass(slots=True, eq=False)
class Streak:
    """Counts the follow-ups that descend from one acquired job."""

    left: int = MOST


@dataclass(slots=True, eq=False)
class Followers:
    """The follow-ups of one run. Changed under the lock of their node's follow-ups.

    ``expected`` are inserted, or about to be, and not known to be committed, with the connection that does it.
    ``ready`` are committed and begin when the run is settled. ``ended``: the run takes no more.
    """

    streak: Streak = field(default_factory=Streak)
    expected: dict[UUID, tuple[AcquiredJob, BaseDatabaseWrapper]] = field(default_factory=dict)
    ready: list[AcquiredJob] = field(default_factory=list)
    ended: bool = False
