"""Rows that cannot be read in full: a page shows the readable columns and names the others.

jobexec itself never writes such rows; see :mod:`jobexec.operations.rows.bury_unreadable`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator
from functools import cache, wraps
from typing import Any

from django.core.exceptions import ValidationError
from django.db.models import DateTimeField, Model, QuerySet, TextField
from django.db.models.functions import Cast
from django.db.models.query import ModelIterable
from django.utils import timezone
from django.utils.translation import gettext as _

from jobexec.operations.rows.bury_unreadable import UNREADABLE

from . import display

logger = logging.getLogger("jobexec.admin")
_TOLD = 5


class _Rows(QuerySet[Any]):
    """A queryset whose rows have None in unreadable columns, and name these in their attribute ``unreadable``."""

    _iterable_class: Any

    def _fetch_all(self) -> None:
        try:
            super()._fetch_all()
        except UNREADABLE:
            if not issubclass(self._iterable_class, ModelIterable):
                raise
            self._result_cache = list(_one_by_one(self))
        if self._result_cache and issubclass(self._iterable_class, ModelIterable):
            for row in self._result_cache:
                _look_at_dates(row)


@cache
def _like(kind: type[QuerySet[Any]]) -> type[QuerySet[Any]]:
    return kind if issubclass(kind, _Rows) else type(kind.__name__, (_Rows, kind), {})


def surviving(rows: QuerySet[Any]) -> QuerySet[Any]:
    """The same rows; a row that cannot be read is read column by column, so that it does not affect the others."""
    copy = rows.all()
    copy.__class__ = _like(type(copy))
    return copy


def _one_by_one(rows: QuerySet[Any]) -> Iterator[Model]:
    key = rows.model._meta.pk
    # As texts: on SQLite even the key may be invalid. Such a row has no page and is skipped.
    for text in rows.annotate(key_as_text=Cast("pk", TextField())).values_list("key_as_text", flat=True):
        try:
            pk = key.to_python(text)
        except ValidationError:
            continue
        found = rows._chain()  # type: ignore[attr-defined]
        found.query.clear_limits()
        row = _read(found.order_by().filter(pk=pk), pk)
        if row is not None:
            yield row


def _read(rows: QuerySet[Any], pk: Any) -> Model | None:
    rows.__class__ = QuerySet  # otherwise this would recurse
    try:
        return rows.first()
    except UNREADABLE:
        pass
    names, is_deferred = rows.query.deferred_loading
    fields = [field for field in rows.model._meta.concrete_fields if (field.name in names) is not is_deferred]
    values, odd = {rows.model._meta.pk.attname: pk}, list[str]()
    for name in [field.attname for field in fields if not field.primary_key] + [*rows.query.annotations]:
        try:
            values[name] = rows.values_list(name, flat=True)[0]
        except IndexError:  # the row has been deleted meanwhile
            return None
        except UNREADABLE:
            values[name] = None
            odd.append(name)
    columns = {name: values.pop(name) for name in [*values] if name not in rows.query.annotations}
    row: Model = rows.model.from_db(rows.db, list(columns), list(columns.values()))
    for name, value in values.items():
        setattr(row, name, value)
    row.unreadable = odd  # type: ignore[attr-defined]
    return row


def _look_at_dates(row: Model) -> None:
    """Mark datetimes that can be read but not converted to the current time zone (the end of the calendar)."""
    for field in row._meta.concrete_fields:
        if not isinstance(field, DateTimeField) or field.attname not in row.__dict__:
            continue
        try:
            value = row.__dict__[field.attname]
            if value is not None:
                timezone.localtime(value)
        except UNREADABLE:
            setattr(row, field.attname, None)
            row.unreadable = [*unreadable(row), field.attname]  # type: ignore[attr-defined]


def unreadable(row: Any) -> list[str]:
    """The unreadable columns of a row."""
    return getattr(row, "unreadable", [])


def sentence(rows: Iterable[Any]) -> str:
    """The warning about rows that cannot be read in full; empty if there are none."""
    told = [f"{row.pk} ({', '.join(unreadable(row))})" for row in rows if unreadable(row)]
    if not told:
        return ""
    more = ["…"] if len(told) > _TOLD else []
    return _("Cannot be read in full: %(rows)s.") % {"rows": "; ".join([*told[:_TOLD], *more])}


def marking(method: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap a column or field so that it shows a mark if the row's values are invalid."""

    @wraps(method)
    def marked(row: Any) -> Any:
        try:
            return method(row)
        except UNREADABLE as error:
            # Without the message: it may quote masked values.
            logger.warning("%s %s: %s: %s", row._meta.label, row.pk, method.__name__, type(error).__name__)
            return display.badge("bad", _("unreadable"))

    return marked
