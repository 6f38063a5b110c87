"""Who asks a gateway, once the credentials are verified."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from jobexec.conf import get_settings
from jobexec.exceptions import NotAllowed
from jobexec.models import GatewayClient
from jobexec.operations.external.types import EVERYTHING, Caller
from jobexec.operations.gateway_clients import PERMISSIONS


@dataclass(frozen=True, slots=True, kw_only=True)
class Client:
    """A verified client. ``key`` tells clients apart in this process, also a user from a program of the same name."""

    caller: Caller
    permissions: frozenset[str]
    key: str = ""
    #: None: as GATEWAY_REQUESTS_PER_SECOND says. 0: as many as it likes.
    requests_per_second: int | None = None
    #: The user of the site, if it is one.
    user: Any = field(default=None, compare=False, repr=False)

    @property
    def name(self) -> str:
        return self.caller.name

    @property
    def user_name(self) -> str:
        """What stands for it where users of the site stand: a program's name is no user's, also if it is the same."""
        return self.name if self.user is not None or not self.key else f"client:{self.name}"

    def may(self, permission: str) -> bool:
        """Whether the client may do that; ``permission`` is one of :data:`PERMISSIONS`."""
        return permission in self.permissions

    def check(self, *permissions: str) -> None:
        """Raise NotAllowed unless the client may do one of these."""
        if not any(map(self.may, permissions)):
            needed = " or ".join(map(repr, permissions))
            raise NotAllowed(f"The client {self.name!r} lacks the permission {needed}.")


#: Everybody, where GATEWAY_AUTH is "none".
ANYBODY = Client(caller=EVERYTHING, permissions=frozenset(PERMISSIONS))


def client_of_row(row: GatewayClient) -> Client:
    """What the row of a client allows; whether it is enabled, and its expiry, are not looked at."""
    return Client(
        caller=Caller(name=row.name, types=_some(row.types), tenants=_some(row.tenants)),
        permissions=frozenset(PERMISSIONS) & frozenset(row.permissions),
        key=f"client:{row.pk}",
        requests_per_second=row.max_requests_per_second,
    )


def database() -> str:
    """The alias of the engine that the gateways serve, where their clients are, too."""
    return get_settings().gateway_database


def _some(values: list[str]) -> frozenset[str] | None:
    return frozenset(values) if values else None
