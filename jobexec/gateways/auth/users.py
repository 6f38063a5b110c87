"""Users of the site as clients of the gateways, if GATEWAY_USERS allows it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from django.contrib.auth import authenticate, get_user_model
from django.http import HttpRequest, HttpResponse
from django.middleware.csrf import CsrfViewMiddleware

from jobexec import clock
from jobexec.conf import get_settings
from jobexec.exceptions import NotAllowed, TooManyRequests, Unauthenticated
from jobexec.operations.external.types import Caller
from jobexec.operations.manage.gateway_clients import PERMISSIONS
from jobexec.operations.sql.place import place
from jobexec.tenancy import tenants_of

from .client import Client, database
from .limits import Buckets

#: Permissions: to work on and search jobs, and to do everything.
USE = "jobexec.use_gateway"
OPERATE = "jobexec.operate_gateway"

#: Password attempts per second in this process: in total (each costs as much as many queries), from one address, and
#: from one address for one account.
TRIES, TRIES_OF_ADDRESS, TRIES_OF_ACCOUNT = 10, 5, 2
_tries = Buckets()
_MOST = 10_000
_ACQUAINTED = 3600.0  # seconds
#: Addresses and accounts with a successful login, and until when their attempts count separately from strangers'.
_acquainted: dict[tuple[str, str], float] = {}


def by_password(name: str, password: str, request: HttpRequest | None = None, address: str = "") -> Client:
    """Authenticate a user by name and password, from ``address``.

    Raises Unauthenticated, also if GATEWAY_USERS is off; NotAllowed for a user without permission to use the gateways;
    TooManyRequests while too many passwords are tried. Failures from one address do not affect users at other
    addresses, nor an account that logged in from there within the last hour. Successful attempts do not count.
    """
    if not get_settings().gateway_users:
        raise Unauthenticated
    counted = _count(name, address)
    client = _of_user(authenticate(request=request, username=name, password=password))
    for key, rate in counted:
        _tries.give_back(key, rate)
    if len(_acquainted) >= _MOST:
        _acquainted.clear()
    _acquainted[address, name] = clock.monotonic() + _ACQUAINTED
    return client


def _count(name: str, address: str) -> list[tuple[str, int]]:
    """Count an attempt; return the buckets that it was taken from. Raises TooManyRequests."""
    keys = [
        (f"account:{address}:{name[:200]}", TRIES_OF_ACCOUNT),
        (f"address:{address}", TRIES_OF_ADDRESS),
        ("", TRIES),
    ]
    if clock.monotonic() < _acquainted.get((address, name), 0.0):
        keys = [(f"known:{address}:{name[:200]}", TRIES_OF_ADDRESS)]
    for number, (key, rate) in enumerate(keys):
        wait = _tries.take(key, rate)
        if wait:
            for other, its_rate in keys[:number]:
                _tries.give_back(other, its_rate)
            raise TooManyRequests("Too many passwords were tried.", retry_after=wait)
    return keys


def forget() -> None:
    """Forget which accounts logged in from which addresses."""
    _acquainted.clear()


def by_session(request: HttpRequest) -> Client | None:
    """The user who is logged in, if GATEWAY_USERS is on. Raises NotAllowed, also without a CSRF token.

    The CSRF check is needed because a browser adds its session cookie to requests that a page of another site triggers.
    """
    user = getattr(request, "user", None) if get_settings().gateway_users else None
    if user is None or not user.is_authenticated:
        return None
    check = _Csrf(_nothing)
    check.process_request(request)
    reason = check.process_view(request, _nothing, (), {})
    if reason:
        raise NotAllowed(f"CSRF: {reason}")
    return _of_user(user)


def again(client: Client, request: HttpRequest) -> Client:
    """Reload a session's user from the database. Raises Unauthenticated and NotAllowed."""
    user = get_user_model()._default_manager.filter(pk=client.user.pk).first()
    return within_tenants(_of_user(user), request)


def within_tenants(client: Client, request: HttpRequest | None) -> Client:
    """Limit the client to the tenants that ADMIN_TENANTS allows its user. Raises Unauthenticated without a request.

    ADMIN_TENANTS needs the user's HTTP request, which gRPC does not have.
    """
    if client.user is None or get_settings().admin_tenants is None:
        return client
    if request is None:
        raise Unauthenticated
    request.user = client.user
    tenants = tenants_of(request)
    return replace(client, caller=replace(client.caller, tenants=tenants))


def _of_user(user: Any) -> Client:
    if user is None or not user.is_active:
        raise Unauthenticated
    if not user.has_perm(USE):
        raise NotAllowed(f"The user {user.get_username()!r} lacks the permission {USE!r}.")
    allowed = PERMISSIONS if user.has_perm(OPERATE) else ("work", "search")
    name = user.get_username()
    return Client(
        caller=Caller(name=name), permissions=frozenset(allowed), key=f"user:{user.pk}:{place(database())}", user=user
    )


def _nothing(request: HttpRequest) -> HttpResponse:
    return HttpResponse()


class _Csrf(CsrfViewMiddleware):
    """Returns the reason for a rejection instead of a response."""

    def _reject(self, request: HttpRequest, reason: str) -> Any:
        return reason
