"""A plain form for a user task, made of the fields of its model."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any

from django import forms
from django.core.serializers.json import DjangoJSONEncoder
from django.utils.translation import gettext as _

from jobexec.admin.common.display import NONE

from .forms import VariablesForm

_PREFIX = "field_"

#: The types of ``camunda:formField`` and ``flowable:formProperty``. Others are texts.
_TYPES: dict[str, Callable[..., forms.Field]] = {
    "string": forms.CharField,
    "long": forms.IntegerField,
    "integer": forms.IntegerField,
    "double": forms.FloatField,
    "number": forms.FloatField,
    "boolean": forms.BooleanField,
    "date": forms.DateField,
}


class TaskForm(VariablesForm):
    """The fields of a task, and other variables as JSON. What is not filled in is not set."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["variables"].label = _("Other variables")

    def clean(self) -> dict[str, Any]:
        """Put the values of the fields into ``variables``, under their own names."""
        data = super().clean() or {}
        given = dict(data.get("variables") or {})
        for name in self.fields:
            value = data.get(name)
            if name.startswith(_PREFIX) and value not in (None, ""):
                given[name.removeprefix(_PREFIX)] = value
        # As JSON has them: a date is a text.
        data["variables"] = json.loads(json.dumps(given, cls=DjangoJSONEncoder))
        return data


def form_of(fields: Sequence[Mapping[str, Any]]) -> type[VariablesForm]:
    """The form for these fields; without any, one for variables as JSON."""
    made = {f"{_PREFIX}{each['id']}": _field(each) for each in fields if each.get("id") and _is_shown(each)}
    if not made:
        return VariablesForm
    return type("Form", (TaskForm,), {**made, "field_order": [*made, "variables"]})


def _is_shown(each: Mapping[str, Any]) -> bool:
    return each.get("readable") is not False


def _field(each: Mapping[str, Any]) -> forms.Field:
    constraints = each.get("constraints") or {}
    writable = each.get("writable") is not False and "readonly" not in constraints
    kind = str(each.get("type") or "string")
    options: dict[str, Any] = {
        "label": each.get("label") or each["id"],
        "initial": each.get("default"),
        "required": writable and kind != "boolean" and (bool(each.get("required")) or "required" in constraints),
        "disabled": not writable,
    }
    if kind == "enum" or each.get("values"):
        return _choice(each, options)
    if kind == "date":
        options["widget"] = forms.DateInput(attrs={"type": "date"}, format="%Y-%m-%d")
    if kind == "boolean":
        options["initial"] = each.get("default") in (True, "true")
    return _limited(_TYPES.get(kind, forms.CharField), constraints, options)


def _choice(each: Mapping[str, Any], options: dict[str, Any]) -> forms.Field:
    values = [(id, name or id) for id, name in (each.get("values") or {}).items()]
    return forms.ChoiceField(choices=values if options["required"] else [("", NONE), *values], **options)


def _limited(kind: Callable[..., forms.Field], constraints: Mapping[str, Any], options: dict[str, Any]) -> forms.Field:
    """With the limits that the model gives as whole numbers."""
    names = {"minlength": "min_length", "maxlength": "max_length"} if kind is forms.CharField else {}
    if kind in (forms.IntegerField, forms.FloatField):
        names = {"min": "min_value", "max": "max_value"}
    for name, option in names.items():
        with suppress(ValueError):
            options[option] = int(str(constraints.get(name) or ""))
    return kind(**options)
