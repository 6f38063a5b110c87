"""Clients of the gateways as a person or a program changes them: create, change, rotate, enable, delete.

What the gateways ask of them is :mod:`jobexec.gateways.auth`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from django.db import IntegrityError, transaction
from django.db.models import F

from jobexec import clock
from jobexec.exceptions import ClientNotFound, InvalidClient
from jobexec.models import GatewayClient

from .audit import audited, is_on, note
from .sql.locks import atomic, lock_rows
from .values.client_secrets import digest, new_secret

#: What a client may be allowed: to fetch and finish jobs, and change their deadlines; to look for jobs and incidents;
#: to change retries and priority; to resolve incidents.
PERMISSIONS = ("work", "search", "update", "resolve")

#: So long before credentials end, lists warn.
WARN_BEFORE = timedelta(days=14)

#: What these columns of a job hold.
_LONGEST = {"types": 255, "tenants": 64}


@audited
def create_client(
    using: str,
    *,
    name: str,
    types: Iterable[str] = (),
    tenants: Iterable[str] = (),
    permissions: Iterable[str] = ("work",),
    max_requests_per_second: int | None = None,
    expiration_time: datetime | None = None,
    enabled: bool = True,
) -> tuple[GatewayClient, str]:
    """A new client, and its secret, which is to be shown now or never.

    ``types`` are those of the jobs that it may work on, none for all; one that ends in ``*`` stands for all that begin
    like it. ``tenants`` likewise, the empty text for jobs without a tenant. ``permissions`` are of :data:`PERMISSIONS`.
    ``max_requests_per_second``: None for what the settings say, 0 for no limit. Raises
    :class:`~jobexec.exceptions.InvalidClient`, whose ``field`` is the one that is wrong.
    """
    values = checked_client(
        types=types,
        tenants=tenants,
        permissions=permissions,
        max_requests_per_second=max_requests_per_second,
        expiration_time=expiration_time,
        enabled=enabled,
    )
    secret = new_secret()
    row = GatewayClient(name=checked_name(name), token_digest=digest(secret), **values)
    try:
        with transaction.atomic(using=using):
            row.save(using=using, force_insert=True)
            _note(using, row.name, None, values)
    except IntegrityError:
        raise InvalidClient(f"name: there is a client {name!r} already.") from None
    return row, secret


@audited
def change_client(using: str, name: str, **values: Any) -> None:
    """Change these columns of a client; the others, and its secret, stay. Raises InvalidClient, ClientNotFound."""
    _change(using, name, **checked_client(**values))


@audited
def rotate_secret(using: str, name: str, *, keep_old: bool = False, old_until: datetime | None = None) -> str:
    """Give a client a new secret, which is to be shown now or never. The old ones, and their tokens, end.

    With ``keep_old`` the secret that it has is good beside the new one until ``old_until``, or without a time until it
    is retired (:func:`retire_secret`); one before that ends. Gateways may take what has ended for a few seconds more:
    what they have just verified. Raises ClientNotFound, and InvalidClient for a time that is not ahead or without
    ``keep_old``.
    """
    _check_old_until(using, keep_old, old_until)
    secret = new_secret()
    _change(
        using,
        name,
        # In this order: MySQL sets one column after the other, and the first is told by the second as it was.
        previous_token_digest=F("token_digest") if keep_old else None,
        previous_expiration_time=old_until,
        token_digest=digest(secret),
    )
    return secret


def _check_old_until(using: str, keep_old: bool, old_until: datetime | None) -> None:
    _boolean("keep_old", keep_old)
    if _time("old_until", old_until) is None:
        return
    if not keep_old:
        raise InvalidClient("old_until: expected a time only together with keep_old.", "old_until")
    if old_until is not None and old_until <= clock.now(using):
        raise InvalidClient(f"old_until: expected a time that lies ahead, got {old_until}.", "old_until")


@audited
def retire_secret(using: str, name: str) -> None:
    """End the secret that a client had before the one it has, and its tokens. Raises ClientNotFound."""
    _change(using, name, previous_token_digest=None, previous_expiration_time=None)


def has_old_secret(row: GatewayClient, now: datetime) -> bool:
    """Whether the client may still come with the secret before."""
    ends = row.previous_expiration_time
    return row.previous_token_digest is not None and (ends is None or ends > now)


def expires_soon(row: GatewayClient, now: datetime) -> bool:
    """Whether what a client has to come with ends within :data:`WARN_BEFORE`, or has ended: the client itself, or its
    old secret."""
    moments = [row.expiration_time, row.previous_expiration_time if has_old_secret(row, now) else None]
    return any(moment is not None and moment <= now + WARN_BEFORE for moment in moments)


@audited
def set_client_enabled(using: str, name: str, enabled: bool) -> None:
    """Let a client in, or not any more; a gateway may let it in for a few seconds more. Raises ClientNotFound."""
    _change(using, name, enabled=enabled)


@audited
def delete_client(using: str, name: str) -> None:
    """For good. Raises ClientNotFound."""
    rows = GatewayClient.objects.using(using).filter(name=name)
    with atomic(using):
        row = rows.first() if is_on() else None
        deleted = rows.delete()[0]
        if row is not None:
            _note(using, name, {column: getattr(row, column) for column in _CHECKS}, None)
    if not deleted:  # outside, or a transaction of the caller's could not go on
        raise ClientNotFound(f"There is no client {name!r}.")


def _change(using: str, name: str, **values: Any) -> None:
    rows = GatewayClient.objects.using(using).filter(name=name)
    with atomic(using):
        row = lock_rows(rows).first() if is_on() else None
        # MySQL counts only rows that have become different.
        found = rows.update(**values) or rows.exists()
        if row is not None:
            _note(using, name, {column: getattr(row, column) for column in values}, values)
    if not found:  # outside, or a transaction of the caller's could not go on
        raise ClientNotFound(f"There is no client {name!r}.")


def _note(using: str, name: str, old: Mapping[str, Any] | None, new: Mapping[str, Any] | None) -> None:
    tenants: Sequence[str] = (new or {}).get("tenants") or (old or {}).get("tenants") or ()
    if old and new:
        changed = {column for column, value in new.items() if value != old[column]}
        old = {column: old[column] for column in changed}
        new = {column: new[column] for column in changed}
    note(using, "gatewayclient", name, old=old, new=new, tenant=tenants[0] if len(tenants) == 1 else None)


def checked_name(name: Any) -> str:
    """The name, if a client may have it. Raises InvalidClient.

    No colon, where HTTP basic authentication divides; nothing that cannot be seen.
    """
    if not isinstance(name, str) or not name or len(name) > 150 or ":" in name or not name.isprintable():
        raise InvalidClient(f"name: expected 1 to 150 characters that can be seen, and no colon, got {name!r}.")
    if name != name.strip():
        raise InvalidClient(f"name: expected no blank at its beginning or end, got {name!r}.")
    return name


def checked_client(**values: Any) -> dict[str, Any]:
    """The same values as the columns hold them. Raises InvalidClient for the first that cannot be."""
    return {field: _CHECKS[field](field, value) for field, value in values.items()}


def _names(field: str, value: Any) -> list[str]:
    if isinstance(value, str) or not isinstance(value, Iterable):
        raise InvalidClient(f"{field}: expected a list of texts, got {value!r}.", field)
    names = list(dict.fromkeys(value))
    for name in names:
        longest = _LONGEST.get(field, 255)
        if not isinstance(name, str) or len(name) > longest or not name.isprintable() or "," in name:
            raise InvalidClient(
                f"{field}: expected at most {longest} characters that can be seen, and no comma, got {name!r}.", field
            )
    return names


def _types(field: str, value: Any) -> list[str]:
    names = _names(field, value)
    for name in names:
        if not name or "*" in name[:-1]:
            raise InvalidClient(
                f"{field}: expected a type, or its beginning and one * at the end, got {name!r}.", field
            )
    return sorted(names)


def _tenants(field: str, value: Any) -> list[str]:
    return sorted(_names(field, value))


def _permissions(field: str, value: Any) -> list[str]:
    names = _names(field, value)
    if not names or not set(names) <= set(PERMISSIONS):
        raise InvalidClient(f"{field}: expected some of {', '.join(PERMISSIONS)}, got {names!r}.", field)
    return [permission for permission in PERMISSIONS if permission in names]


def _rate(field: str, value: Any) -> int | None:
    if value is not None and (isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= 1_000_000):
        raise InvalidClient(f"{field}: expected a whole number from 0 to 1000000, or None, got {value!r}.", field)
    return value


def _time(field: str, value: Any) -> datetime | None:
    if value is not None and (not isinstance(value, datetime) or value.utcoffset() is None):
        raise InvalidClient(f"{field}: expected an aware datetime or None, got {value!r}.", field)
    return value


def _boolean(field: str, value: Any) -> bool:
    if not isinstance(value, bool):
        raise InvalidClient(f"{field}: expected True or False, got {value!r}.", field)
    return value


_CHECKS: dict[str, Any] = {
    "types": _types,
    "tenants": _tenants,
    "permissions": _permissions,
    "max_requests_per_second": _rate,
    "expiration_time": _time,
    "enabled": _boolean,
}
