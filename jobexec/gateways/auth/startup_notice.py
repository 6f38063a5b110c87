"""What a gateway says about access when it starts."""

from __future__ import annotations

import logging

from django.conf import settings as django_settings

from jobexec.conf import get_settings

logger = logging.getLogger("jobexec.gateway")


_announced = False


def announce() -> str:
    """Log how the gateway is guarded, and return it as a line for the console. Louder where nobody is asked."""
    global _announced
    _announced = True
    settings = get_settings()
    if settings.gateway_auth != "none":
        users = ", and users of the site" if settings.gateway_users else ""
        line = f"Access: clients with a secret{users}."
        logger.info(line)
        return line
    line = "Access: EVERYBODY who reaches this gateway may fetch and finish every job (GATEWAY_AUTH is 'none')."
    if django_settings.DEBUG:
        logger.warning(line)
    else:
        line += " DEBUG is off: this looks like production. Close it now, or see that nobody else reaches it."
        logger.critical(line)
    return line


def announce_once() -> None:
    """For views, which nobody starts: say it with the first request."""
    if not _announced:
        announce()
