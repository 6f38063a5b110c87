"""Pagination of tables with millions of rows: nothing here counts beyond a fixed number of rows."""

from __future__ import annotations

from typing import Any

from django.contrib import messages
from django.contrib.admin.options import IncorrectLookupParameters
from django.contrib.admin.views.main import SEARCH_VAR, ChangeList
from django.core.paginator import Page, Paginator
from django.db import DataError
from django.db.models import QuerySet
from django.utils.functional import cached_property
from django.utils.translation import gettext as _

from jobexec.operations.reports.counts import CappedCount

__all__ = ["CappedCount", "CappedPaginator", "LightChangeList"]

#: The maximum number of words in a search.
MOST_WORDS = 50


class CappedPaginator(Paginator):  # type: ignore[type-arg]
    """A paginator that never issues ``COUNT(*)`` over a whole table."""

    @cached_property
    def count(self) -> CappedCount:
        return CappedCount.of(self.object_list)  # type: ignore[arg-type]

    def page(self, number: int | str) -> Page[Any]:
        """For pages after the first, read the keys from the index of the order alone, and then the rows.

        Otherwise MariaDB reads and sorts the whole table rather than look up the rows of all previous pages.
        """
        page = super().page(number)
        rows = self.object_list
        if page.number > 1 and isinstance(rows, QuerySet):
            keys = list(page.object_list.values_list("pk", flat=True))  # type: ignore[attr-defined]
            found = {row.pk: row for row in rows.order_by().filter(pk__in=keys)}
            page.object_list = [found[key] for key in keys if key in found]
        return page


class LightChangeList(ChangeList):
    """A list that does not load the large columns, which it does not show."""

    def get_queryset(self, request: Any, exclude_parameters: Any = None) -> QuerySet[Any]:
        # PostgreSQL refuses NUL in a text, and not all of our filters are forms that reject it.
        if any("\0" in value for values in request.GET.lists() for value in values[1]):
            raise IncorrectLookupParameters("NUL characters are not allowed.")
        # Each word is a condition of its own, and databases limit the number of conditions.
        if len(request.GET.get(SEARCH_VAR, "").split()) > MOST_WORDS:
            raise IncorrectLookupParameters(f"{SEARCH_VAR}: expected at most {MOST_WORDS} words.")
        queryset: QuerySet[Any] = super().get_queryset(request, exclude_parameters)
        return queryset.defer(*self.model_admin.deferred)  # type: ignore[attr-defined]

    def get_ordering_field(self, field_name: Any) -> Any:
        """Sort only by columns that the list offers: a URL could name any column, and the others have no index."""
        return super().get_ordering_field(field_name) if field_name in (self.sortable_by or ()) else None

    def get_results(self, request: Any) -> None:
        # Only for the page: actions get the rows without what is added to show them.
        rows, self.queryset = self.queryset, self.model_admin.to_show(self.queryset)  # type: ignore[attr-defined]
        try:
            super().get_results(request)
            len(self.result_list)
        except (OverflowError, DataError) as error:  # a number or date in the URL that is out of range for the column
            raise IncorrectLookupParameters(type(error).__name__) from error
        finally:
            self.queryset = rows
        if self.query and request.method == "GET":
            self._tell_what_is_searched(request)
        self.model_admin.complete_shown(request, list(self.result_list))  # type: ignore[attr-defined]

    def _tell_what_is_searched(self, request: Any) -> None:
        note = self.model_admin.note_of_search(request, self.queryset)  # type: ignore[attr-defined]
        if not self.result_list:
            text = _("No results for “%(term)s”. You can search this list for: %(what)s")
            said = text % {"term": self.query, "what": self.search_help_text or ", ".join(self.search_fields)}
            self.model_admin.warn(request, f"{said} {note}".rstrip())  # type: ignore[attr-defined]
        elif note:
            self.model_admin.message_user(request, note, messages.INFO, fail_silently=True)
