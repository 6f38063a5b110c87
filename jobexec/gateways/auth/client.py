"""Authenticated clients of the gateways."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from jobexec.conf import get_settings
from jobexec.exceptions import NotAllowed
from jobexec.models import GatewayClient
from jobexec.operations.external.types import EVERYTHING, Caller
from jobexec.operations.manage.gateway_clients import PERMISSIONS
from jobexec.operations.sql.place import place


@dataclass(frozen=True, slots=True, kw_only=True)
class Client:
    """A verified client. ``key`` is unique in this process; a user and a program of the same name differ in it."""

    caller: Caller
    permissions: frozenset[str]
    key: str = ""
    #: None: GATEWAY_REQUESTS_PER_SECOND applies. 0: no limit.
    requests_per_second: int | None = None
    #: The user of the site, if the client is one.
    user: Any = field(default=None, compare=False, repr=False)

    @property
    def name(self) -> str:
        return self.caller.name

    @property
    def user_name(self) -> str:
        """The name for fields that hold users of the site; a prefix tells a program from a user of the same name."""
        return self.name if self.user is not None or not self.key else f"client:{self.name}"

    def may(self, permission: str) -> bool:
        """Whether the client has this permission, one of :data:`PERMISSIONS`."""
        return permission in self.permissions

    def check(self, *permissions: str) -> None:
        """Raise NotAllowed unless the client has one of these permissions."""
        if not any(map(self.may, permissions)):
            needed = " or ".join(map(repr, permissions))
            raise NotAllowed(f"The client {self.name!r} lacks the permission {needed}.")


#: Every caller if GATEWAY_AUTH is "none".
ANYBODY = Client(caller=EVERYTHING, permissions=frozenset(PERMISSIONS))


def client_of_row(row: GatewayClient) -> Client:
    """Build a client from its row, without checking whether it is enabled or has expired."""
    return Client(
        caller=Caller(name=row.name, types=_some(row.types), tenants=_some(row.tenants)),
        permissions=frozenset(PERMISSIONS) & frozenset(row.permissions),
        key=f"client:{row.pk}:{place(database())}",
        requests_per_second=row.max_requests_per_second,
    )


def database() -> str:
    """The alias of the engine that the gateways serve; the clients are stored in the same database."""
    return get_settings().gateway_database


def _some(values: list[str]) -> frozenset[str] | None:
    return frozenset(values) if values else None
