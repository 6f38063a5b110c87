"""How the state of an executor looks, in its list and on the dashboard."""

from __future__ import annotations

from datetime import timedelta

from django.utils.safestring import SafeString
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from jobexec.models import NodeState

from . import display

_KINDS = {NodeState.ACTIVE: "ok", NodeState.DRAINING: "warn", NodeState.DEAD: "bad"}


def state_badge(state: str) -> SafeString:
    """Where the node is in its life."""
    return display.badge(_KINDS.get(NodeState(state), "off"), NodeState(state).label)


def lease_badge(left: timedelta) -> SafeString:
    """For how long the node's locks are good, or since when they no longer are."""
    seconds = left.total_seconds()
    if seconds > 0:
        return display.badge("ok", _("valid for %s") % display.duration(seconds))
    return display.badge("bad", _("expired %s ago") % display.duration(-seconds))


def stuck_badge(threads: int) -> SafeString | None:
    """Threads whose job goes on after its timeout; None without any."""
    if not threads:
        return None
    return display.badge("bad", ngettext("%d thread is stuck", "%d threads are stuck", threads) % threads)
