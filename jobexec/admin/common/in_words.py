"""Columns of tables that Django would show in other words than the rest of the pages: dates and flags."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from django.contrib import admin
from django.db.models import BooleanField, DateTimeField, Field
from django.utils.safestring import SafeString

from . import display

Shown = Callable[[Any], str | SafeString]


def in_words(column: Field[Any, Any]) -> Sequence[Shown]:
    """How a list and a page show the column; empty for a column that Django shows well."""
    if isinstance(column, DateTimeField):
        return _named(column, "ago", display.relative), _named(column, "exactly", display.exact)
    if isinstance(column, BooleanField):
        flag = _named(column, "in_words", lambda value, _now: display.yes_or_no(value))
        return flag, flag
    return ()


def _named(column: Field[Any, Any], suffix: str, show: Callable[[Any, Any], str | SafeString]) -> Shown:
    @admin.display(description=column.verbose_name, ordering=column.name)
    def shown(row: Any) -> str | SafeString:
        return show(getattr(row, column.attname), display.now(row))

    # Another name than the column's, or Django would show the column itself.
    shown.__name__ = f"{column.name}_{suffix}"
    return shown
