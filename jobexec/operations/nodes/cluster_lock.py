"""Fenced locks that one node at a time holds: to acquire jobs (Flowable: the global acquire lock), to clean up."""

from __future__ import annotations

import logging
from datetime import timedelta

from jobexec import clock
from jobexec.models import AcquisitionLock

from ..sql.locks import atomic, lock_rows

logger = logging.getLogger("jobexec.acquisition")

ACQUIRE_JOBS, CLEAN_UP = "acquire-jobs", "clean-up-history"


def take(using: str, owner: str, force_after: timedelta, name: str = ACQUIRE_JOBS) -> int | None:
    """Take the lock and return the token that proves it, or None if another node holds it.

    A lock that has been held for longer than ``force_after`` is taken over (Flowable: forceAcquireAfter): its holder
    has died or stalled. The token then changes, so a holder that wakes up acquires nothing and releases nothing. Never
    waits for a row that another node is just changing.
    """
    with atomic(using):
        row = lock_rows(AcquisitionLock.objects.using(using).filter(name=name), skip_locked=True).first()
        if row is None:
            return _create(using, owner, force_after, name)
        now = clock.now(using)
        free = row.lock_owner in (None, owner) or row.lock_expiration_time is None or row.lock_expiration_time <= now
        if not free:
            return None
        if row.lock_owner not in (None, owner):
            text = "Taking over the lock %s on %s from %s, which has held it too long"
            logger.warning(text, name, using, row.lock_owner)
        values = {"lock_owner": owner, "token": row.token + 1, "lock_expiration_time": now + force_after}
        AcquisitionLock.objects.using(using).filter(pk=row.pk).update(**values)
    return row.token + 1


def _create(using: str, owner: str, force_after: timedelta, name: str) -> int | None:
    """Insert the row as the very first node; the row may also exist and be locked by another node."""
    table = AcquisitionLock.objects.using(using)
    first = AcquisitionLock(name=name, lock_owner=owner, token=1, lock_expiration_time=clock.now(using) + force_after)
    if table.filter(name=name).exists():
        return None
    table.bulk_create([first], ignore_conflicts=True)
    return 1 if table.filter(name=name, lock_owner=owner, token=1).exists() else None


def confirm(using: str, owner: str, token: int) -> bool:
    """Whether the lock is still ours; if so, it cannot be taken over before this transaction ends."""
    held = AcquisitionLock.objects.using(using).filter(name=ACQUIRE_JOBS, lock_owner=owner, token=token)
    return lock_rows(held).first() is not None


def prolong(using: str, owner: str, token: int, force_after: timedelta, name: str) -> bool:
    """Hold the lock for ``force_after`` from now if it is still ours; return whether it was."""
    held = AcquisitionLock.objects.using(using).filter(name=name, lock_owner=owner, token=token)
    return bool(held.update(lock_expiration_time=clock.now(using) + force_after))


def release(using: str, owner: str, token: int, name: str = ACQUIRE_JOBS) -> bool:
    """Release the lock if it is still ours; return whether it was."""
    held = AcquisitionLock.objects.using(using).filter(name=name, lock_owner=owner, token=token)
    return bool(held.update(lock_owner=None, lock_expiration_time=None))


def release_of(using: str, owner: str) -> None:
    """Release all locks of an owner that is dead or has stopped."""
    held = AcquisitionLock.objects.using(using).filter(lock_owner=owner)
    held.update(lock_owner=None, lock_expiration_time=None)
