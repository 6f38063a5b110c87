"""Badges for the state of an executor node, in its list and on the dashboard."""

from __future__ import annotations

from datetime import timedelta

from django.utils.safestring import SafeString
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from jobexec.models import NodeState

from . import display

_KINDS = {NodeState.ACTIVE: "ok", NodeState.PAUSED: "off", NodeState.DRAINING: "warn", NodeState.DEAD: "bad"}


def state_badge(state: str) -> SafeString:
    return display.badge(_KINDS.get(NodeState(state), "off"), NodeState(state).label)


def lease_badge(left: timedelta) -> SafeString:
    """How long the node's lease is still valid, or how long ago it expired."""
    seconds = left.total_seconds()
    if seconds > 0:
        return display.badge("ok", _("valid for %s") % display.duration(seconds))
    return display.badge("bad", _("expired %s ago") % display.duration(-seconds))


def stuck_badge(threads: int) -> SafeString | None:
    """A badge for threads whose job continues after its timeout; None if there are none."""
    if not threads:
        return None
    return display.badge("bad", ngettext("%d thread is stuck", "%d threads are stuck", threads) % threads)
