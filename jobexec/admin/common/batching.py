"""Actions on very many rows: a batch does them in the background, and the request ends immediately."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from django import forms
from django.contrib import messages
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.utils.translation import gettext as _

from jobexec.exceptions import JobExecError
from jobexec.models import Batch

from .paging import CappedCount

if TYPE_CHECKING:
    from .actions import Action
    from .base import TableAdmin

BATCH_ABOVE = 500
"""The maximum number of rows that an action on all rows of a list changes within the request."""
MOST_BY_PAGES = 10_000
"""The same, for actions that no batch can do and that work page by page."""


def is_large(request: HttpRequest, queryset: QuerySet[Any]) -> bool:
    """Whether the action is on all rows of the list, and they are more than ``BATCH_ABOVE``."""
    return select_across(request) and is_more(queryset, BATCH_ABOVE)


def is_more(queryset: QuerySet[Any], most: int) -> bool:
    """Whether there are more rows than this."""
    return bool(queryset.order_by().values("pk")[: most + 1].count() > most)


def select_across(request: HttpRequest) -> bool:
    """Whether the user selected all rows of the list, not only rows of the page."""
    return bool(forms.BooleanField(required=False).to_python(request.POST.get("select_across")))


def start(
    modeladmin: TableAdmin, request: HttpRequest, action: Action, queryset: QuerySet[Any], data: Mapping[str, Any]
) -> HttpResponse | None:
    """Start a batch over the queryset's conditions, which include the user's tenants; redirect to its page."""
    count = CappedCount.of(queryset)
    selection = queryset.order_by().defer(None)
    names = {"action": action.title, "count": count, "names": modeladmin.opts.verbose_name_plural}
    try:
        batch = action.start_batch(selection, data, request.user.get_username())
    except JobExecError as error:
        modeladmin.message_user(request, str(error), messages.ERROR)
        return None
    started = _("%(action)s: started a batch for %(count)s %(names)s. It runs in the background.")
    modeladmin.message_user(request, started % names, messages.SUCCESS)
    return _page_of(modeladmin, request, batch)


def _page_of(modeladmin: TableAdmin, request: HttpRequest, batch: Batch) -> HttpResponse | None:
    batches: Any = modeladmin.admin_site._registry.get(Batch)
    if batches is None or not batches.has_view_permission(request):
        return None
    return HttpResponseRedirect(batches.page_url(batch.pk))
