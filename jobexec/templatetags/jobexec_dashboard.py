"""What the page of the app in Django's admin shows above the list of tables."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from django import template
from django.utils.html import format_html
from django.utils.safestring import SafeString

from jobexec.admin.common.base import bridge_nonce
from jobexec.admin.common.display import absolute
from jobexec.admin.dashboard.groups import grouped
from jobexec.admin.dashboard.view import dashboard

register = template.Library()


@register.simple_tag(takes_context=True)
def jobexec_dashboard(context: Any) -> str:
    """The dashboard, for what the user may view."""
    return dashboard(context["request"], context["app_list"])


@register.simple_tag
def jobexec_groups(app_list: Any) -> Any:
    """The tables in named groups."""
    return grouped(app_list)


@register.filter
def jobexec_moment(moment: datetime) -> str:
    """Date, time and zone, as all pages show them."""
    return absolute(moment)


@register.simple_tag(takes_context=True)
def jobexec_nonce(context: Any) -> str | SafeString:
    """The attribute by which a content security policy knows our scripts and style sheets; empty without one."""
    request = context["request"]
    bridge_nonce(request)
    nonce = getattr(request, "csp_nonce", None)
    return "" if nonce is None else format_html('nonce="{}"', nonce)
