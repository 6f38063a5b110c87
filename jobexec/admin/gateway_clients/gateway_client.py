"""Clients that may use the gateways."""

from __future__ import annotations

from typing import Any

from django.contrib import admin, messages
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from jobexec.conf import get_settings
from jobexec.exceptions import InvalidClient
from jobexec.models import GatewayClient
from jobexec.operations.manage.gateway_clients import change_client, create_client, expires_soon, has_old_secret

from ..common import display
from ..common.base import TableAdmin
from ..common.tenancy import tenants_of
from .actions import (
    DeleteClients,
    DisableClient,
    EnableClient,
    RetireSecret,
    RotateSecret,
    remember_secret,
    secrets_page,
)
from .form import NO_TENANT, GatewayClientForm

_ASKED = ("types", "tenants", "permissions", "max_requests_per_second", "expiration_time")
_SHOWN = ("standing", "old_secret", "used_exactly", "create_time")


@admin.register(GatewayClient)
class GatewayClientAdmin(TableAdmin):
    """Clients by name. Users add and edit them here; the operations save them, and each secret is shown once."""

    form = GatewayClientForm
    list_display = ("name", "standing", "its_types", "its_tenants", "its_permissions", "expires", "old_secret", "used")
    list_display_links = ("name",)
    list_filter = ("enabled",)
    search_fields = ("name__startswith",)
    search_help_text = gettext_lazy("The beginning of the name.")
    sortable_by = ("name", "expires", "used")
    ordering = ("name",)
    audit_name = "name"
    actions = (RotateSecret(), RetireSecret(), EnableClient(), DisableClient(), DeleteClients())
    change_form_template = "admin/jobexec/gateway_client_page.html"

    # Permissions.

    def get_queryset(self, request: HttpRequest) -> QuerySet[GatewayClient]:
        """The clients in the database of the gateways. A client that is limited to tenants belongs to these."""
        rows: QuerySet[GatewayClient] = self.all_rows(request)
        rows, tenants = rows.using(self.using()), tenants_of(request)
        if tenants is None:
            return rows
        # Databases compare JSON lists differently, and there are few clients.
        owned = [id for id, own in rows.values_list("pk", "tenants") if own and set(own) <= tenants]
        return rows.filter(pk__in=owned)

    def using(self) -> str:
        return get_settings().gateway_database

    def has_view_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return bool(admin.ModelAdmin.has_view_permission(self, request, obj))

    def has_add_permission(self, request: HttpRequest) -> bool:
        return request.user.has_perm("jobexec.add_gatewayclient")

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return request.user.has_perm("jobexec.change_gatewayclient")

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return request.user.has_perm("jobexec.delete_gatewayclient")

    def has_rotate_permission(self, request: HttpRequest) -> bool:
        return request.user.has_perm("jobexec.rotate_gatewayclient")

    def has_enable_permission(self, request: HttpRequest) -> bool:
        return request.user.has_perm("jobexec.enable_gatewayclient")

    # The form.

    def get_form(self, request: HttpRequest, obj: Any = None, change: bool = False, **kwargs: Any) -> Any:
        form: Any = super().get_form(request, obj, change, **kwargs)
        form.using, form.user_tenants = self.using(), tenants_of(request)
        return form

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> list[str]:
        if obj is None:
            return []
        return ["name", *_SHOWN, "its_types", "its_tenants", "its_permissions", *self.shown_on_page.values()]

    def get_fieldsets(self, request: HttpRequest, obj: Any = None) -> Any:
        if obj is None:
            return [(None, {"fields": ["name", *_ASKED]})]
        edits = self.has_change_permission(request, obj)
        asked = _ASKED if edits else ("its_types", "its_tenants", "its_permissions", *_ASKED[3:])
        return self.in_words([(None, {"fields": [_SHOWN, "name", *asked]})], _ASKED if edits else ())

    def changeform_view(
        self, request: HttpRequest, object_id: str | None = None, form_url: str = "", extra_context: Any = None
    ) -> HttpResponse:
        hidden = dict.fromkeys(("show_delete", "show_save_and_add_another", "show_save_and_continue"), False)
        try:
            return super().changeform_view(request, object_id, form_url, {**hidden, **(extra_context or {})})
        except InvalidClient as error:  # what the form could not check
            self.message_user(request, str(error), messages.ERROR)
            return HttpResponseRedirect(request.get_full_path())

    def save_model(self, request: HttpRequest, obj: GatewayClient, form: Any, change: bool) -> None:
        if change:
            change_client(self.using(), obj.name, **form.values())
            return
        saved, secret = create_client(self.using(), name=obj.name, **form.values())
        obj.__dict__.update(saved.__dict__)
        remember_secret(request, saved.name, secret)

    def response_add(self, request: HttpRequest, obj: GatewayClient, post_url_continue: str | None = None) -> Any:
        """Show the page with the secret. A message would be stored in a cookie or a session."""
        return secrets_page(self, request)

    def page_context(self, request: HttpRequest, row: Any) -> dict[str, Any]:
        if row is None:
            return {}
        needless: tuple[type[Any], ...] = (EnableClient if row.enabled else DisableClient,)
        if row.previous_token_digest is None:
            needless = (*needless, RetireSecret)
        actions = self.permitted_actions(request)
        return {"row_actions": [action for action in actions if not isinstance(action, needless)]}

    # Columns and fields.

    @admin.display(description=gettext_lazy("state"))
    def standing(self, row: GatewayClient) -> SafeString:
        if not row.enabled:
            return display.badge("off", _("disabled"))
        if row.expiration_time is not None and row.expiration_time <= display.now(row):
            return display.badge("bad", _("expired"))
        if expires_soon(row, display.now(row)):
            return display.badge("warn", _("expires soon"))
        return display.badge("ok", _("enabled"))

    @admin.display(description=gettext_lazy("types"))
    def its_types(self, row: GatewayClient) -> str | SafeString:
        return display.lines(row.types) if row.types else _("all")

    @admin.display(description=gettext_lazy("tenants"))
    def its_tenants(self, row: GatewayClient) -> str | SafeString:
        return display.lines([tenant or NO_TENANT for tenant in row.tenants]) if row.tenants else _("all")

    @admin.display(description=gettext_lazy("permissions"))
    def its_permissions(self, row: GatewayClient) -> str:
        return ", ".join(row.permissions) or display.NONE

    @admin.display(description=gettext_lazy("expiration time"), ordering="expiration_time")
    def expires(self, row: GatewayClient) -> str | SafeString:
        return display.relative(row.expiration_time, display.now(row))

    @admin.display(description=gettext_lazy("old secret"))
    def old_secret(self, row: GatewayClient) -> str | SafeString:
        if not has_old_secret(row, display.now(row)):
            return display.NONE
        until = row.previous_expiration_time
        return _("until it is retired") if until is None else display.relative(until, display.now(row))

    @admin.display(description=gettext_lazy("last use"), ordering="last_use")
    def used(self, row: GatewayClient) -> str | SafeString:
        return display.relative(row.last_use, display.now(row))

    @admin.display(description=gettext_lazy("last use"))
    def used_exactly(self, row: GatewayClient) -> str | SafeString:
        return display.exact(row.last_use, display.now(row))
