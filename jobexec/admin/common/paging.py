"""Pages over tables of millions of rows: nothing here counts further than a fixed number of rows."""

from __future__ import annotations

from typing import Any

from django.contrib.admin.options import IncorrectLookupParameters
from django.contrib.admin.views.main import SEARCH_VAR, ChangeList
from django.core.paginator import Page, Paginator
from django.db import DataError
from django.db.models import QuerySet
from django.utils.functional import cached_property

from jobexec.operations.reports.counts import CappedCount

__all__ = ["CappedCount", "CappedPaginator", "LightChangeList"]

#: Of a search.
MOST_WORDS = 50


class CappedPaginator(Paginator):  # type: ignore[type-arg]
    """A paginator that never issues ``COUNT(*)`` over a whole table."""

    @cached_property
    def count(self) -> CappedCount:
        return CappedCount.of(self.object_list)  # type: ignore[arg-type]

    def page(self, number: int | str) -> Page[Any]:
        """A page behind the first one: its keys by the index of the order alone, and then its rows.

        MariaDB would read and sort the whole table rather than look up the rows of all pages before this one.
        """
        page = super().page(number)
        rows = self.object_list
        if page.number > 1 and isinstance(rows, QuerySet):
            keys = list(page.object_list.values_list("pk", flat=True))  # type: ignore[attr-defined]
            found = {row.pk: row for row in rows.order_by().filter(pk__in=keys)}
            page.object_list = [found[key] for key in keys if key in found]
        return page


class LightChangeList(ChangeList):
    """A list that leaves the large columns, which it does not show, in the database."""

    def get_queryset(self, request: Any, exclude_parameters: Any = None) -> QuerySet[Any]:
        # PostgreSQL has no NUL in a text, and not all of our filters are forms that would refuse it.
        if any("\0" in value for values in request.GET.lists() for value in values[1]):
            raise IncorrectLookupParameters("NUL characters are not allowed.")
        # Each word is a condition of its own, and a database takes only so many.
        if len(request.GET.get(SEARCH_VAR, "").split()) > MOST_WORDS:
            raise IncorrectLookupParameters(f"{SEARCH_VAR}: expected at most {MOST_WORDS} words.")
        queryset: QuerySet[Any] = super().get_queryset(request, exclude_parameters)
        return queryset.defer(*self.model_admin.deferred)  # type: ignore[attr-defined]

    def get_ordering_field(self, field_name: Any) -> Any:
        """Only what the list offers to sort by: an address could ask for any column, and no index serves those."""
        return super().get_ordering_field(field_name) if field_name in (self.sortable_by or ()) else None

    def get_results(self, request: Any) -> None:
        try:
            super().get_results(request)
            len(self.result_list)
        except (OverflowError, DataError) as error:  # a number or a date of the address that no column takes
            raise IncorrectLookupParameters(type(error).__name__) from error
        self.model_admin.complete_shown(request, list(self.result_list))  # type: ignore[attr-defined]
