"""Authenticate a client by its credentials."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from functools import partial

from django.db.models import Q
from django.http import HttpRequest
from django.utils.crypto import constant_time_compare

from jobexec import clock
from jobexec.conf import get_settings
from jobexec.exceptions import Unauthenticated
from jobexec.models import GatewayClient
from jobexec.operations.manage.gateway_clients import has_old_secret
from jobexec.operations.sql.place import place, place_needs_statement
from jobexec.operations.values.client_secrets import PREFIX, digest

from . import credential_cache, tokens, usage, users
from .client import ANYBODY, Client, client_of_row, database
from .credentials import Basic, Bearer, parse
from .rejected_log import FailedAttempts, refused_client
from .startup_notice import announce_once


def known(authorization: str | None, certificate_names: Sequence[str] = ()) -> Client | None:
    """The client, if it is in the cache or GATEWAY_AUTH is "none"; costs no query. None means unknown, not refused.

    For an event loop, which must not wait for a database: call :func:`authenticate` in a thread only if this returns
    None. Nobody is known where only a query tells which schema's clients are meant (django-tenants).
    """
    settings = get_settings()
    if settings.gateway_auth == "none":
        announce_once()
        return ANYBODY
    client = None if _needs_query() else credential_cache.recall(_key(authorization, certificate_names))
    # A function of the project determines the tenants of a user, and it may query the database.
    return None if client and client.user is not None and settings.admin_tenants else client


def was_known(authorization: str | None, certificate_names: Sequence[str] = ()) -> bool:
    """Return whether these credentials were accepted within the last hour; costs no query."""
    return not _needs_query() and credential_cache.was_known(_key(authorization, certificate_names))


def authenticate(
    authorization: str | None,
    certificate_names: Sequence[str] = (),
    request: HttpRequest | None = None,
    address: str = "",
) -> Client:
    """Return the client with these credentials. Raises Unauthenticated, with the same message whatever the reason.

    Raises NotAllowed for a user of the site without permission to use the gateways, and TooManyRequests while too many
    passwords are tried.

    ``authorization`` is the value of the header: Basic with name and secret, Bearer with the secret or an access token;
    an empty value counts as no header. ``certificate_names`` are the names in a certificate that the server has
    verified; they apply only without the header. ``address`` is the client's address as returned by
    :func:`~jobexec.gateways.auth.rejected_log.address_of`. The result is cached for ``credential_cache.SECONDS``.
    """
    client = known(authorization, certificate_names)
    if client is None:
        key = _key(authorization, certificate_names)
        ask = partial(_asked, key, authorization, certificate_names, request, address)
        # The threads of a worker call at the same moment: they count as one attempt, and cost one query.
        client = credential_cache.recall(key) or credential_cache.single_flight((address, *key), ask)
    return users.within_tenants(client, request)


def is_refused(authorization: str | None, certificate_names: Sequence[str] = ()) -> bool:
    """Return whether these credentials were refused recently, so that :func:`authenticate` refuses without a query."""
    return not _needs_query() and credential_cache.is_refused(_key(authorization, certificate_names))


def _asked(
    key: tuple[str, ...], authorization: str | None, names: Sequence[str], request: HttpRequest | None, address: str
) -> Client:
    if client := credential_cache.recall(key):  # cached meanwhile
        return client
    if credential_cache.is_refused(key):
        raise Unauthenticated
    # A client that was accepted before is known, whatever other callers at its address do.
    guesses = FailedAttempts(None if credential_cache.was_known(key) else address)
    try:
        client, until = _verified(authorization, names, request, address, guesses)
    except Unauthenticated:
        if names or (authorization or "").strip():  # a call without credentials costs no query
            credential_cache.refuse(key)
        raise
    credential_cache.remember(key, client, until)
    return client


def forget() -> None:
    """Clear the caches of this process, so that all clients are verified again."""
    credential_cache.forget()
    users.forget()


def _needs_query() -> bool:
    """Whether only a query tells whose clients these are."""
    return place_needs_statement(database())


def _key(authorization: str | None, names: Sequence[str]) -> tuple[str, ...]:
    # Headers that are too long are never cached, so their beginning is enough.
    header = (authorization or "").strip()[: credential_cache.MAX_LENGTH]
    what = ("header", credential_cache.disguised(header)) if header else ("names", *names)
    return (*place(database()), *what)


def _verified(
    authorization: str | None, names: Sequence[str], request: HttpRequest | None, address: str, guesses: FailedAttempts
) -> tuple[Client, datetime | None]:
    if not (authorization or "").strip():
        row = _by_names(names, guesses)
        return client_of_row(_used(row)), row.expiration_time
    credentials = parse(str(authorization))
    if isinstance(credentials, Bearer) and tokens.looks_like_one(credentials.token):
        return _by_token(credentials.token)
    if isinstance(credentials, Basic) and not credentials.secret.startswith(PREFIX):
        return users.by_password(credentials.name, credentials.secret, request, address), None
    row, its_digest = row_of(credentials, guesses)
    return client_of_row(_used(row)), _end(row, its_digest)


def row_of(credentials: Basic | Bearer, guesses: FailedAttempts) -> tuple[GatewayClient, str]:
    """Return the client with this secret, its current or its previous one, and the digest of the secret.

    Raises Unauthenticated, and TooManyRequests while too many secrets are guessed.
    """
    secret = credentials.secret if isinstance(credentials, Basic) else credentials.token
    if not secret.startswith(PREFIX):
        raise Unauthenticated  # costs no query
    its_digest = digest(secret)
    row = _find(guesses, Q(token_digest=its_digest) | Q(previous_token_digest=its_digest))
    if isinstance(credentials, Basic) and not constant_time_compare(credentials.name, row.name):
        raise Unauthenticated
    _refuse_retired(row, its_digest)
    return row, its_digest


def _refuse_retired(row: GatewayClient, its_digest: str) -> None:
    if its_digest != row.token_digest and not has_old_secret(row, clock.now(database())):
        refused_client.tell(row, "uses a secret that is no longer valid")
        raise Unauthenticated


def _end(row: GatewayClient, its_digest: str) -> datetime | None:
    """When the client or this secret expires, whichever is earlier."""
    ends = [row.expiration_time, None if its_digest == row.token_digest else row.previous_expiration_time]
    return min((moment for moment in ends if moment is not None), default=None)


def _by_token(token: str) -> tuple[Client, datetime | None]:
    claims = tokens.claims_of(token)
    row = _find(FailedAttempts(None), Q(pk=claims.client))  # a token that we signed is not a guess
    its_digest = tokens.digest_in(claims, row)
    if its_digest is None:
        raise Unauthenticated
    _refuse_retired(row, its_digest)
    until = datetime.fromtimestamp(claims.until, tz=clock.now().tzinfo)
    return client_of_row(_used(row)), min(until, _end(row, its_digest) or until)


def _by_names(names: Sequence[str], guesses: FailedAttempts) -> GatewayClient:
    """The client named in a certificate. Raises Unauthenticated unless the names match exactly one client."""
    wanted = [name for name in dict.fromkeys(names) if name.isprintable()]
    # Compare again: MariaDB ignores trailing spaces in names.
    rows = [row for name in wanted for row in _rows(guesses, Q(name=name)) if row.name == name]
    if len(rows) != 1:
        raise Unauthenticated
    return _usable(rows[0])


def _find(guesses: FailedAttempts, condition: Q) -> GatewayClient:
    rows = _rows(guesses, condition)
    if not rows:
        raise Unauthenticated
    return _usable(rows[0])


def _rows(guesses: FailedAttempts, condition: Q) -> list[GatewayClient]:
    guesses.check()
    rows = list(GatewayClient.objects.using(database()).filter(condition)[:1])
    if not rows:
        guesses.count()
    return rows


def _usable(row: GatewayClient) -> GatewayClient:
    expired = row.expiration_time is not None and row.expiration_time <= clock.now(database())
    if not row.enabled or expired:
        refused_client.tell(row, "has expired" if expired else "is disabled")
        raise Unauthenticated
    return row


def _used(row: GatewayClient) -> GatewayClient:
    usage.note(row, database())
    return row
