"""The selection of a batch in words: describes what ``jobexec.operations.query.stored_filter`` stores."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.core.exceptions import FieldDoesNotExist
from django.utils.dateparse import parse_datetime
from django.utils.translation import gettext as _

from jobexec.models import JOB_TABLES

from ..common import display

_TABLES = {table._meta.model_name: table for table in JOB_TABLES}
_SIGNS = {"exact": "=", "gt": ">", "gte": "≥", "lt": "<", "lte": "≤"}
VALUES_SHOWN = 5


def words(selection: Mapping[str, Any]) -> str:
    """For example: dead letter jobs with handler_type = "shop.pay" and priority ≥ 5."""
    ids = selection.get("ids")
    if isinstance(ids, list):
        return _("%(count)d individually selected jobs") % {"count": len(ids)}
    table = _TABLES.get(str(selection.get("table")))
    if table is None:
        return str(selection)
    names = {"names": table._meta.verbose_name_plural}
    condition = _condition(selection.get("where") or {}, table)
    if not condition:
        return _("all %(names)s") % names
    return _("%(names)s with %(condition)s") % {**names, "condition": condition}


def _condition(node: Mapping[str, Any], table: type[Any], within: bool = False) -> str:
    if "children" not in node:
        return _comparison(node, table)
    parts = [text for text in (_condition(child, table, True) for child in node["children"]) if text]
    if not parts:
        return _("nothing") if node.get("connector") == "OR" else ""
    text = (_(" or ") if node.get("connector") == "OR" else _(" and ")).join(parts)
    if node.get("negated"):
        return _("not (%(condition)s)") % {"condition": text}
    return f"({text})" if within and len(parts) > 1 else text


def _comparison(node: Mapping[str, Any], table: type[Any]) -> str:
    column, lookup, value = str(node.get("column")), str(node.get("lookup")), node.get("value")
    name = _name(column, table)
    if lookup == "isnull":
        return (_("no %(column)s") if value else _("any %(column)s")) % {"column": name}
    if isinstance(value, list):
        shown = ", ".join(_value(each) for each in value[:VALUES_SHOWN])
        more = ", …" if len(value) > VALUES_SHOWN else ""
        return _("%(column)s among %(values)s") % {"column": name, "values": shown + more}
    return f"{name} {_SIGNS.get(lookup, lookup)} {_value(value)}"


def _name(column: str, table: type[Any]) -> str:
    try:
        return str(table._meta.get_field(column).verbose_name)
    except FieldDoesNotExist:
        return column


def _value(value: Any) -> str:
    if not isinstance(value, str):
        return str(value)
    moment = parse_datetime(value) if "T" in value and value[:4].isdigit() else None
    return display.absolute(moment) if moment is not None and moment.tzinfo else f"“{value}”"
