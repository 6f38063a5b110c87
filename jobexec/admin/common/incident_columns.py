"""The badge of an incident, in its list and on the page of its job."""

from __future__ import annotations

from django.utils.safestring import SafeString

from jobexec.models import Incident, IncidentState

from . import display

_KINDS = {IncidentState.OPEN: "bad", IncidentState.RESOLVED: "ok", IncidentState.DELETED: "off"}


def incident_badge(incident: Incident) -> SafeString:
    return display.badge(_KINDS.get(IncidentState(incident.state), "off"), incident.get_state_display())
