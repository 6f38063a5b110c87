"""Log the changes that clients make beyond working on jobs, with their names, in the log and in the audit log."""

from __future__ import annotations

import logging

from jobexec.models import OperatorType
from jobexec.operations.values.operator import Operator

from .client import Client

logger = logging.getLogger("jobexec.gateway")


def operator_of(client: Client, via: str, origin: str) -> Operator:
    """The client as the audit log names it; ``origin`` is the address of the client."""
    type = OperatorType.CLIENT if client.user is None else OperatorType.USER
    return Operator(type, client.name, via, origin, client.user)


def audit(client: Client, action: str, target: object = "") -> None:
    """Log a change that an operator makes through a gateway: ``action`` in the protocol's terms, and its target.

    Called after the change. Views that are protected by "update" or "resolve" call it by themselves.
    """
    # With repr(): a name or a path that contains a line break must not look like a log line of its own.
    logger.info("The client %r: %s %r.", client.name, action, str(target)[:500], extra={"gateway_client": client.name})
