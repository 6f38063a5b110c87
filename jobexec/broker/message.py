"""What is said to the executors: which jobs have become executable. Small, and versioned."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import NamedTuple
from uuid import UUID

#: What this release writes. What it cannot read it takes for a sign that there are jobs.
VERSION = 1

#: The most ids in one message. A node takes a message as a whole, so a few heavy jobs go to few nodes; but a hundred
#: thousand jobs must not be a hundred thousand messages.
MOST_IDS = 50

#: Ids and bytes of the largest message that is read. Other releases may put more into one than this, but not that much.
_MOST_READ, _MOST_BYTES = 1000, 64 * 1024

#: Brokers tell three classes of priority apart; which row comes first within one is decided by its rank.
LOW, NORMAL, HIGH = 0, 1, 2


class Announcement(NamedTuple):
    """Jobs of one engine that became executable, alike in what decides who may have them and how soon."""

    engine: str
    category: str
    deployment: str
    level: int
    ids: list[UUID]


class UnknownMessage(Exception):
    """What was received is no announcement, or one of another release."""


def level_of(priority: int) -> int:
    """The class of a job's priority."""
    return HIGH if priority > 0 else LOW if priority < 0 else NORMAL


def queue_name(prefix: str, engine: str, category: str, deployment: str = "") -> str:
    """The queue of the jobs of one engine, category and deployment: one run of the acquisition index each."""
    return ".".join([prefix, engine, category]) + (f"@{deployment}" if deployment else "")


def encode(announcement: Announcement) -> str:
    """The body of a message."""
    engine, category, deployment, _, ids = announcement
    body = {"v": VERSION, "engine": engine, "category": category, "deployment": deployment}
    return json.dumps({**body, "ids": [id.hex for id in ids]}, separators=(",", ":"))


def decode(text: str | bytes, engine: str) -> list[UUID]:
    """The ids in a message for this engine. Raises UnknownMessage for anything else than :func:`encode` makes."""
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
    """The same, each small enough for a message."""
    ids = announcement.ids
    for start in range(0, len(ids), MOST_IDS):
        yield announcement._replace(ids=ids[start : start + MOST_IDS])


def merged(announcements: Iterable[Announcement]) -> list[Announcement]:
    """As few announcements as say the same, more important ones first, else in the order in which they came."""
    found: dict[tuple[str, str, str, int], list[UUID]] = {}
    for engine, category, deployment, level, ids in announcements:
        found.setdefault((engine, category, deployment, level), []).extend(ids)
    together = [Announcement(*key, ids) for key, ids in found.items()]
    return sorted(together, key=lambda each: -each.level)
