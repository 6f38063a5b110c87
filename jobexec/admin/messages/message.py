"""Messages that are kept or delivered."""

from __future__ import annotations

from typing import Any

from django.contrib import admin, messages
from django.db import router
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, pgettext

from jobexec.exceptions import JobExecError
from jobexec.models import BlockedJob, Message
from jobexec.operations import publish_message
from jobexec.operations.values.messages import shown_payload

from ..common import display, text_filters
from ..common.base import TableAdmin
from ..common.paging import CappedCount
from ..common.permissions import OperationPermissions
from ..common.tenancy import COLUMN, tenants_of
from .actions import DeleteMessages
from .form import MessageForm


@admin.register(Message)
class MessageAdmin(OperationPermissions, TableAdmin):
    """Messages, the latest first. Operators publish them here; they cannot be changed."""

    form = MessageForm
    tenant_column = COLUMN
    deferred = ("payload",)
    list_display = ("name", "key", "tenant_id", "standing", "published", "until", "receivers")
    list_display_links = ("name", "key")
    list_filter = (text_filters.MessageFilter, text_filters.TenantFilter)
    search_fields = ("key__startswith",)
    search_help_text = gettext_lazy("The beginning of the key.")
    sortable_by = ()
    ordering = ("-id",)
    actions = (DeleteMessages(),)
    change_form_template = "admin/jobexec/message_page.html"
    readonly_fields = ("standing", "published_exactly", "until_exactly", "content", "waits")

    def has_view_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return super().has_view_permission(request, obj) and request.user.has_perm("jobexec.view_message")

    def has_add_permission(self, request: HttpRequest) -> bool:
        return self.has_publish_permission(request)

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return request.user.has_perm("jobexec.delete_message")

    # The form and the page.

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> list[str]:
        return super().get_readonly_fields(request, obj) if obj is not None else []

    def get_form(self, request: HttpRequest, obj: Any = None, change: bool = False, **kwargs: Any) -> Any:
        form: Any = super().get_form(request, obj, change, **kwargs)
        form.tenants = tenants_of(request)
        return form

    def get_fieldsets(self, request: HttpRequest, obj: Any = None) -> Any:
        if obj is None:
            return [(None, {"fields": [("name", "key"), "payload", "ttl", ("message_id", "tenant_id")]})]
        heading = ("standing", "published_exactly", "until_exactly")
        return [
            (None, {"fields": [heading, ("name", "key"), ("message_id", "tenant_id", "id"), ("delivered", "waits")]}),
            (gettext_lazy("Payload"), {"fields": ["content"]}),
        ]

    def changeform_view(
        self, request: HttpRequest, object_id: str | None = None, form_url: str = "", extra_context: Any = None
    ) -> HttpResponse:
        context = {"show_save_and_add_another": False, "show_save_and_continue": False, **(extra_context or {})}
        try:
            return super().changeform_view(request, object_id, form_url, context)
        except JobExecError as error:  # what the form could not check
            self.message_user(request, str(error), messages.ERROR)
            return HttpResponseRedirect(request.get_full_path())

    def save_model(self, request: HttpRequest, obj: Message, form: Any, change: bool) -> None:
        saved = publish_message(**form.values(), using=router.db_for_write(Message))
        if saved.is_duplicate:
            text = _("A message with this message id is already kept. Nothing was published.")
            self.message_user(request, text, messages.WARNING)
        obj.__dict__.update(saved.__dict__)

    # The columns.

    @admin.display(description=gettext_lazy("state"))
    def standing(self, row: Message) -> SafeString:
        if row.delivery_time is not None:
            return display.badge("work", pgettext("state of a message", "being delivered"))
        if row.expiration_time is not None and row.expiration_time > display.now(row):
            return display.badge("ok", pgettext("state of a message", "kept"))
        return display.badge("off", pgettext("state of a message", "expired"))

    @admin.display(description=gettext_lazy("published"))
    def published(self, row: Message) -> str | SafeString:
        return display.relative(row.create_time, display.now(row))

    @admin.display(description=gettext_lazy("kept until"))
    def until(self, row: Message) -> str | SafeString:
        return display.relative(row.expiration_time, display.now(row))

    @admin.display(description=Message._meta.get_field("delivered").verbose_name)
    def receivers(self, row: Message) -> str:
        return display.number(row.delivered)

    @admin.display(description=gettext_lazy("published"))
    def published_exactly(self, row: Message) -> str | SafeString:
        return display.exact(row.create_time, display.now(row))

    @admin.display(description=gettext_lazy("kept until"))
    def until_exactly(self, row: Message) -> str | SafeString:
        return display.exact(row.expiration_time, display.now(row))

    @admin.display(description=gettext_lazy("payload"))
    def content(self, row: Message) -> str | SafeString:
        return display.json_text(shown_payload(row.payload))

    @admin.display(description=gettext_lazy("waiting jobs"))
    def waits(self, row: Message) -> str | SafeString:
        jobs = BlockedJob.objects.using(row._state.db or "default").filter(tenant_id=row.tenant_id)
        count = CappedCount.of(jobs.filter(waits_for=row.name, waits_for_key=row.key))
        return display.link(self.list_url(BlockedJob), count, waits_for=row.name, waits_for_key=row.key)
