"""What all pages share: read-only, light queries, our style sheet, the bridge for content security policies."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from functools import wraps
from typing import TYPE_CHECKING, Any, ClassVar
from urllib.parse import urlencode

from django.contrib import admin, messages
from django.contrib.admin.helpers import ACTION_CHECKBOX_NAME
from django.contrib.admin.utils import quote, unquote
from django.core.exceptions import ValidationError
from django.db import router
from django.db.models import BinaryField, CharField, JSONField, Model, QuerySet, TextField
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.utils.text import capfirst
from django.utils.translation import gettext as _

from jobexec.models import AuditLog, OperatorType
from jobexec.operations.audit import Operator, acting
from jobexec.operations.rows.bury_unreadable import UNREADABLE

from .odd_rows import marking, sentence, surviving
from .paging import CappedPaginator, LightChangeList
from .tenancy import is_restricted, of_tenants

if TYPE_CHECKING:
    from .actions import Action

    ModelAdmin = admin.ModelAdmin[Any]
else:
    ModelAdmin = admin.ModelAdmin

logger = logging.getLogger("jobexec.admin")

#: Columns about which an address may ask nothing: secrets, and what leads to them.
SECRET = frozenset({"lease_token", "token_digest", "previous_token_digest"})
_EQUAL = frozenset({"", "exact", "in", "isnull"})
#: With those of the ranges of django-admin-rangefilter.
_ORDERED = _EQUAL | {f"{prefix}{name}" for prefix in ("", "range__") for name in ("lt", "lte", "gt", "gte")}
_ORDERED |= {f"range__{name}_{part}" for name in ("gte", "lte") for part in (0, 1)}
FROM_PAGE = "_from_page"
"""The hidden field by which a row's own page says that it ran an action."""


#: Columns that are masked when they are shown, or too long to be compared.
_UNREADABLE = (JSONField, TextField, BinaryField)


def _parameters(page: ModelAdmin) -> set[str]:
    """What the filters of a list read from its query string under names of their own."""
    filters = [each for each in page.list_filter if isinstance(each, type)]
    return {name for each in filters if (name := getattr(each, "parameter_name", None))}


class TableAdmin(ModelAdmin):
    """A table to look at. Rows are neither added nor edited by hand: actions change them."""

    deferred: ClassVar[tuple[str, ...]] = ()
    """Columns that the list does not load."""
    tenant_column: ClassVar[str | None] = None
    """The column that holds a row's tenant. Who may see only some tenants does not see a table without one."""
    audit_name: ClassVar[str] = "pk"
    """The attribute of a row by which the audit log knows it."""

    actions: Any = ()
    list_per_page = 50
    paginator = CappedPaginator
    show_full_result_count = False
    show_facets = admin.ShowFacets.NEVER  # they count all rows once per filter value
    list_select_related = False
    change_form_template = "admin/jobexec/row_page.html"

    class Media:
        css: ClassVar = {"all": ["jobexec/admin.css"]}

    def __init__(self, model: Any, admin_site: Any) -> None:
        super().__init__(model, admin_site)
        for name in {*self.list_display, *self.readonly_fields}:
            if isinstance(name, str) and name != "__str__" and callable(method := getattr(self, name, None)):
                setattr(self, name, marking(method))

    def all_rows(self, request: HttpRequest) -> QuerySet[Any]:
        """The rows of the table, of whichever tenant, also those that cannot be read in full."""
        return surviving(super().get_queryset(request))

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        queryset = self.all_rows(request)
        if self.tenant_column is None:
            return queryset.none() if is_restricted(request) else queryset
        return of_tenants(queryset, request, self.tenant_column)

    def lookup_allowed(self, lookup: str, value: Any, request: HttpRequest | None = None) -> bool:
        """What the query string of a list may ask of its rows: an allow-list.

        Django lets it ask anything of a table's own columns, and so read letter by letter what the page masks:
        ``?handler_configuration__kwargs__password__startswith=a``. Here texts can be compared as a whole and numbers
        and dates be ordered; JSON, long texts, secrets, related tables and patterns are out of reach.
        """
        name, _rest, condition = lookup.partition("__")
        columns = {column: field for field in self.opts.concrete_fields for column in (field.name, field.attname)}
        field = columns.get(self.opts.pk.attname if name == "pk" else name)
        if field is None:
            return name not in {relation.name for relation in self.opts.get_fields()}  # it means nothing, or a filter
        if field.name in SECRET or isinstance(field, _UNREADABLE):
            return False
        return condition in (_EQUAL if isinstance(field, CharField) else _ORDERED) or lookup in _parameters(self)

    def get_object(self, request: HttpRequest, object_id: str, from_field: str | None = None) -> Any:
        if "\0" in object_id:  # PostgreSQL refuses to compare it with a text
            return None
        row = super().get_object(request, object_id, from_field)
        if row is not None:
            self._guarded_complete([row])
        return row

    def has_view_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        hidden = self.tenant_column is None and is_restricted(request)
        return not hidden and bool(super().has_view_permission(request, obj))

    def _get_obj_does_not_exist_redirect(self, request: HttpRequest, opts: Any, object_id: str) -> HttpResponse:
        if is_restricted(request):
            raise Http404  # the same for what never was and for what is another tenant's
        redirect: HttpResponse = super()._get_obj_does_not_exist_redirect(request, opts, object_id)  # type: ignore[misc]
        return redirect

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> list[str]:
        columns = [field.name for field in self.opts.fields]
        return [*columns, *(name for name in self.readonly_fields if name not in columns)]

    def get_changelist(self, request: HttpRequest, **kwargs: Any) -> type[LightChangeList]:
        return LightChangeList

    def get_urls(self) -> list[Any]:
        return [_in_the_name_of_its_user(pattern) for pattern in super().get_urls()]

    def changelist_view(self, request: HttpRequest, extra_context: Any = None) -> HttpResponse:
        bridge_nonce(request)
        title = capfirst(str(self.opts.verbose_name_plural))
        return super().changelist_view(request, {"title": title, **(extra_context or {})})

    def complete_shown(self, request: HttpRequest, rows: Sequence[Any]) -> None:
        """Complete rows that are about to be shown, and say which of them cannot be read."""
        self._guarded_complete(rows)
        if text := sentence(rows):
            self.message_user(request, text, messages.WARNING)

    def _guarded_complete(self, rows: Sequence[Any]) -> None:
        try:
            self.complete(rows)
        except UNREADABLE:
            for row in rows if len(rows) > 1 else ():
                self._guarded_complete([row])

    def complete(self, rows: Sequence[Any]) -> None:
        """Read what rows that are about to be shown need from other tables, for all of them at once."""

    def render_change_form(
        self,
        request: HttpRequest,
        context: Any,
        add: bool = False,
        change: bool = False,
        form_url: str = "",
        obj: Any = None,
    ) -> HttpResponse:
        if text := sentence([obj]):
            self.message_user(request, text, messages.WARNING)
        context |= {
            "title": capfirst(str(self.opts.verbose_name)),
            "row_actions": self.permitted_actions(request),
            "list_url": self.list_url(),
            "from_page": FROM_PAGE,
            **self._guarded_context(request, obj),
        }
        return super().render_change_form(request, context, add, change, form_url, obj)

    def _guarded_context(self, request: HttpRequest, row: Any) -> dict[str, Any]:
        try:
            return self.page_context(request, row)
        except UNREADABLE as error:
            logger.warning("The page of %s %s: %s", self.opts.label, row.pk, type(error).__name__)
            self.message_user(request, _("The data related to this row cannot be read."), messages.WARNING)
            return {}

    def page_context(self, request: HttpRequest, row: Any) -> dict[str, Any]:
        """What the template of a row's page needs besides."""
        return {}

    def permitted_actions(self, request: HttpRequest) -> list[Action]:
        """Our actions that this user may run here."""
        return [action for action in self.actions if getattr(self, f"has_{action.permission}_permission")(request)]

    def response_action(  # type: ignore[override]  # action_location is new in Django 6.1
        self, request: HttpRequest, queryset: QuerySet[Any], **location: Any
    ) -> HttpResponse | None:
        if any("\0" in key for key in request.POST.getlist(ACTION_CHECKBOX_NAME)):  # PostgreSQL would not even look
            self.message_user(request, _("Nothing was changed: no row matches any more."), messages.ERROR)
            return None
        try:
            return super().response_action(request, queryset, **location)
        except ValidationError as error:  # keys that nobody could choose on the page
            self.message_user(request, " ".join(error.messages), messages.ERROR)
            return None

    def write_alias(self, queryset: QuerySet[Any]) -> str:
        """The database to change these rows in: the queryset's own if it names one, else what the routers say."""
        named: str | None = queryset._db  # type: ignore[attr-defined]
        return named or router.db_for_write(self.model)

    # What is changed is noted by the operations, in our audit log and in the same transaction; not by Django as well.

    def log_addition(self, request: HttpRequest, obj: Any, message: Any) -> Any:
        return None

    def log_change(self, request: HttpRequest, obj: Any, message: Any) -> Any:
        return None

    def log_deletions(self, request: HttpRequest, queryset: Any) -> Any:
        return None

    def history_view(self, request: HttpRequest, object_id: str, extra_context: Any = None) -> HttpResponse:
        """The audit log, with what is about this row."""
        row = self.get_object(request, unquote(object_id))
        if row is None:
            raise Http404
        return HttpResponseRedirect(f"{self.list_url(AuditLog)}?{urlencode({'q': getattr(row, self.audit_name)})}")

    def page_url(self, key: Any) -> str:
        """The address of a row's page."""
        name = f"admin:{self.opts.app_label}_{self.opts.model_name}_change"
        return reverse(name, args=[quote(key)], current_app=self.admin_site.name)

    def list_url(self, model: type[Model] | None = None) -> str:
        """The address of this table's list, or of another's."""
        opts = (model or self.model)._meta
        return reverse(f"admin:{opts.app_label}_{opts.model_name}_changelist", current_app=self.admin_site.name)


def _in_the_name_of_its_user(pattern: Any) -> Any:
    view = pattern.callback

    @wraps(view)
    def wrapped(request: HttpRequest, *args: Any, **kwargs: Any) -> Any:
        address = str(request.META.get("REMOTE_ADDR") or "")
        with acting(Operator(OperatorType.USER, request.user.get_username(), "admin", address)):
            return view(request, *args, **kwargs)

    pattern.callback = wrapped
    return pattern


def bridge_nonce(request: HttpRequest) -> None:
    """Let django-admin-rangefilter find the nonce of Django's own content security policy.

    It looks where django-csp puts the nonce; without one the browser blocks its inline style and script, and its
    form then drops the other filters. Django has a policy of its own since 6.0.
    """
    try:
        from django.middleware.csp import get_nonce
    except ImportError:
        return
    nonce = get_nonce(request)
    if nonce is not None and not hasattr(request, "csp_nonce"):
        request.csp_nonce = nonce  # type: ignore[attr-defined]
