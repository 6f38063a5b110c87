"""From credentials to a client."""

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
from jobexec.operations.gateway_clients import has_old_secret
from jobexec.operations.values.client_secrets import PREFIX, digest

from . import credential_cache, tokens, usage, users
from .client import ANYBODY, Client, client_of_row, database
from .credentials import Basic, Bearer, parse
from .rejected_log import Guesses, refused_client
from .startup_notice import announce_once


def known(authorization: str | None, certificate_names: Sequence[str] = ()) -> Client | None:
    """The client, if it was verified a moment ago (or nobody is asked); costs no query. None says nothing.

    For an event loop, which must not wait for a database: only after None :func:`authenticate` needs a thread.
    """
    settings = get_settings()
    if settings.gateway_auth == "none":
        announce_once()
        return ANYBODY
    client = credential_cache.recall(_key(authorization, certificate_names))
    # The tenants of a user are asked of the project, which may ask its database.
    return None if client and client.user is not None and settings.admin_tenants else client


def was_known(authorization: str | None, certificate_names: Sequence[str] = ()) -> bool:
    """Whether somebody with these credentials was let in within the last hour: hardly a stranger; costs no query."""
    return credential_cache.was_known(_key(authorization, certificate_names))


def authenticate(
    authorization: str | None,
    certificate_names: Sequence[str] = (),
    request: HttpRequest | None = None,
    address: str = "",
) -> Client:
    """The client with these credentials; raises Unauthenticated, with one message for whatever is wrong with them.

    NotAllowed for a user of the site who may not use the gateways, TooManyRequests while too many passwords are tried.

    ``authorization`` is the value of the header: Basic with name and secret, Bearer with the secret or with an access
    token; an empty one counts as none. ``certificate_names`` are the names in a certificate that the server has
    verified; they count where there is no such header. ``address`` is where the client is, as
    :func:`~jobexec.gateways.auth.rejected_log.address_of` tells. What was verified is remembered for
    ``credential_cache.SECONDS``.
    """
    key = _key(authorization, certificate_names)
    client = known(authorization, certificate_names) or credential_cache.recall(key)
    if client is None:
        ask = partial(_asked, key, authorization, certificate_names, request, address)
        # One worker's threads come at the same moment: they are one try, and one query.
        client = credential_cache.single_flight((address, *key), ask)
    return users.within_tenants(client, request)


def is_refused(authorization: str | None, certificate_names: Sequence[str] = ()) -> bool:
    """Whether these credentials were refused a moment ago, so that :func:`authenticate` would do it without a query."""
    return credential_cache.is_refused(_key(authorization, certificate_names))


def _asked(
    key: tuple[str, ...], authorization: str | None, names: Sequence[str], request: HttpRequest | None, address: str
) -> Client:
    if client := credential_cache.recall(key):  # by now
        return client
    if credential_cache.is_refused(key):
        raise Unauthenticated
    # Who was let in before is no stranger, whoever else is at that address.
    guesses = Guesses(None if credential_cache.was_known(key) else address)
    try:
        client, until = _verified(authorization, names, request, address, guesses)
    except Unauthenticated:
        if key != _key(None, ()):  # who shows nothing costs no query
            credential_cache.refuse(key)
        raise
    credential_cache.remember(key, client, until)
    return client


def forget() -> None:
    """Verify everybody anew from now on, in this process."""
    credential_cache.forget()
    users.forget()


def _key(authorization: str | None, names: Sequence[str]) -> tuple[str, ...]:
    # What is too long is never remembered, so that its beginning is enough.
    header = (authorization or "").strip()[: credential_cache.MAX_LENGTH]
    return ("header", credential_cache.disguised(header)) if header else ("names", *names)


def _verified(
    authorization: str | None, names: Sequence[str], request: HttpRequest | None, address: str, guesses: Guesses
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


def row_of(credentials: Basic | Bearer, guesses: Guesses) -> tuple[GatewayClient, str]:
    """The client with this secret, the one that it has or the one before, and its digest.

    Raises Unauthenticated, and TooManyRequests while too many are guessed.
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
        refused_client.tell(row, "uses a secret that has ended")
        raise Unauthenticated


def _end(row: GatewayClient, its_digest: str) -> datetime | None:
    """When the client, or this secret of it, expires."""
    ends = [row.expiration_time, None if its_digest == row.token_digest else row.previous_expiration_time]
    return min((moment for moment in ends if moment is not None), default=None)


def _by_token(token: str) -> tuple[Client, datetime | None]:
    claims = tokens.claims_of(token)
    row = _find(Guesses(None), Q(pk=claims.client))  # what we have signed is no guess
    its_digest = tokens.digest_in(claims, row)
    if its_digest is None:
        raise Unauthenticated
    _refuse_retired(row, its_digest)
    until = datetime.fromtimestamp(claims.until, tz=clock.now().tzinfo)
    return client_of_row(_used(row)), min(until, _end(row, its_digest) or until)


def _by_names(names: Sequence[str], guesses: Guesses) -> GatewayClient:
    """The client that is named in a certificate; if two are, it is nobody's."""
    wanted = [name for name in dict.fromkeys(names) if name.isprintable()]
    # Compared again: for MariaDB a name with blanks behind it is the same.
    rows = [row for name in wanted for row in _rows(guesses, Q(name=name)) if row.name == name]
    if len(rows) != 1:
        raise Unauthenticated
    return _usable(rows[0])


def _find(guesses: Guesses, condition: Q) -> GatewayClient:
    rows = _rows(guesses, condition)
    if not rows:
        raise Unauthenticated
    return _usable(rows[0])


def _rows(guesses: Guesses, condition: Q) -> list[GatewayClient]:
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
