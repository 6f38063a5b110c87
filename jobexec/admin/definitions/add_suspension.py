"""Suspend a tenant, a process instance or a definition: asks twice, because later jobs are suspended, too."""

from __future__ import annotations

from typing import Any

from django import forms
from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.db import router
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from jobexec import operations
from jobexec.exceptions import JobExecError
from jobexec.models import RUNNABLE_TABLES, Suspension, SuspensionScope
from jobexec.operations.manage.verbs import scope_suspended

from ..common.actions import meant_jobs
from ..common.base import TableAdmin
from ..common.forms import SuspendScopeForm
from ..common.paging import CappedCount
from ..common.tenancy import tenants_of

_SCOPES = [choice for choice in SuspensionScope.choices if choice[0] != SuspensionScope.JOB]


class AddSuspensionForm(SuspendScopeForm):
    """The scope to suspend. Users limited to some tenants may only suspend these."""

    scope = forms.ChoiceField(label=gettext_lazy("Suspend"), choices=_SCOPES, initial=SuspensionScope.TENANT)
    value = forms.CharField(
        label=gettext_lazy("Id"),
        max_length=255,
        widget=forms.TextInput(attrs={"list": "jobexec-choices", "autocomplete": "off", "size": "40"}),
        help_text=gettext_lazy("The exact id."),
    )
    tenant = forms.CharField(
        label=gettext_lazy("Tenant"),
        required=False,
        max_length=64,
        help_text=gettext_lazy("Only for a process definition of a tenant. If empty: its jobs without a tenant."),
    )
    field_order = ("scope", "value", "tenant")

    def __init__(self, *args: Any, tenants: frozenset[str] | None = None, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.tenants = tenants
        if tenants is not None:
            scope = self.fields["scope"]
            assert isinstance(scope, forms.ChoiceField)
            scope.choices = [choice for choice in _SCOPES if choice[0] == SuspensionScope.TENANT]

    def clean_value(self) -> str:
        value: str = self.cleaned_data["value"]
        if self.tenants is not None and value not in self.tenants:
            raise forms.ValidationError(_("This is not one of your tenants."))
        return value

    def clean(self) -> dict[str, Any]:
        data = super().clean()
        if data.get("tenant") and data.get("scope") != SuspensionScope.TENANT_PROCESS_DEFINITION:
            self.add_error("tenant", _("Set this only for a process definition of a tenant."))
        return data


def _columns(data: dict[str, Any]) -> dict[str, Any]:
    """The chosen scope, as keyword arguments of the operation and as columns of the job tables."""
    if data["scope"] == SuspensionScope.TENANT_PROCESS_DEFINITION:
        return {"process_definition_key": data["value"], "tenant_id": data["tenant"]}
    return {data["scope"]: data["value"]}


class AddSuspension(TableAdmin):
    """The pages that add a suspension; mixed into the admin of suspensions."""

    def has_suspend_permission(self, request: HttpRequest) -> bool:
        return request.user.has_perm("jobexec.suspend_job")

    def has_add_permission(self, request: HttpRequest) -> bool:
        return self.has_view_permission(request) and self.has_suspend_permission(request)

    def add_view(self, request: HttpRequest, form_url: str = "", extra_context: Any = None) -> HttpResponse:
        """Ask for the scope, then show the number of its jobs, then suspend it."""
        if not self.has_add_permission(request):
            raise PermissionDenied
        tenants, using = tenants_of(request), router.db_for_write(Suspension)
        asked = request.method == "POST"
        given = request.GET.dict() if not asked else {}
        form = AddSuspensionForm(request.POST if asked else None, tenants=tenants, initial=given)
        if asked and form.is_valid() and "_back" not in request.POST:
            if "_confirmed" in request.POST:
                return self._suspend(request, form.cleaned_data, using)
            return self._page(request, form, self._affected(form.cleaned_data, using))
        return self._page(request, form)

    def _page(self, request: HttpRequest, form: AddSuspensionForm, affected: list[Any] | None = None) -> HttpResponse:
        context = {
            **self.admin_site.each_context(request),
            "title": _("Suspend"),
            "opts": self.opts,
            "media": self.media,
            "form": form,
            "affected": affected,
            "meant": [] if affected is None else meant_jobs(*(each["rows"] for each in affected)),
            "scope": dict(SuspensionScope.choices).get(form.data.get("scope", "")),
            "choices": sorted(filter(None, form.tenants or ())),
            "list_url": self.list_url(),
        }
        request.current_app = self.admin_site.name
        return TemplateResponse(request, "admin/jobexec/suspend_scope.html", context)

    def _affected(self, data: dict[str, Any], using: str) -> list[dict[str, Any]]:
        """Count the current jobs of the scope, up to the limit of counting."""
        rows = _columns(data)
        found = [(table, table._default_manager.using(using).filter(**rows)) for table in RUNNABLE_TABLES]
        return [
            {"name": table._meta.verbose_name_plural, "count": CappedCount.of(jobs), "rows": jobs}
            for table, jobs in found
        ]

    def _suspend(self, request: HttpRequest, data: dict[str, Any], using: str) -> HttpResponse:
        scope = _columns(data)
        chosen = {"at": data["at"], "until": data["until"], "include_jobs": data["include_jobs"]}
        try:
            moved = operations.suspend(using=using, **chosen, **scope)
            assert isinstance(moved, int)
        except JobExecError as error:
            self.message_user(request, str(error), messages.ERROR)
            return HttpResponseRedirect(self.list_url())
        self.message_user(request, scope_suspended(data["scope"], data["value"], moved, data), messages.SUCCESS)
        return HttpResponseRedirect(self.list_url())
