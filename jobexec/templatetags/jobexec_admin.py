"""Cells of the admin's lists with the names of their columns, for narrow screens, on which each row is a card."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from django import template
from django.utils.html import format_html
from django.utils.safestring import SafeString, mark_safe
from django.utils.text import capfirst

register = template.Library()


@register.filter
def labelled(results: Iterable[Any], headers: Sequence[dict[str, Any]]) -> list[Any]:
    """The rows of ``result_list`` with the attribute ``data-label`` in each cell that is no heading.

    They stay what they are: themes of the admin have their own class of rows, with more attributes.
    """
    rows = list(results)
    for row in rows:
        row[:] = [_labelled(cell, header["text"]) for cell, header in zip(row, headers, strict=False)]
    return rows


def _labelled(cell: str, label: Any) -> SafeString:
    if not cell.startswith("<td") or "action-checkbox" in cell.partition(">")[0]:
        return mark_safe(cell)  # noqa: S308  # as Django has rendered it
    return mark_safe(cell.replace("<td", format_html('<td data-label="{}"', capfirst(label)), 1))  # noqa: S308
