"""A URL for a job's id that stays valid when the job moves to another table."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django.contrib import messages
from django.contrib.admin.utils import unquote
from django.core.exceptions import PermissionDenied
from django.db import router
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import path, reverse
from django.utils.http import urlencode
from django.utils.translation import gettext as _

from jobexec.exceptions import JobNotFound
from jobexec.identifiers import as_id
from jobexec.models import BATCH_HANDLERS, AbstractJob, JobLog
from jobexec.operations import find_job

from ..common.base import TableAdmin
from ..common.tenancy import tenants_of


def found_job(request: HttpRequest, id: UUID, using: str) -> AbstractJob | None:
    """The job's row in any table; None if it is done, deleted, or another tenant's."""
    try:
        row = find_job(id, using)
    except JobNotFound:
        return None
    tenants = tenants_of(request)
    return row if tenants is None or (row.tenant_id in tenants and row.handler_type not in BATCH_HANDLERS) else None


class LocatedAdmin(TableAdmin):
    """Pages of rows that move between tables: each redirects to the row's current table."""

    def get_urls(self) -> list[Any]:
        view = self.admin_site.admin_view(self.locate_view)
        name = f"{self.opts.app_label}_{self.opts.model_name}_locate"
        return [path("locate/<uuid:id>/", view, name=name), *super().get_urls()]

    def page_url(self, key: Any) -> str:
        """The URL that redirects to the job in whichever table it is then."""
        name = f"admin:{self.opts.app_label}_{self.opts.model_name}_locate"
        return reverse(name, args=[key], current_app=self.admin_site.name)

    def locate_view(self, request: HttpRequest, id: UUID) -> HttpResponse:
        """Redirect to the job's page, or to its log if it is done or deleted."""
        row = found_job(request, id, router.db_for_read(self.model))
        if not self._may_view(request, JobLog if row is None else type(row)):
            raise PermissionDenied
        if row is not None:
            url = f"admin:{row._meta.app_label}_{row._meta.model_name}_change"
            return HttpResponseRedirect(reverse(url, args=[id], current_app=self.admin_site.name))
        if tenants_of(request) is not None and not self._has_log(request, id):
            raise Http404
        self.message_user(request, _("The job is done or deleted. These are its log entries."), messages.INFO)
        return HttpResponseRedirect(f"{self.list_url(JobLog)}?{urlencode({'q': str(id)})}")

    def _may_view(self, request: HttpRequest, table: type[Any]) -> bool:
        table_admin = self.admin_site._registry.get(table)
        return table_admin is not None and table_admin.has_view_permission(request)

    def _has_log(self, request: HttpRequest, id: UUID) -> bool:
        log_admin = self.admin_site._registry.get(JobLog)
        return log_admin is not None and log_admin.get_queryset(request).filter(job_id=id).exists()

    def change_view(
        self, request: HttpRequest, object_id: str, form_url: str = "", extra_context: Any = None
    ) -> HttpResponse:
        """Show the page; redirect if the job has moved to another table meanwhile."""
        id = as_id(unquote(object_id))
        if (
            id
            and self.has_view_permission(request)
            and self.get_object(request, str(id)) is None
            and self._elsewhere(request, id)
        ):
            return self.locate_view(request, id)
        return super().change_view(request, object_id, form_url, extra_context)

    def _elsewhere(self, request: HttpRequest, id: UUID) -> bool:
        # In this table it is only hidden from the user: Django then answers that it does not exist.
        try:
            return type(find_job(id, router.db_for_read(self.model))) is not self.model
        except JobNotFound:
            return True

    def delete_view(self, request: HttpRequest, object_id: str, extra_context: Any = None) -> HttpResponse:
        """Redirect to the job's page: Django's delete page would not check whether the job runs; its action does."""
        id = as_id(unquote(object_id))
        if id is None:
            raise Http404
        return HttpResponseRedirect(self.page_url(id))
