"""Asynchronous continuations of several hierarchies in one transaction (:class:`~jobexec.handlers.base.RunGroup`).

At first all topmost rows are locked, in the order of their ids and without waiting for those that other steps have
locked, unless there is only one, and loaded in one statement. Then the jobs run one after the other: each moves the
tokens of its hierarchy in memory. At the end, all changes are written together.

A job that fails leaves its hierarchy in an unknown state: it is loaded again, and the steps of the jobs before it are
taken again, with what their calls have returned.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any
from uuid import UUID

from jobexec import clock, tracing
from jobexec.conf import get_settings
from jobexec.operations.sql.server_time import keep_time
from jobexec.operations.values.acquired_job import AcquiredJob

from ..definition import Process, Trigger
from ..engine.inputs import Continue
from ..engine.rows import State
from ..engine.step import Steps
from ..engine.tokens import Tokens
from ..models import ProcessInstance
from ..store import definitions, load, lock
from .environment import StepEnvironment, is_quick, noting_variables
from .rehearsal import Done, Recording, Replay
from .stepping import Step, write

#: Seconds for which the jobs of a hierarchy are not looked at again whose process does not fit.
_ALONE = 5.0
#: So many hierarchies are remembered.
_KEPT = 1_000
#: Until when, by the monotonic clock, by the ids of their topmost instances.
_alone: dict[UUID, float] = {}


def begin_steps(using: str, jobs: Sequence[tuple[AcquiredJob, Any]]) -> StepGroup | None:
    """Lock and load the hierarchies of these continuations; None if no two of them can share a transaction."""
    if not get_settings().processes.shared_transactions:
        return None
    now = clock.monotonic()
    places: dict[UUID, list[UUID]] = {}
    for _, (_, kwargs) in jobs:
        root = UUID(kwargs["root"])
        if _alone.get(root, now) <= now:
            places.setdefault(root, []).append(UUID(kwargs["token"]))
    if sum(map(len, places.values())) < 2:
        return None
    keep_time(using)
    origins, _ = lock.locked_now(using, places)
    if not origins and len(places) == 1:  # a fork, of which another step has the lock: alone, each would wait for it
        (root,) = places
        origin = lock.locked(using, root)
        origins = {} if origin is None else {root: origin}
    fit = {root: origin for root, origin in origins.items() if _fits(using, origin)}
    loaded = load.load_all(using, fit, {root: places[root] for root in fit}) if fit else {}
    found = {root: Hierarchy(using, fit[root], tokens, places[root]) for root, tokens in loaded.items()}
    return StepGroup(using, found)


def _fits(using: str, origin: ProcessInstance) -> bool:
    """Whether no step of a process calls code of the project except at its beginning, where the group can undo it."""
    process = definitions.process(using, origin.definition_id)
    fits = process.works_in_jobs and Trigger.FAILURE not in process.awaits
    if not fits:
        if len(_alone) >= _KEPT:
            _alone.clear()
        _alone[origin.pk] = clock.monotonic() + _ALONE
    return fits


class Hierarchy:
    """One hierarchy of a group, and the steps that were taken in it."""

    def __init__(self, using: str, origin: ProcessInstance, tokens: Tokens, places: Collection[UUID]) -> None:
        self.using, self.origin, self.places = using, origin, places
        #: The continuations that were taken, and the call that each began with.
        self.taken: list[tuple[Continue, str, Done | None]] = []
        #: A step has begun that has not ended.
        self.torn = False
        self._begin(tokens)

    def _begin(self, tokens: Tokens) -> None:
        self.tokens = tokens
        self._steps = Steps(tokens, StepEnvironment(self.using, self.origin.tenant_id))

    @property
    def process(self) -> Process:
        return definitions.process(self.using, self.origin.definition_id)

    def begins_quickly(self, token: UUID) -> bool:
        """Whether the continuation of a token calls nothing, or a handler that is known to be quick."""
        if not self.tokens.has_at_hand(token):
            return False
        found = self.tokens.place(token)
        work = self.process.node(found.element).work if found.state is State.BEFORE else None
        return work is None or work.called_in_step is None or is_quick(work.called_in_step)

    def take(self, event: Continue) -> None:
        """Take a step; raises what its handler raises."""
        environment = Recording(self.using, self.origin.tenant_id)
        trace = self.tokens.trace = tracing.current() if tracing.AVAILABLE else ""
        self.torn = True
        with noting_variables(self.tokens):
            self._steps.occur(event, environment)
        self.torn = False
        self.taken.append((event, trace, environment.done))

    def mend(self) -> None:
        """Take again what was taken before the step that has failed."""
        self._begin(load.load(self.using, self.origin, self.places))
        for event, trace, done in self.taken:
            self.tokens.trace = trace
            environment = None if done is None else Replay(self.using, self.origin.tenant_id, done)
            self._steps.occur(event, environment)
            if environment is not None:
                environment.check_taken()
        self.torn = False

    def end(self) -> Step | None:
        """What has changed; None if nothing has."""
        changes = self._steps.end()
        return Step(self.origin, self.tokens, changes) if changes.accepted else None


class StepGroup:
    """The hierarchies of a group, by the ids of their topmost instances; not those whose jobs run alone."""

    def __init__(self, using: str, hierarchies: dict[UUID, Hierarchy]) -> None:
        self._using, self._hierarchies = using, hierarchies

    def takes(self, arguments: Any) -> bool:
        """Whether a job shares the transaction: no handler that may be slow runs while others wait for their commit."""
        _, kwargs = arguments
        hierarchy = self._hierarchies.get(UUID(kwargs["root"]))
        return hierarchy is not None and hierarchy.begins_quickly(UUID(kwargs["token"]))

    def take(self, root: UUID, event: Continue) -> None:
        """Take a step for the job that runs."""
        self._hierarchies[root].take(event)

    def undo(self) -> None:
        """The run has failed, and its statements are undone."""
        for hierarchy in self._hierarchies.values():
            if hierarchy.torn:
                hierarchy.mend()

    def end(self) -> None:
        """Write all that the steps have changed."""
        steps = (hierarchy.end() for hierarchy in self._hierarchies.values())
        write(self._using, [each for each in steps if each is not None])
