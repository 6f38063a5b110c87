"""Addresses of the pages in :mod:`jobexec.admin.pages`, and the links to them from any row that names their subject."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlencode

from django.http import HttpRequest
from django.urls import NoReverseMatch, reverse
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _

from jobexec.models import BATCH_HANDLERS, ExclusiveLock, ExecutorNode

from . import display

#: The columns that name subjects, with the kinds of their pages.
_SUBJECTS = {"handler_type": "handler", "category": "category", "tenant_id": "tenant"}


def subject_url(site: str, kind: str, value: str) -> str:
    """The page of a handler, category or tenant; '' if the site has none."""
    return _address(site, "jobexec_subject", [kind], name=value)


def instance_url(site: str, instance: str, tenant: str = "") -> str:
    """The page of a process instance; '' if the site has none."""
    return _address(site, "jobexec_instance", [], id=instance, tenant=tenant)


def running_url(site: str) -> str:
    """The page of what runs now; '' if the site has none."""
    return _address(site, "jobexec_running", [])


def incident_groups_url(site: str) -> str:
    """The page of the open incidents by group of failures; '' if the site has none."""
    return _address(site, "jobexec_incident_groups", [])


def _address(site: str, page: str, arguments: list[str], /, **query: str) -> str:
    try:
        url = reverse(f"admin:{page}", args=arguments, current_app=site)
    except NoReverseMatch:  # a project registers its own selection of the admins
        return ""
    return f"{url}?{urlencode(query)}" if query else url


def instance_link(site: str, instance: str, tenant: str = "") -> SafeString | str | None:
    """A link to the page of a process instance; None without one."""
    if not instance:
        return None
    url = instance_url(site, instance, tenant)
    return display.link(url, instance) if url else instance


def titled(kind: str, name: str) -> str:
    """The subject of a page, in words."""
    texts = {"handler": _("Handler %(name)s"), "category": _("Category %(name)s"), "tenant": _("Tenant %(name)s")}
    return texts[kind] % {"name": name}


def links_of(request: HttpRequest, site: str, row: Any) -> list[SafeString]:
    """Links to the pages of what a row names: its process instance, handler, category and tenant."""
    found = []
    instance = row.instance if isinstance(row, ExclusiveLock) else getattr(row, "process_instance_id", "")
    if isinstance(instance, str) and (url := instance and instance_url(site, instance, _text(row, "tenant_id"))):
        found.append(display.link(url, _("Process instance %(name)s") % {"name": instance}))
    for column, kind in _SUBJECTS.items():
        value = _text(row, column)
        url = subject_url(site, kind, value) if value and value not in BATCH_HANDLERS else ""
        if url:
            found.append(display.link(url, titled(kind, value.rpartition(".")[2] or value)))
    if isinstance(row, ExecutorNode) and (url := running_url(site)):
        found.append(display.link(url, _("Running now")))
    return found


def _text(row: Any, column: str) -> str:
    value = getattr(row, column, "")
    return value if isinstance(value, str) else ""
