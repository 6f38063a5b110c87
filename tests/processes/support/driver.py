"""Drives an instance by chance: completes, runs, fires and fails whatever there is, until it has ended."""

from __future__ import annotations

from collections.abc import Callable, Set
from typing import Any
from uuid import UUID

from jobexec.processes.engine.inputs import Completed, Continue, ErrorThrown, JobDone, JobFailed, Retried, Triggered
from jobexec.processes.engine.rows import JobKind, State

from .world import World

Choose = Callable[[int], int]


def actions(world: World, kinds: Set[str]) -> list[tuple[Any, UUID | None]]:
    """What can happen now: events, each with the job that ends by it."""
    found: list[tuple[Any, UUID | None]] = []
    for token in world.tokens.values():
        found += of_token(world, token, kinds)
    if "timer" in kinds:
        timers = [job for job in world.jobs.values() if job.kind is JobKind.TIMER]
        found += [(Triggered(job.owner, job.element, job.activity), job.id) for job in timers]
    if "message" in kinds:
        rows = world.subscriptions.values()
        found += [(Triggered(row.owner, row.element, row.activity), None) for row in rows]
    return found


def of_token(world: World, token: Any, kinds: Set[str]) -> list[tuple[Any, UUID | None]]:
    if token.state in (State.BEFORE, State.AFTER):
        return [(Continue(token.id, token.job), token.job)]
    if token.state is State.OUTSIDE:
        found: list[tuple[Any, UUID | None]] = [(JobDone(token.id, token.job), token.job)]
        if "error" in kinds:
            found.append((JobFailed(token.id, token.job), token.job))
            found.append((ErrorThrown(token.id, token.activity, "E1"), token.job))
        return found
    if token.state is State.FAILED:
        return [(Retried(token.id), None)]
    node = world.processes[world.instances[token.instance].definition].node(token.element)
    if token.state is State.WAITING and node.kind in ("userTask", "receiveTask"):
        return [(Completed(token.id, token.activity), None)]
    return []


def drive(world: World, root: UUID, choose: Choose, kinds: Set[str] = frozenset(), limit: int = 400) -> int:
    """Until the instance has ended. Returns the number of steps; raises if it goes nowhere."""
    for number in range(limit):
        if not world.running(root):
            return number
        found = actions(world, kinds)
        assert found, f"nothing can happen: {list(world.tokens.values())}"
        event, job = found[choose(len(found))]
        world.do(event, root, job)
    raise AssertionError(f"not ended after {limit} steps")
