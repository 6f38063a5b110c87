"""The tables that a user may view, and links to their pages."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any
from urllib.parse import urlencode

from django.contrib.admin.utils import quote
from django.db.models import Model
from django.http import HttpRequest
from django.urls import NoReverseMatch, reverse

from jobexec.models import (
    JOB_TABLES,
    Batch,
    ExecutorNode,
    ExternalWorker,
    FailureGroup,
    HistoryJob,
    Incident,
    MeterLog,
    Resource,
    Schedule,
    Suspension,
    TimerJob,
)

#: The tables of each part of the overview; a user who may view one of them sees the part.
_TABLES: dict[str, tuple[type[Model], ...]] = {
    "counts": (*JOB_TABLES, HistoryJob),
    "incidents": (Incident,),
    "timers": (TimerJob,),
    "schedules": (Schedule,),
    "nodes": (ExecutorNode,),
    "suspensions": (Suspension,),
    "batches": (Batch,),
    "failure_groups": (FailureGroup,),
    "traffic": (MeterLog,),
    "backlog": (MeterLog,),
    "resources": (Resource,),
    "unserved": (ExternalWorker,),
}


class VisibleTables:
    """The tables that a user may view in one site, from the app list of Django's admin.

    A table without a page in the site, such as the meter log, is visible with its permission, but has no link.
    """

    def __init__(self, request: HttpRequest, app_list: Iterable[Mapping[str, Any]]) -> None:
        self._request = request
        self._listed = {
            entry["model"]: bool(entry["perms"].get("view"))
            for app in app_list
            if app["app_label"] == "jobexec"
            for entry in app["models"]
        }
        self.linked = True
        """Whether the admin's pages show the engine of the dashboard."""

    @property
    def site(self) -> str:
        """The name of the site."""
        return getattr(self._request, "current_app", None) or "admin"

    def may(self, table: type[Model]) -> bool:
        if table in self._listed:
            return self._listed[table]
        return self._request.user.has_perm(f"jobexec.view_{table._meta.model_name}")

    def parts(self) -> frozenset[str]:
        """The parts of the overview that the user may see."""
        return frozenset(part for part, tables in _TABLES.items() if any(map(self.may, tables)))

    def list(self, table: type[Model], **query: str) -> str:
        """The URL of a table's list; empty if the user has none."""
        return self._address(table, "changelist", (), query)

    def page(self, table: type[Model], key: Any) -> str:
        """The URL of a row's page; empty if the user has none."""
        return self._address(table, "change", (quote(key),), {})

    def _address(self, table: type[Model], page: str, arguments: tuple[Any, ...], query: Mapping[str, str]) -> str:
        if not (self.linked and self._listed.get(table)):
            return ""
        name = f"admin:jobexec_{table._meta.model_name}_{page}"
        url = reverse(name, args=arguments, current_app=getattr(self._request, "current_app", None))
        return f"{url}?{urlencode(query)}" if query else url


def address_of_dashboard(request: HttpRequest) -> str:
    """The URL of the dashboard fragment; empty if the site lacks the admin of executor nodes, which serves it."""
    try:
        return reverse("admin:jobexec_dashboard", current_app=getattr(request, "current_app", None))
    except NoReverseMatch:
        return ""
