"""Pages over tables of millions of rows: nothing here counts further than a fixed number of rows."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.contrib.admin.views.main import ChangeList
from django.core.paginator import Paginator
from django.db.models import QuerySet
from django.utils.formats import number_format
from django.utils.functional import cached_property

COUNT_LIMIT = 10_000
"""Where counting ends. With more rows a list shows "10,000+" and pages over the first 10,000 only."""


class CappedCount(int):
    """A number of rows; where counting was ended, it reads "10,000+" in templates and messages."""

    capped = False

    @classmethod
    def of(cls, queryset: QuerySet[Any]) -> CappedCount:
        """Count up to :data:`COUNT_LIMIT` rows: the database stops reading at the LIMIT of the subquery."""
        found = queryset.order_by().values("pk")[: COUNT_LIMIT + 1].count()
        count = cls(min(found, COUNT_LIMIT))
        count.capped = found > COUNT_LIMIT
        return count

    def __str__(self) -> str:
        # With USE_THOUSAND_SEPARATOR Django regroups the text that we return, so it must consist of digits.
        if settings.USE_THOUSAND_SEPARATOR or not self.capped:
            return int.__repr__(self)
        return f"{number_format(int(self), force_grouping=True)}+"


class CappedPaginator(Paginator):  # type: ignore[type-arg]
    """A paginator that never issues ``COUNT(*)`` over a whole table."""

    @cached_property
    def count(self) -> CappedCount:
        return CappedCount.of(self.object_list)  # type: ignore[arg-type]


class LightChangeList(ChangeList):
    """A list that leaves the large columns, which it does not show, in the database."""

    def get_queryset(self, request: Any, exclude_parameters: Any = None) -> QuerySet[Any]:
        queryset: QuerySet[Any] = super().get_queryset(request, exclude_parameters)
        return queryset.defer(*self.model_admin.deferred)  # type: ignore[attr-defined]
