"""Changes to gateway clients by operators and programs: create, change, rotate, enable, delete.

The gateways authenticate them in :mod:`jobexec.gateways.auth`.
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

from ..audit import audited, is_on, note
from ..sql.locks import atomic, lock_rows
from ..values.client_secrets import digest, new_secret

#: The permissions of clients: fetch and finish jobs, and change their deadlines; search jobs and incidents; change
#: retries and priority; resolve incidents; publish messages. Of processes: search also their instances and tasks,
#: change also their variables, and cancel them; publish also signals; deploy them; start them; complete user tasks.
PERMISSIONS = ("work", "search", "update", "resolve", "publish", "deploy", "start", "tasks")

#: How long before the expiration of credentials lists show a warning.
WARN_BEFORE = timedelta(days=14)

#: The maximum lengths of these columns of a job.
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
    """Create a client; return it with its secret, which cannot be shown again.

    ``types`` are the types of jobs that it may work on, empty for all; a type that ends in ``*`` is a prefix.
    ``tenants`` likewise, with the empty text for jobs without a tenant. ``permissions`` are some of
    :data:`PERMISSIONS`. ``max_requests_per_second``: None for the value in the settings, 0 for no limit. Raises
    :class:`~jobexec.exceptions.InvalidClient`, whose ``field`` names the invalid field.
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
    """Change only these columns of a client. Raises InvalidClient, ClientNotFound."""
    _change(using, name, **checked_client(**values))


@audited
def rotate_secret(using: str, name: str, *, keep_old: bool = False, old_until: datetime | None = None) -> str:
    """Give a client a new secret, which cannot be shown again. The old secrets and their tokens become invalid.

    With ``keep_old``, the current secret stays valid in addition to the new one until ``old_until``, or without a time
    until it is retired (:func:`retire_secret`); an older secret becomes invalid. Gateways may accept credentials that
    they have just verified for a few seconds more. Raises ClientNotFound, and InvalidClient for a time that is not in
    the future or without ``keep_old``.
    """
    _check_old_until(using, keep_old, old_until)
    secret = new_secret()
    _change(
        using,
        name,
        # In this order: MySQL assigns one column after the other, and the first takes the old value of the last.
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
        raise InvalidClient(f"old_until: expected a time in the future, got {old_until}.", "old_until")


@audited
def retire_secret(using: str, name: str) -> None:
    """Invalidate a client's previous secret and its tokens. Raises ClientNotFound."""
    _change(using, name, previous_token_digest=None, previous_expiration_time=None)


def has_old_secret(row: GatewayClient, now: datetime) -> bool:
    """Return whether the client's previous secret is still valid."""
    ends = row.previous_expiration_time
    return row.previous_token_digest is not None and (ends is None or ends > now)


def expires_soon(row: GatewayClient, now: datetime) -> bool:
    """Return whether the client, or its previous secret, expires within :data:`WARN_BEFORE`, or has expired."""
    moments = [row.expiration_time, row.previous_expiration_time if has_old_secret(row, now) else None]
    return any(moment is not None and moment <= now + WARN_BEFORE for moment in moments)


@audited
def set_client_enabled(using: str, name: str, enabled: bool) -> None:
    """Enable or disable a client; gateways may accept it for a few seconds more. Raises ClientNotFound."""
    _change(using, name, enabled=enabled)


@audited
def delete_client(using: str, name: str) -> None:
    """Delete a client permanently. Raises ClientNotFound."""
    rows = GatewayClient.objects.using(using).filter(name=name)
    with atomic(using):
        row = rows.first() if is_on() else None
        deleted = rows.delete()[0]
        if row is not None:
            _note(using, name, {column: getattr(row, column) for column in _CHECKS}, None)
    if not deleted:  # outside the block, so that the caller's transaction remains usable
        raise ClientNotFound(f"There is no client {name!r}.")


def _change(using: str, name: str, **values: Any) -> None:
    rows = GatewayClient.objects.using(using).filter(name=name)
    with atomic(using):
        row = lock_rows(rows).first() if is_on() else None
        # MySQL counts only rows whose values have changed.
        found = rows.update(**values) or rows.exists()
        if row is not None:
            _note(using, name, {column: getattr(row, column) for column in values}, values)
    if not found:  # outside the block, so that the caller's transaction remains usable
        raise ClientNotFound(f"There is no client {name!r}.")


def _note(using: str, name: str, old: Mapping[str, Any] | None, new: Mapping[str, Any] | None) -> None:
    tenants: Sequence[str] = (new or {}).get("tenants") or (old or {}).get("tenants") or ()
    if old and new:
        changed = {column for column, value in new.items() if value != old[column]}
        old = {column: old[column] for column in changed}
        new = {column: new[column] for column in changed}
    note(using, "gatewayclient", name, old=old, new=new, tenant=tenants[0] if len(tenants) == 1 else None)


def checked_name(name: Any) -> str:
    """Validate a client's name. Raises InvalidClient.

    No colon, which is the separator in HTTP basic authentication; only printable characters.
    """
    if not isinstance(name, str) or not name or len(name) > 150 or ":" in name or not name.isprintable():
        raise InvalidClient(f"name: expected 1 to 150 printable characters without a colon, got {name!r}.")
    if name != name.strip():
        raise InvalidClient(f"name: expected no leading or trailing blanks, got {name!r}.")
    return name


def checked_client(**values: Any) -> dict[str, Any]:
    """Validate the values for the columns. Raises InvalidClient for the first invalid one."""
    return {field: _CHECKS[field](field, value) for field, value in values.items()}


def _names(field: str, value: Any) -> list[str]:
    if isinstance(value, str) or not isinstance(value, Iterable):
        raise InvalidClient(f"{field}: expected a list of strings, got {value!r}.", field)
    names = list(dict.fromkeys(value))
    for name in names:
        longest = _LONGEST.get(field, 255)
        if not isinstance(name, str) or len(name) > longest or not name.isprintable() or "," in name:
            raise InvalidClient(
                f"{field}: expected at most {longest} printable characters without a comma, got {name!r}.", field
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
