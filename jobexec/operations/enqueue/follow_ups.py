"""Follow-ups: jobs that a handler enqueues and that its own node runs, without a wake-up and without an acquisition.

Their rows are inserted already locked by the node, which gets them after the commit. Whether it wants them is decided
by what it knows in memory, see docs/explanation/decisions.md.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, TypeAlias

from django.db import connections
from django.db.backends.base.base import BaseDatabaseWrapper

from jobexec import clock
from jobexec.models import Job

from ..sql.on_commit import Once, after_commit
from ..values.acquired_job import AcquiredJob, from_row
from ..values.followers import Followers
from ..values.inserted_rows import NewJob, Table


class Home(Protocol):
    """A node, as the home of jobs that its handlers enqueue. Neither call raises."""

    def expect(self, followers: Followers, jobs: Sequence[AcquiredJob], connection: BaseDatabaseWrapper) -> None:
        """These jobs are about to be inserted by this connection, locked by this node."""
        ...

    def arrive(self, followers: Followers, jobs: Sequence[AcquiredJob]) -> None:
        """A transaction that inserted these jobs is committed; savepoints with some of them may be rolled back."""
        ...


class Hold:
    """The first ``count`` jobs of an insert are locked by ``owner`` for the run whose handler enqueues them."""

    def __init__(self, home: Home, followers: Followers, share: str, columns: Mapping[str, Any], count: int) -> None:
        self.home, self.followers, self.count = home, followers, count
        #: The lock, as columns of the rows.
        self.columns = columns
        self._share = share
        self._jobs: list[AcquiredJob] = []

    def expect(self, rows: Sequence[NewJob], ahead: Any = None) -> None:
        """Announce the rows to the node before it can find them in the table.

        ``ahead`` is what their handler would look up.
        """
        using = rows[0]._state.db or "default"
        for row in rows:
            values = (getattr(row, name) for name in AcquiredJob.COLUMNS)
            job = from_row((*values, None), using, self.columns["lock_owner"])
            job.acquired_by = self._share
            job.followers = Followers(self.followers.streak)
            if ahead is not None:
                job.ahead = clock.monotonic(), ahead
            self._jobs.append(job)
        self.home.expect(self.followers, self._jobs, connections[using])

    def hand_over(self, using: str) -> None:
        """Give the inserted rows to the node once they are committed."""
        connection = connections[using]
        arrival = _once.waiting(connection)
        if arrival is not None:
            arrival.add(self.home, self.followers, self._jobs)
            return
        arrival = _Arrival()
        arrival.add(self.home, self.followers, self._jobs)
        after_commit(connection, arrival)


class _Arrival:
    """The follow-ups of one transaction."""

    def __init__(self) -> None:
        self._jobs: dict[Followers, tuple[Home, list[AcquiredJob]]] = {}

    def add(self, home: Home, followers: Followers, jobs: Sequence[AcquiredJob]) -> None:
        self._jobs.setdefault(followers, (home, []))[1].extend(jobs)

    def __call__(self) -> None:
        for followers, (home, jobs) in self._jobs.items():
            home.arrive(followers, jobs)


_once = Once(_Arrival)

#: Asked with the database, the common columns of jobs about to be inserted, and their number.
Holder: TypeAlias = Callable[[str, Mapping[str, Any], int], Hold | None]

_holders: list[Holder] = []


def ask_before_inserts(holder: Holder) -> None:
    """Let ``holder``, of the executors in this process, decide about the jobs that their handlers enqueue."""
    if holder not in _holders:
        _holders.append(holder)


def hold_for(using: str, table: Table, columns: Mapping[str, Any], count: int) -> Hold | None:
    """Whether jobs that are about to be inserted stay with the node that runs the calling code. Costs no statement."""
    if table is Job:
        for holder in _holders:  # none in a process without an executor
            if (hold := holder(using, columns, count)) is not None:
                return hold
    return None
