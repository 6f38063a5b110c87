"""The notice about access control that a gateway prints when it starts."""

from __future__ import annotations

import logging

from django.conf import settings as django_settings

from jobexec.conf import get_settings

logger = logging.getLogger("jobexec.gateway")


_announced = False


def announce() -> str:
    """Log how the gateway is protected, as a warning or worse if it is open, and return the line for the console."""
    global _announced
    _announced = True
    settings = get_settings()
    if settings.gateway_auth != "none":
        users = ", and users of the site" if settings.gateway_users else ""
        line = f"Access: clients with a secret{users}."
        logger.info(line)
        return line
    line = "Access: ANYONE who can reach this gateway may fetch and finish every job (GATEWAY_AUTH is 'none')."
    if django_settings.DEBUG:
        logger.warning(line)
    else:
        line += " DEBUG is off: this looks like production. Set GATEWAY_AUTH, or let only your workers reach it."
        logger.critical(line)
    return line


def announce_once() -> None:
    """Announce at the first request, for the REST gateways: views have no start of their own."""
    if not _announced:
        announce()
