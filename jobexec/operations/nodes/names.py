"""The names of nodes as people see them."""

from __future__ import annotations

from collections.abc import Iterable

from jobexec.models import ExecutorNode


def name_in(lock_owner: str) -> str:
    """The node's name in a lock owner (name:boot)."""
    return lock_owner.rpartition(":")[0] or lock_owner


def names_of(using: str, lock_owners: Iterable[str | None]) -> dict[str, str]:
    """The name of each lock owner, with the process if several nodes have it. One statement, or none for no owner."""
    owners = {owner for owner in lock_owners if owner is not None}
    if not owners:
        return {}
    nodes = ExecutorNode.objects.using(using).filter(lock_owner__in=owners).told_apart()
    return {owner: name_in(owner) for owner in owners} | {node.lock_owner: node.label for node in nodes}
