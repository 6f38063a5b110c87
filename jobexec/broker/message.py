"""The messages to executors: which jobs have become executable. Small, and versioned."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import NamedTuple
from uuid import UUID

#: The version that this release writes. An unreadable message counts as a sign that there are jobs.
VERSION = 1

#: The most ids in one message. A node takes a message as a whole, so a few heavy jobs go to few nodes; but a hundred
#: thousand jobs must not be a hundred thousand messages.
MOST_IDS = 50

#: Ids and bytes of the largest message that is read. Other releases may put more in one than this, but not that much.
_MOST_READ, _MOST_BYTES = 1000, 64 * 1024

#: Brokers distinguish three classes of priority; within one, the rank of the rows decides their order.
LOW, NORMAL, HIGH = 0, 1, 2


class Announcement(NamedTuple):
    """Jobs of one engine that became executable, with the same category, deployment and class of priority."""

    engine: str
    category: str
    deployment: str
    level: int
    ids: list[UUID]


class UnknownMessage(Exception):
    """The received message is not an announcement, or one of another release."""


def level_of(priority: int) -> int:
    """The class of a job's priority."""
    return HIGH if priority > 0 else LOW if priority < 0 else NORMAL


def queue_name(prefix: str, engine: str, category: str, deployment: str = "") -> str:
    """The queue of the jobs of one engine, category and deployment: a contiguous range of the acquisition index."""
    return ".".join([prefix, engine, category]) + (f"@{deployment}" if deployment else "")


def encode(announcement: Announcement) -> str:
    """The body of a message."""
    engine, category, deployment, _, ids = announcement
    body = {"v": VERSION, "engine": engine, "category": category, "deployment": deployment}
    return json.dumps({**body, "ids": [id.hex for id in ids]}, separators=(",", ":"))


def decode(text: str | bytes, engine: str) -> list[UUID]:
    """The ids in a message for this engine. Raises UnknownMessage for anything that :func:`encode` does not make."""
    if len(text) > _MOST_BYTES:
        raise UnknownMessage(f"a message of {len(text)} bytes; at most {_MOST_BYTES} are read")
    try:
        body = json.loads(text)
        version, addressee, ids = body["v"], body["engine"], body["ids"]
        if version == VERSION and addressee == engine and isinstance(ids, list) and len(ids) <= _MOST_READ:
            return [UUID(hex=id) for id in ids]
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise UnknownMessage(f"not an announcement: {error}") from error
    many = f" with {len(ids)} ids" if isinstance(ids, list) else ""
    raise UnknownMessage(f"an announcement{many} of version {version!r} for engine {addressee!r}")


def pieces(announcement: Announcement) -> Iterator[Announcement]:
    """Split the announcement into ones small enough for a message."""
    ids = announcement.ids
    for start in range(0, len(ids), MOST_IDS):
        yield announcement._replace(ids=ids[start : start + MOST_IDS])


def merged(announcements: Iterable[Announcement]) -> list[Announcement]:
    """Merge announcements into as few as possible, by descending importance and then in order of arrival."""
    found: dict[tuple[str, str, str, int], list[UUID]] = {}
    for engine, category, deployment, level, ids in announcements:
        found.setdefault((engine, category, deployment, level), []).extend(ids)
    together = [Announcement(*key, ids) for key, ids in found.items()]
    return sorted(together, key=lambda each: -each.level)
