"""Publish messages, in the caller's transaction."""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

from django.db import OperationalError, router

from jobexec import clock
from jobexec.conf import get_settings
from jobexec.conf.messages import LENGTH, TENANT_LENGTH, check_duration, check_key, check_name, check_text
from jobexec.encryption import stored_payload
from jobexec.exceptions import InvalidJob, TooManyMessages
from jobexec.json_values import shown
from jobexec.models import Message

from ..audit import audited, note
from ..history.keys import next_keys
from ..notify.wake import wake_on_commit
from ..sql.delete import delete_rows
from ..sql.insert import insert_missing
from ..sql.locks import atomic, lock_rows
from ..sql.place import place
from ..sql.server_time import keep_time
from ..values.messages import check_payload

#: The key of a message of a gateway's client that only starts processes: no job waits for it. In Python an empty key is
#: a mistake.
NO_KEY: Any = object()
#: How often the row of a known message id may change under an insert.
_ROUNDS = 10
#: Seconds for which a process relies on its last count of a tenant's messages.
_BELIEVED = 5.0

#: Called with the database and each new message, in the transaction of its publication.
_receivers: list[Callable[[str, Message], None]] = []


def add_receiver(receive: Callable[[str, Message], None]) -> None:
    """Let another app receive each message that is published, in its transaction; a second call is ignored."""
    if receive not in _receivers:
        _receivers.append(receive)


@audited
def publish_message(
    name: str,
    *,
    key: Any,
    payload: Any = None,
    ttl: timedelta | float | str | None = None,
    message_id: str | None = None,
    tenant_id: str = "",
    using: str | None = None,
) -> Message:
    """Publish a message for every job that waits for this name and key, in the current transaction.

    After the commit an executor releases the jobs, in pages. They get the message as ``current_job().message``. With
    ``ttl`` (a timedelta, seconds or an ISO 8601 string) the message is kept for this time, for jobs that begin to wait
    later. Without it, only jobs that wait already receive the message. If a message with the same ``message_id`` is
    kept for the same name, key and tenant, this returns that message with ``is_duplicate`` and writes nothing.

    ``payload`` is JSON, at most MESSAGE_MAX_PAYLOAD bytes; a key in ENCRYPTION_KEYS encrypts it. Raises
    :class:`~jobexec.exceptions.InvalidJob` before anything is written, and
    :class:`~jobexec.exceptions.TooManyMessages` for a message that would be kept beside MESSAGE_MAX_KEPT others of its
    tenant.
    """
    database = using or router.db_for_write(Message)
    settings = get_settings()
    settings.engine(database)
    columns = {
        "tenant_id": "" if tenant_id == "" else check_text("tenant_id", tenant_id, TENANT_LENGTH),
        "name": check_name("name", name),
        "key": "" if key is NO_KEY else check_key("key", key),
        "message_id": None if message_id is None else check_text("message_id", message_id, LENGTH),
    }
    check_payload(payload)
    kept = _kept_for(ttl)
    keep_time(database)
    now = clock.now(database)
    if kept:
        _check_room(database, tenant_id)
    row = Message(**columns, payload=payload, create_time=now, delivery_time=now)
    row.expiration_time = now + kept if kept else None
    with atomic(database):
        known = _insert(database, row, now)
        if known is None:
            note(database, "message", str(row.pk), new={"name": row.name, "key": row.key}, tenant=row.tenant_id)
            for receive in _receivers:
                receive(database, row)
            wake_on_commit(database, messages=True)
    if known is not None:
        known.is_duplicate = True
        return known
    return row


def _kept_for(ttl: Any) -> timedelta | None:
    if ttl is None:
        return None
    duration, longest = check_duration("ttl", ttl), get_settings().message_max_ttl
    if duration > longest:
        raise InvalidJob(f"ttl: expected at most {longest} (setting MESSAGE_MAX_TTL), got {shown(ttl)}.")
    return duration or None


def _insert(using: str, row: Message, now: datetime) -> Message | None:
    """Insert the row, unless a message with its message id is kept: then return that."""
    (row.pk,) = next_keys(using, 1)
    row._state.db, row.payload = using, stored_payload(row.payload, row.pk)
    if row.message_id is None:
        row.save(using=using, force_insert=True)
        return None
    values = {field.attname: getattr(row, field.attname) for field in Message._meta.concrete_fields}
    same = Message.objects.using(using).filter(
        tenant_id=row.tenant_id, name=row.name, key=row.key, message_id=row.message_id
    )
    known = same.first()  # nearly always this finds it, without a lock
    if known is not None and not _is_over(known, now):
        return known
    for _ in range(_ROUNDS):
        insert_missing(using, Message, [values])  # waits for a transaction that publishes the same one
        found = lock_rows(same).first()
        if found is not None and found.pk == row.pk:
            row._state.adding = False
            return None
        if found is None:
            continue
        if not _is_over(found, now):
            return found
        delete_rows(Message.objects.using(using).filter(pk=found.pk))
    raise OperationalError("changed", f"The message {row.message_id!r} has changed on every attempt.")


def _is_over(row: Message, now: datetime) -> bool:
    return row.delivery_time is None and (row.expiration_time is None or row.expiration_time <= now)


class _Rooms:
    """Which tenants keep as many messages as they may, by the last counts of this process.

    Counting at each publication would cost more than the publication.
    """

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.seen: dict[tuple[tuple[str, str, str], str, int], tuple[float, bool]] = {}


_rooms = _Rooms()


def _check_room(using: str, tenant_id: str) -> None:
    most = get_settings().message_max_kept
    if most is None:
        return
    now = clock.monotonic()
    key = (place(using), tenant_id, most)
    seen = _rooms.seen.get(key)
    if seen is None or not 0 <= now - seen[0] < _BELIEVED:
        kept = Message.objects.using(using).filter(tenant_id=tenant_id, expiration_time__isnull=False)
        full = bool(kept.order_by().values("pk")[most - 1 : most])
        with _rooms.lock:
            if len(_rooms.seen) > 10_000:
                _rooms.seen.clear()
            _rooms.seen[key] = seen = now, full
    if seen[1]:
        of = f" of tenant {tenant_id!r}" if tenant_id else ""
        raise TooManyMessages(f"{most:,} messages{of} are already kept (setting MESSAGE_MAX_KEPT).")
