"""Parts shared by the pages: permissions, titles, and the database that the lists show."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlencode

from django.contrib.admin import AdminSite
from django.http import HttpRequest
from django.template.response import TemplateResponse
from django.utils.translation import gettext as _

from jobexec.models import Job, Suspension, SuspensionScope

from ..common import display
from ..common.base import TableAdmin
from ..common.tenancy import tenants_of
from ..dashboard.visible_tables import VisibleTables


class Page:
    """One request for a page: the tables that its user may see, each through its own admin."""

    def __init__(self, request: HttpRequest, site: AdminSite, using: str) -> None:
        self.request, self.site, self.using = request, site, using
        request.current_app = site.name
        self.visible = VisibleTables(request, site.get_app_list(request, "jobexec"))
        self.tenants = tenants_of(request)

    def admin(self, table: type[Any]) -> TableAdmin | None:
        """The admin of a table; None if the user may not view it."""
        found = self.site._registry.get(table)
        visible = isinstance(found, TableAdmin) and found.has_view_permission(self.request)
        return found if visible else None  # type: ignore[return-value]

    def may(self, permission: str) -> bool:
        """Whether the user has a permission of this app."""
        return self.request.user.has_perm(f"jobexec.{permission}")

    def suspension(self, scope: str, value: str) -> dict[str, Any]:
        """Whether a scope is suspended, and links to suspend it, or to the suspension that can be lifted."""
        now = display.now(Job())
        row = Suspension.objects.using(self.using).filter(scope=scope, value=value, live=True).first()
        if row is not None and row.over(now):
            row = None
        suspensions = self.admin(Suspension)
        may_add = suspensions is not None and suspensions.has_add_permission(self.request)
        if self.tenants is not None:
            may_add = may_add and scope == SuspensionScope.TENANT
        badge = None
        if row is not None:
            in_force = row.begun(now)
            badge = display.badge("off", _("suspended")) if in_force else display.badge("wait", _("to be suspended"))
        url = ""
        if row is None and may_add and suspensions is not None:
            url = f"{suspensions.list_url()}add/?{_query(scope, value)}"
        lift = ""
        if row is not None and suspensions is not None and self.may("activate_job"):
            lift = suspensions.page_url(row.pk)
        return {"badge": badge, "until": row and row.activate_time, "suspend_url": url, "activate_url": lift}

    def render(self, template: str, title: str, context: dict[str, Any]) -> TemplateResponse:
        """The page, with the engine and the moment that it shows."""
        return TemplateResponse(
            self.request,
            template,
            {
                **self.site.each_context(self.request),
                "title": title,
                "opts": Job._meta,
                "list_url": self.visible.list(Job),
                **context,
            },
        )


def _query(scope: str, value: str) -> str:
    return urlencode({"scope": scope, "value": value})
