"""The keys by which external workers identify jobs and incidents: positive 64-bit numbers, each assigned once."""

from __future__ import annotations

import os
import threading

from jobexec.models import KeyBlock

from ..sql.delete import delete_rows
from ..sql.dialect import dialect
from ..sql.locks import atomic
from ..sql.place import place

BLOCK = 1024
"""The number of keys in one row of KeyBlock."""


class _Store:
    """The unused keys of the blocks that this process has taken, by their :func:`place`."""

    def __init__(self) -> None:
        self.lock, self.process = threading.Lock(), os.getpid()
        self.left: dict[tuple[str, str, str], list[range]] = {}


_store = _Store()


def next_keys(using: str, count: int) -> list[int]:
    """Return ``count`` new keys in ascending order; needs one statement for each block of 1024 keys, mostly none.

    Where the database never reuses an automatic primary key, even if its transaction is rolled back (PostgreSQL,
    MariaDB, MySQL), the rest of a block is kept for the next call. SQLite takes the number back with the transaction,
    so there every call takes a new block; earlier blocks are no longer needed and are deleted.
    """
    if count <= 0:
        return []
    if not dialect(using).numbers_are_final:
        return _fresh(using, count)
    where = place(using)
    found = _kept(where, count)
    lacking = count - len(found)
    if lacking:
        blocks = _blocks(using, -(-lacking // BLOCK))
        found += [key for block in blocks for key in block][:lacking]
        _keep(where, range(found[-1] + 1, blocks[-1].stop))
    return found


def _fresh(using: str, count: int) -> list[int]:
    with atomic(using):
        blocks = _blocks(using, -(-count // BLOCK))
        delete_rows(KeyBlock.objects.using(using).filter(pk__lt=blocks[-1].start // BLOCK))
    return [key for block in blocks for key in block][:count]


def _blocks(using: str, count: int) -> list[range]:
    # One INSERT each: MySQL does not return the keys of several rows.
    numbers = [KeyBlock.objects.using(using).create().pk for _ in range(count)]
    return [range(number * BLOCK, (number + 1) * BLOCK) for number in numbers]


def _kept(where: tuple[str, str, str], count: int) -> list[int]:
    with _store.lock:
        if _store.process != os.getpid():  # after a fork the remaining keys belong to the parent
            _store.left, _store.process = {}, os.getpid()
        found: list[int] = []
        left = _store.left.get(where, [])
        while left and len(found) < count:
            block = left.pop()
            taken = block[: count - len(found)]
            found += taken
            if len(taken) < len(block):
                left.append(block[len(taken) :])
        return found


def _keep(where: tuple[str, str, str], block: range) -> None:
    if block:
        with _store.lock:
            _store.left.setdefault(where, []).append(block)
