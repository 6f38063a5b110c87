"""Users of the site as clients of the gateways, where GATEWAY_USERS lets them."""

from __future__ import annotations

from typing import Any

from django.contrib.auth import authenticate

from jobexec.conf import get_settings
from jobexec.exceptions import TooManyRequests, Unauthenticated
from jobexec.operations.external_types import Caller

from .client import PERMISSIONS, Client
from .limits import Buckets

#: To work and to look, and to do everything.
USE = "jobexec.use_gateway"
OPERATE = "jobexec.operate_gateway"

#: Passwords that are tried per second, by everybody together: each costs as much as a thousand queries.
_TRIES = 10
_tries = Buckets()


def by_password(name: str, password: str) -> Client:
    """The user of this name and password. Raises Unauthenticated, also where users are not let in; TooManyRequests."""
    settings = get_settings()
    # What a user may see is asked of a request of his, and there is none here.
    if not settings.gateway_users or settings.admin_tenants is not None:
        raise Unauthenticated
    wait = _tries.take("", _TRIES)
    if wait:
        raise TooManyRequests("Too many passwords are tried.", retry_after=wait)
    user = authenticate(request=None, username=name, password=password)
    return of_user(user)


def of_user(user: Any) -> Client:
    """What a user may do. Raises Unauthenticated for one who may not use the gateways at all."""
    if user is None or not user.is_active or not user.has_perm(USE):
        raise Unauthenticated
    allowed = PERMISSIONS if user.has_perm(OPERATE) else ("work", "search")
    return Client(caller=Caller(name=user.get_username()), permissions=frozenset(allowed), key=f"user:{user.pk}")
