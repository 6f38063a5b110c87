"""What clients change beside working on jobs is written down with their names."""

from __future__ import annotations

import logging

from .client import Client

logger = logging.getLogger("jobexec.gateway")


def audit(client: Client, action: str, target: object = "") -> None:
    """Log a change that an operator makes through a gateway: ``action`` as the protocol calls it, and what it is of.

    Called after the change. Views that are protected by "update" or "resolve" do it by themselves.
    """
    # As they would stand in code: a name or a path with a line break in it must not look like a line of its own.
    logger.info("The client %r: %s %r.", client.name, action, str(target), extra={"gateway_client": client.name})
