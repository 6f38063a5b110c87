"""What clients change beside working on jobs is written down with their names, in the log and in the audit log."""

from __future__ import annotations

import logging

from jobexec.models import OperatorType
from jobexec.operations.audit import Operator

from .client import Client

logger = logging.getLogger("jobexec.gateway")


def operator_of(client: Client, via: str, origin: str) -> Operator:
    """The client as the audit log names it; ``origin`` is the address from which it asks."""
    type = OperatorType.CLIENT if client.user is None else OperatorType.USER
    return Operator(type, client.name, via, origin)


def audit(client: Client, action: str, target: object = "") -> None:
    """Log a change that an operator makes through a gateway: ``action`` as the protocol calls it, and what it is of.

    Called after the change. Views that are protected by "update" or "resolve" do it by themselves.
    """
    # As they would stand in code: a name or a path with a line break in it must not look like a line of its own.
    logger.info("The client %r: %s %r.", client.name, action, str(target)[:500], extra={"gateway_client": client.name})
