"""The base of all pages: read-only, light queries, the style sheet, and nonces for content security policies."""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import wraps
from typing import TYPE_CHECKING, Any, ClassVar
from urllib.parse import urlencode

from django.contrib import admin, messages
from django.contrib.admin.helpers import ACTION_CHECKBOX_NAME
from django.contrib.admin.utils import quote, unquote
from django.core.exceptions import PermissionDenied, ValidationError
from django.db import router
from django.db.models import BinaryField, CharField, JSONField, Model, QuerySet, TextField
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.utils.text import capfirst
from django.utils.translation import gettext as _

from jobexec.models import AuditLog, OperatorType
from jobexec.operations.audit import acting
from jobexec.operations.rows.bury_unreadable import UNREADABLE
from jobexec.operations.values.operator import Operator

from .display import NONE
from .in_words import in_words
from .odd_rows import marking, sentence, surviving
from .page_links import links_of
from .paging import CappedPaginator, LightChangeList
from .tenancy import is_restricted, of_tenants

if TYPE_CHECKING:
    from .actions import Action

    ModelAdmin = admin.ModelAdmin[Any]
else:
    ModelAdmin = admin.ModelAdmin

logger = logging.getLogger("jobexec.admin")

#: Columns that no query string may filter by: secrets, and digests of secrets.
SECRET = frozenset({"lease_token", "token_digest", "previous_token_digest"})
_EQUAL = frozenset({"", "exact", "in", "isnull"})
#: Includes the parameters of the range filters of django-admin-rangefilter.
_ORDERED = _EQUAL | {f"{prefix}{name}" for prefix in ("", "range__") for name in ("lt", "lte", "gt", "gte")}
_ORDERED |= {f"range__{name}_{part}" for name in ("gte", "lte") for part in (0, 1)}
FROM_PAGE = "_from_page"
"""The hidden field that marks an action as run from a row's own page."""


#: Columns whose values are masked when they are shown, or are too long to compare.
_UNREADABLE = (JSONField, TextField, BinaryField)


def _parameters(page: ModelAdmin) -> set[str]:
    """The query string parameters that the filters of a list define themselves."""
    filters = [each for each in page.list_filter if isinstance(each, type)]
    return {name for each in filters if (name := getattr(each, "parameter_name", None))}


def _renamed(names: Iterable[Any], others: Mapping[str, str]) -> tuple[Any, ...]:
    """The fields with other names, also in lines of several fields."""
    return tuple(others.get(each, each) if isinstance(each, str) else _renamed(each, others) for each in names)


class _Once:
    """What a page shows in the first of several places that it has, which depends on the theme of the admin."""

    def __init__(self) -> None:
        self._places = 0

    def more(self) -> bool:
        self._places += 1
        return self._places == 1


class TableAdmin(ModelAdmin):
    """A read-only table. Users do not add or edit rows: actions change them."""

    deferred: ClassVar[tuple[str, ...]] = ()
    """Columns that the list does not load."""
    tenant_column: ClassVar[str | None] = None
    """The column with a row's tenant. Users limited to some tenants do not see a table without one."""
    audit_name: ClassVar[str] = "pk"
    """The attribute by which the audit log identifies a row."""

    actions: Any = ()
    empty_value_display = NONE
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
        self.shown_in_list, self.shown_on_page = dict[str, str](), dict[str, str]()
        for column in self.opts.concrete_fields:
            for shown, names in zip(in_words(column), (self.shown_in_list, self.shown_on_page), strict=False):
                names[column.name] = shown.__name__
                setattr(self, shown.__name__, marking(shown))
        for name in {*self.list_display, *self.readonly_fields}:
            if isinstance(name, str) and name != "__str__" and callable(method := getattr(self, name, None)):
                setattr(self, name, marking(method))

    def all_rows(self, request: HttpRequest) -> QuerySet[Any]:
        """The rows of all tenants, including rows that cannot be read in full."""
        return surviving(super().get_queryset(request))

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        queryset = self.all_rows(request)
        if self.tenant_column is None:
            return queryset.none() if is_restricted(request) else queryset
        return of_tenants(queryset, request, self.tenant_column)

    def lookup_allowed(self, lookup: str, value: Any, request: HttpRequest | None = None) -> bool:
        """Allow a query string only the lookups that cannot reveal masked values.

        Django allows any lookup on a table's own columns, so that a user could read masked values letter by letter:
        ``?handler_configuration__kwargs__password__startswith=a``. Here, texts can only be compared as a whole, and
        numbers and dates by order. JSON, long texts, secrets, related tables and patterns are not allowed.
        """
        name, _rest, condition = lookup.partition("__")
        columns = {column: field for field in self.opts.concrete_fields for column in (field.name, field.attname)}
        field = columns.get(self.opts.pk.attname if name == "pk" else name)
        if field is None:
            return name not in {relation.name for relation in self.opts.get_fields()}  # unknown, or a filter
        if field.name in SECRET or isinstance(field, _UNREADABLE):
            return False
        return condition in (_EQUAL if isinstance(field, CharField) else _ORDERED) or lookup in _parameters(self)

    def get_object(self, request: HttpRequest, object_id: str, from_field: str | None = None) -> Any:
        if "\0" in object_id:  # PostgreSQL refuses NUL in a text
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
            raise Http404  # the same answer for rows that never existed and for rows of other tenants
        redirect: HttpResponse = super()._get_obj_does_not_exist_redirect(request, opts, object_id)  # type: ignore[misc]
        return redirect

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> list[str]:
        return [*self._columns(), *self.shown_on_page.values(), *self._others()]

    def get_list_display(self, request: HttpRequest) -> Any:
        return _renamed(super().get_list_display(request), self.shown_in_list)

    def get_sortable_by(self, request: HttpRequest) -> Any:
        return _renamed(super().get_sortable_by(request), self.shown_in_list)

    def get_fields(self, request: HttpRequest, obj: Any = None) -> Any:
        return self.fields or [*self._columns(), *self._others()]

    def get_fieldsets(self, request: HttpRequest, obj: Any = None) -> Any:
        return self.in_words(super().get_fieldsets(request, obj))

    def get_form(self, request: HttpRequest, obj: Any = None, change: bool = False, **kwargs: Any) -> Any:
        helps = {self.shown_on_page.get(field.name, ""): field.help_text for field in self.opts.concrete_fields}
        return super().get_form(request, obj, change, **{"help_texts": helps, **kwargs})

    def in_words(self, fieldsets: Any, editable: Collection[str] = ()) -> Any:
        """The fieldsets with dates and flags as all pages show them."""
        names = {name: shown for name, shown in self.shown_on_page.items() if name not in editable}
        return [(title, {**each, "fields": _renamed(each["fields"], names)}) for title, each in fieldsets]

    def _columns(self) -> list[str]:
        return [field.name for field in self.opts.fields]

    def _others(self) -> list[str]:
        return [name for name in self.readonly_fields if name not in self._columns()]

    def get_changelist(self, request: HttpRequest, **kwargs: Any) -> type[LightChangeList]:
        return LightChangeList

    def get_urls(self) -> list[Any]:
        return [in_the_name_of_its_user(pattern) for pattern in super().get_urls()]

    def changelist_view(self, request: HttpRequest, extra_context: Any = None) -> HttpResponse:
        bridge_nonce(request)
        title = capfirst(str(self.opts.verbose_name_plural))
        return super().changelist_view(request, {"title": title, **(extra_context or {})})

    def warn(self, request: HttpRequest, text: str) -> None:
        """Warn about what a page shows; the page is shown even where no middleware takes messages."""
        self.message_user(request, text, messages.WARNING, fail_silently=True)

    def note_of_search(self, request: HttpRequest, queryset: QuerySet[Any]) -> str:
        """What the search of this request has left out."""
        return ""

    def to_show(self, queryset: QuerySet[Any]) -> QuerySet[Any]:
        """The rows with what their list shows and does not load as a column."""
        return queryset

    def complete_shown(self, request: HttpRequest, rows: Sequence[Any]) -> None:
        """Complete rows that are about to be shown, and warn about those that cannot be read."""
        self._guarded_complete(rows)
        if text := sentence(rows):
            self.warn(request, text)

    def _guarded_complete(self, rows: Sequence[Any]) -> None:
        try:
            self.complete(rows)
        except UNREADABLE:
            for row in rows if len(rows) > 1 else ():
                self._guarded_complete([row])

    def complete(self, rows: Sequence[Any]) -> None:
        """Read the data that the shown rows need from other tables, for all rows at once."""

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
            self.warn(request, text)
        context |= {
            "title": capfirst(str(self.opts.verbose_name)),
            "row_actions": [each for each in self.permitted_actions(request) if obj is None or each.applies(obj)],
            "list_url": self.list_url(),
            "from_page": FROM_PAGE,
            "once": _Once(),
            "related": links_of(request, self.admin_site.name, obj) if obj is not None else [],
            **self._guarded_context(request, obj),
        }
        return super().render_change_form(request, context, add, change, form_url, obj)

    def _guarded_context(self, request: HttpRequest, row: Any) -> dict[str, Any]:
        try:
            return self.page_context(request, row)
        except UNREADABLE as error:
            logger.warning("The page of %s %s: %s", self.opts.label, row.pk, type(error).__name__)
            self.warn(request, _("The data related to this row cannot be read."))
            return {}

    def told_apart(self, rows: Sequence[Any], using: str) -> Sequence[Any]:
        """What a question about some of the rows shows of each."""
        return rows

    def page_context(self, request: HttpRequest, row: Any) -> dict[str, Any]:
        """Additional context for the template of a row's page."""
        return {}

    def permitted_actions(self, request: HttpRequest) -> list[Action]:
        """The actions that this user may run on this table."""
        return [action for action in self.actions if getattr(self, f"has_{action.permission}_permission")(request)]

    def response_action(  # type: ignore[override]  # action_location is new in Django 6.1
        self, request: HttpRequest, queryset: QuerySet[Any], **location: Any
    ) -> HttpResponse | None:
        if any("\0" in key for key in request.POST.getlist(ACTION_CHECKBOX_NAME)):  # PostgreSQL refuses NUL in a text
            self.message_user(request, _("Nothing was changed: no row matches any more."), messages.ERROR)
            return None
        try:
            for key in request.POST.getlist(ACTION_CHECKBOX_NAME):
                self.opts.pk.to_python(key)
            return super().response_action(request, queryset, **location)
        except ValidationError as error:  # keys that the page did not offer
            self.message_user(request, " ".join(error.messages), messages.ERROR)
            return None

    def write_alias(self, queryset: QuerySet[Any]) -> str:
        """The database in which to change these rows: the queryset's own if it has one, else the routers' choice."""
        named: str | None = queryset._db  # type: ignore[attr-defined]
        return named or router.db_for_write(self.model)

    # The operations record each change in our audit log, in the same transaction; Django's log gets no entries.

    def log_addition(self, request: HttpRequest, obj: Any, message: Any) -> Any:
        return None

    def log_change(self, request: HttpRequest, obj: Any, message: Any) -> Any:
        return None

    def log_deletions(self, request: HttpRequest, queryset: Any) -> Any:
        return None

    def delete_view(self, request: HttpRequest, object_id: str, extra_context: Any = None) -> HttpResponse:
        """Redirect to the row's page, whose action deletes it by an operation; Django's own page would bypass that."""
        if not self.has_delete_permission(request):
            raise PermissionDenied
        return HttpResponseRedirect(self.page_url(self._existing(request, object_id).pk))

    def history_view(self, request: HttpRequest, object_id: str, extra_context: Any = None) -> HttpResponse:
        """Redirect to the audit log, filtered by this row."""
        row = self._existing(request, object_id)
        return HttpResponseRedirect(f"{self.list_url(AuditLog)}?{urlencode({'q': getattr(row, self.audit_name)})}")

    def _existing(self, request: HttpRequest, object_id: str) -> Any:
        row = self.get_object(request, unquote(object_id))
        if row is None:
            raise Http404
        return row

    def other(self, model: type[Model], request: HttpRequest) -> TableAdmin | None:
        """The admin of another table; None if the site has none, or the user may not view it."""
        found = self.admin_site._registry.get(model)
        return found if isinstance(found, TableAdmin) and found.has_view_permission(request) else None

    def page_url(self, key: Any) -> str:
        """The URL of a row's page."""
        name = f"admin:{self.opts.app_label}_{self.opts.model_name}_change"
        return reverse(name, args=[quote(key)], current_app=self.admin_site.name)

    def list_url(self, model: type[Model] | None = None) -> str:
        """The URL of the list of this table or of another one."""
        opts = (model or self.model)._meta
        return reverse(f"admin:{opts.app_label}_{opts.model_name}_changelist", current_app=self.admin_site.name)


def in_the_name_of_its_user(pattern: Any) -> Any:
    """The pattern of a URL whose view acts for the user of its request."""
    view = pattern.callback

    @wraps(view)
    def wrapped(request: HttpRequest, *args: Any, **kwargs: Any) -> Any:
        address = str(request.META.get("REMOTE_ADDR") or "")
        with acting(Operator(OperatorType.USER, request.user.get_username(), "admin", address, request.user)):
            return view(request, *args, **kwargs)

    pattern.callback = wrapped
    return pattern


def bridge_nonce(request: HttpRequest) -> None:
    """Copy the nonce of Django's own content security policy to where django-admin-rangefilter looks for it.

    It looks where django-csp puts the nonce. Without a nonce the browser blocks its inline style and script, and its
    form then drops the other filters. Django has its own policy since 6.0.
    """
    try:
        from django.middleware.csp import get_nonce
    except ImportError:
        return
    nonce = get_nonce(request)
    if nonce is not None and not hasattr(request, "csp_nonce"):
        request.csp_nonce = nonce  # type: ignore[attr-defined]
