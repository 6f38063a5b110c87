"""A plain form for a user task or the start of an instance, made of the fields of the model."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, ClassVar, cast

from django import forms
from django.core.serializers.json import DjangoJSONEncoder
from django.urls import NoReverseMatch, reverse
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _

from jobexec.admin.common.display import NONE, link

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


class FieldsForm(forms.Form):
    """The fields of a model beside those of another form, which has other variables as JSON.

    What is not filled in is not set.
    """

    names_instance: ClassVar[str | None] = None
    """The field whose value is the business key if no other is given."""

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
        if "business_key" in self.fields and self.names_instance is not None:
            data["business_key"] = data.get("business_key") or str(given.get(self.names_instance, ""))
        return data


def form_of(fields: Sequence[Mapping[str, Any]], base: type[VariablesForm] = VariablesForm) -> type[VariablesForm]:
    """The form for these fields and those of another; without any, that one."""
    shown = [each for each in fields if each.get("id") and _is_shown(each)]
    made: dict[str, Any] = {f"{_PREFIX}{each['id']}": _field(each) for each in shown}
    if not made:
        return base
    others = [name for name in base.base_fields if name != "variables"]
    order = [*others, *made, "variables"]  # now: Django takes the fields out of the dict
    form: Any = type("Form", (FieldsForm, base), made)
    form.field_order = order  # not with the fields: one may have this name
    form.names_instance = next((each["id"] for each in shown if each.get("business_key")), None)
    return cast(type[VariablesForm], form)


def shown_form(fields: Sequence[Mapping[str, Any]], form_key: str, id: Any) -> str | SafeString:
    """The names of the fields, or a link to the project's own view if the form key is the name of its URL."""
    names = [f"{each.get('label') or each.get('id')} ({each.get('type') or 'string'})" for each in fields]
    if not form_key:
        return ", ".join(names) or NONE
    try:
        return link(reverse(form_key, args=[id]), form_key)
    except NoReverseMatch:
        return form_key


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
