"""How an action runs: ask, perform, report. It calls one verb of ``jobexec.operations``, which writes the audit log."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

from django import forms
from django.contrib import messages
from django.contrib.admin.helpers import ACTION_CHECKBOX_NAME
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext

from jobexec.exceptions import JobExecError
from jobexec.models import Batch
from jobexec.operations.batches.control import start_batch
from jobexec.operations.reports.counts import COUNT_LIMIT, estimated

from . import batching
from .base import FROM_PAGE, TableAdmin
from .batching import is_large, is_more, select_across, start
from .forms import ConfirmForm
from .paging import CappedCount

REASONS_SHOWN = 5
IDS_SHOWN = 3
ROWS_SHOWN = 10
#: How many handlers and tenants a question names.
COMPOSED = 10


@dataclass(slots=True)
class Outcome:
    """The result of an action: keys of changed rows, and of rows left alone, with the reason for each."""

    changed: list[Any] = field(default_factory=list)
    skipped: dict[Any, str] = field(default_factory=dict)
    failed: dict[Any, str] = field(default_factory=dict)
    """Rows for which the attempt failed, with the reason."""


class Action:
    """An action of the admin, in a list and as a button on a row's page.

    ``permission`` is the name in ``has_<permission>_permission``. Every action needs one: Django runs an action
    without a permission for staff who only have ``view`` permissions.
    """

    name: ClassVar[str]
    permission: ClassVar[str]
    description: Any
    """The text in the list's menu; may contain %(verbose_name_plural)s."""
    label: Any
    """The text on the button of a row's page."""
    form_class: type[forms.Form] | None = None
    """The form to show first; None runs the action immediately."""
    warning: Any = ""
    report: Any
    """The success message: an ``ngettext_lazy`` by ``count``, which may contain the data of the form."""
    dangerous = False
    do_not_call_in_templates = True
    operation: ClassVar[str | None] = None
    """Its name as a batch (``jobexec.operations.manage.verbs``); None if it only runs within the request."""
    name_column = "pk"
    """The column that a row's ``str()`` needs besides the key."""
    most: ClassVar[int | None] = None
    """How many rows it changes within a request, if no batch can do it; None: as many as others before a batch."""

    def __init__(self) -> None:
        # The attributes that Django reads from action functions.
        self.__name__ = self.name
        self.allowed_permissions = (self.permission,)
        self.short_description = self.description

    def applies(self, row: Any) -> bool:
        """Whether the row's page offers it: not where it can only be refused."""
        return True

    @property
    def in_background(self) -> bool:
        """Whether a batch can do it to very many rows."""
        return self.operation is not None

    def start_batch(self, queryset: QuerySet[Any], data: Mapping[str, Any], user: str) -> Batch:
        """Start that batch. Raises JobExecError."""
        assert self.operation is not None
        arguments = self.batch_arguments(data)
        return start_batch(self.operation, queryset, arguments=arguments, using=queryset.db, user=user)

    @property
    def title(self) -> str:
        """The label without the trailing dots that announce a form."""
        return str(self.label).rstrip("…").rstrip()

    def perform_for(
        self, request: HttpRequest, queryset: QuerySet[Any], using: str, data: Mapping[str, Any]
    ) -> Outcome:
        """Like :meth:`perform`, for operations that need the request, such as its user."""
        return self.perform(queryset, using, data)

    def perform(self, queryset: QuerySet[Any], using: str, data: Mapping[str, Any]) -> Outcome:
        """Call the operation. ``data`` is the cleaned data of the form."""
        raise NotImplementedError

    def batch_arguments(self, data: Mapping[str, Any]) -> dict[str, Any]:
        """Convert the cleaned data of the form to the arguments of the operation."""
        return dict(data)

    def initial(self, queryset: QuerySet[Any]) -> dict[str, Any]:
        """Initial values of the form for these rows."""
        return {}

    def form_for(self, queryset: QuerySet[Any]) -> type[forms.Form] | None:
        """The form to show first for these rows."""
        return self.form_class

    def ask_again(self, form: forms.Form, queryset: QuerySet[Any], using: str) -> bool:
        """Whether a valid form is shown again, with errors that only the attempt has found."""
        return False

    def done(self, count: int, data: Mapping[str, Any]) -> str:
        """The success message for ``count`` rows."""
        return str(self.report % {**data, "count": count})

    def whereabouts(self, request: HttpRequest, keys: Iterable[str], using: str) -> dict[str, str]:
        """The reason, by key, why selected rows are no longer in the list."""
        return dict.fromkeys(keys, _("it is no longer in the list"))

    def affected(self, request: HttpRequest, queryset: QuerySet[Any]) -> list[str]:
        """Further sentences of the question about the selected rows, such as how much belongs to each."""
        return []

    def jobs(self, queryset: QuerySet[Any]) -> list[QuerySet[Any]]:
        """The rows by whose handlers and tenants the question tells what is meant."""
        return [queryset]

    def choices(self, using: str) -> list[str]:
        """Suggestions for the text field of the form."""
        return []

    def respond(self, modeladmin: TableAdmin, request: HttpRequest) -> HttpResponse | None:
        """Redirect to the row's page after the action; None returns to the list."""
        if FROM_PAGE not in request.POST:
            return None
        return HttpResponseRedirect(modeladmin.page_url(request.POST[ACTION_CHECKBOX_NAME]))

    def __call__(self, modeladmin: TableAdmin, request: HttpRequest, queryset: QuerySet[Any]) -> HttpResponse | None:
        using = modeladmin.write_alias(queryset)
        queryset = queryset.using(using)
        data: Mapping[str, Any] = {}
        large = is_large(request, queryset)
        if large and not self.in_background and is_more(queryset, self.most or batching.BATCH_ABOVE):
            text = _("At most %(count)d at once: select fewer, or filter the list.")
            modeladmin.message_user(request, text % {"count": self.most or batching.BATCH_ABOVE}, messages.ERROR)
            return None
        form_class = self.form_for(queryset) or (forms.Form if large else None)
        large = large and self.in_background
        if form_class is not None:
            applied = "_apply" in request.POST
            form = form_class(request.POST if applied else None, initial={} if applied else self.initial(queryset))
            if not form.is_valid() or self.ask_again(form, queryset, using):
                return self._ask(modeladmin, request, queryset, form, large)
            data = form.cleaned_data
        if large:
            return start(modeladmin, request, self, queryset, data)
        self._run(modeladmin, request, queryset, data)
        return self.respond(modeladmin, request)

    def _ask(
        self, modeladmin: TableAdmin, request: HttpRequest, queryset: QuerySet[Any], form: forms.Form, large: bool
    ) -> TemplateResponse:
        context = {
            **modeladmin.admin_site.each_context(request),
            "title": self.title,
            "action": self,
            "form": form,
            "opts": modeladmin.opts,
            "media": modeladmin.media,
            "count": CappedCount.of(queryset),
            "large": large,
            "meant": meant_jobs(*self.jobs(queryset)),
            "affected": self.affected(request, queryset),
            "rows": modeladmin.told_apart(list(queryset.only("pk", self.name_column)[:ROWS_SHOWN]), queryset.db),
            "choices": self.choices(queryset.db),
            "checkbox_name": ACTION_CHECKBOX_NAME,
            "selected": request.POST.getlist(ACTION_CHECKBOX_NAME),
            "select_across": int(select_across(request)),
            "from_page": FROM_PAGE if FROM_PAGE in request.POST else "",
            "list_url": request.get_full_path(),
        }
        request.current_app = modeladmin.admin_site.name
        return TemplateResponse(request, "admin/jobexec/ask.html", context)

    def _run(
        self, modeladmin: TableAdmin, request: HttpRequest, queryset: QuerySet[Any], data: Mapping[str, Any]
    ) -> None:
        keys = list(queryset.order_by().values_list("pk", flat=True))
        try:
            outcome = self.perform_for(request, queryset, queryset.db, data)
        except JobExecError as error:
            modeladmin.message_user(request, str(error), messages.ERROR)
            return
        outcome.skipped |= self.whereabouts(request, _vanished(request, keys), queryset.db)
        self._tell(modeladmin, request, outcome, data)

    def _tell(self, modeladmin: TableAdmin, request: HttpRequest, outcome: Outcome, data: Mapping[str, Any]) -> None:
        if outcome.changed:
            modeladmin.message_user(request, self.done(len(outcome.changed), data), messages.SUCCESS)
        for key, why in outcome.failed.items():
            text = _("%(key)s has failed: %(reason)s") % {"key": key, "reason": why}
            modeladmin.message_user(request, text, messages.ERROR)
        reasons = Counter(outcome.skipped.values())
        for reason, count in reasons.most_common(REASONS_SHOWN):
            keys = [str(key) for key, why in outcome.skipped.items() if why == reason][:IDS_SHOWN]
            modeladmin.message_user(request, left_alone(modeladmin, count, reason, keys), messages.WARNING)
        rest = sum(reasons.values()) - sum(count for _reason, count in reasons.most_common(REASONS_SHOWN))
        if rest:
            modeladmin.message_user(request, left_alone(modeladmin, rest, _("other reasons"), []), messages.WARNING)
        if not (outcome.changed or outcome.skipped or outcome.failed):
            modeladmin.message_user(request, _("Nothing was changed: no row matches any more."), messages.WARNING)


class RowAction(Action):
    """An operation on rows, one at a time; what refuses one leaves the others alone."""

    named_by: ClassVar[str] = "pk"
    """The column by which the operation finds a row."""
    refusals: ClassVar[tuple[type[Exception], ...]] = (JobExecError,)

    def perform(self, queryset: QuerySet[Any], using: str, data: Mapping[str, Any]) -> Outcome:
        outcome = Outcome()
        for row in list(queryset.only("pk", self.named_by)):
            try:
                refusal = self.operate(getattr(row, self.named_by), using, data)
            except queryset.model.DoesNotExist:  # not what a project's code does not find
                refusal = _("it no longer exists")
            except self.refusals as error:
                refusal = str(error).rstrip(".")
            if refusal is None:
                outcome.changed.append(row.pk)
            else:
                outcome.skipped[row.pk] = refusal
        return outcome

    def operate(self, key: Any, using: str, data: Mapping[str, Any]) -> str | None:
        """Call the operation. Return the reason if it did nothing, otherwise None."""
        raise NotImplementedError


class DeletingAction(Action):
    """An action that asks and then deletes rows. It has the name of Django's own action and replaces it."""

    name, permission = "delete_selected", "delete"
    description = gettext_lazy("Delete selected %(verbose_name_plural)s…")
    label = gettext_lazy("Delete…")
    form_class = ConfirmForm
    dangerous = True

    def respond(self, modeladmin: TableAdmin, request: HttpRequest) -> HttpResponse | None:
        return None  # its page is gone


def meant_jobs(*parts: QuerySet[Any]) -> list[str]:
    """How many rows there are of which handler and tenant, the most first; empty for tables without handlers.

    Of many rows the first ones are counted, as everywhere. The last line is then "…", as further handlers may follow.
    """
    found: dict[tuple[str, str], list[CappedCount]] = {}
    for rows in parts:
        for meant, count in _counts_of(rows).items():
            found.setdefault(meant, []).append(count)
    totals = {meant: CappedCount.total(*counts) for meant, counts in found.items()}
    most = sorted(totals, key=lambda meant: -totals[meant].likely)[:COMPOSED]
    told = []
    for handler, tenant in most:
        values = {"count": totals[handler, tenant].text, "handler": handler, "tenant": tenant}
        text = _("%(handler)s of tenant %(tenant)s: %(count)s") if tenant else _("%(handler)s: %(count)s")
        told.append(text % values)
    incomplete = len(totals) > COMPOSED or any(count.capped for count in totals.values())
    return [*told, *(["…"] if incomplete else [])]


def _counts_of(rows: QuerySet[Any]) -> dict[tuple[str, str], CappedCount]:
    """The rows by handler and tenant; the first ones stand for all where the database estimates how many there are."""
    if not {"handler_type", "tenant_id"} <= {each.name for each in rows.model._meta.fields}:
        return {}
    found = Counter(rows.order_by().values_list("handler_type", "tenant_id")[: COUNT_LIMIT + 1])
    seen = found.total()
    more = seen > COUNT_LIMIT
    counts = {meant: CappedCount.upto(count, more) for meant, count in found.items()}
    whole = estimated(rows) if more else None
    if whole is not None:
        for meant, count in counts.items():
            count.estimate = round(found[meant] * whole / seen)
    return counts


def left_alone(modeladmin: TableAdmin, count: int, reason: str, keys: list[str]) -> str:
    """The message about rows that were left alone, with the first keys."""
    name = modeladmin.opts.verbose_name if count == 1 else modeladmin.opts.verbose_name_plural
    text = ngettext("%(count)d %(name)s skipped: %(reason)s", "%(count)d %(name)s skipped: %(reason)s", count)
    text %= {"count": count, "name": name, "reason": reason}
    if not keys:
        return f"{text}."
    return f"{text} ({', '.join(keys)}{', …' if count > len(keys) else ''})."


def _vanished(request: HttpRequest, found: Iterable[Any]) -> list[str]:
    """Individually selected rows that are no longer in the list."""
    if select_across(request):
        return []
    known = {str(key) for key in found}
    return [key for key in request.POST.getlist(ACTION_CHECKBOX_NAME) if key not in known]
