"""Forms of the actions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import replace
from typing import Any
from uuid import UUID

from django import forms
from django.utils.text import format_lazy
from django.utils.translation import gettext_lazy

from jobexec.admin.common.forms import JSONField
from jobexec.admin.common.forms import RetriesForm as JobRetriesForm

from ..engine.inputs import Change, Command

#: Choices that a field shows without scrolling.
_SHOWN = 8


def _elements(label: Any, text: Any) -> forms.MultipleChoiceField:
    return forms.MultipleChoiceField(
        required=False,
        label=label,
        help_text=format_lazy("{} {}", text, gettext_lazy("Hold down Ctrl, or ⌘ on a Mac, to select more than one.")),
        widget=forms.SelectMultiple(attrs={"class": "jobexec-elements"}),
    )


def _skips_listeners() -> forms.BooleanField:
    return forms.BooleanField(
        required=False,
        label=gettext_lazy("Skip listeners"),
        help_text=gettext_lazy("The listeners of the model are not called, for example because one of them fails."),
    )


class VariablesForm(forms.Form):
    """Variables as a JSON object."""

    variables = JSONField(
        initial=dict,
        label=gettext_lazy("Variables"),
        help_text=gettext_lazy('A JSON object, for example {"approved": true}.'),
    )

    def clean_variables(self) -> dict[str, Any]:
        found = self.cleaned_data["variables"]
        if found is None or found == "":
            return {}
        if not isinstance(found, dict):
            raise forms.ValidationError(gettext_lazy("Expected a JSON object."))
        return found


class ElementsForm(VariablesForm):
    """Elements at which an instance is to start or continue. The choices are those of the selected rows."""

    before = _elements(gettext_lazy("Start before"), gettext_lazy("These elements are started."))
    after = _elements(
        gettext_lazy("Start after"), gettext_lazy("The instance continues as if these elements were completed.")
    )

    def clean(self) -> dict[str, Any]:
        data = super().clean() or self.cleaned_data
        data["commands"] = self.commands(data)
        return data

    def commands(self, data: Mapping[str, Any]) -> list[Command]:
        return [
            Command(change, element)
            for change, name in ((Change.BEFORE, "before"), (Change.AFTER, "after"))
            for element in data.get(name, ())
        ]


class ModifyForm(ElementsForm):
    """What is cancelled first, and then started. A choice is an arrival, or empty for all, and its element."""

    cancel = _elements(gettext_lazy("Cancel"), gettext_lazy("Anything active at these elements is cancelled first."))
    reason = forms.CharField(required=False, max_length=4000, label=gettext_lazy("Reason"))
    skip_listeners = _skips_listeners()
    field_order = ("cancel", "before", "after", "variables", "reason", "skip_listeners")

    def commands(self, data: Mapping[str, Any]) -> list[Command]:
        chosen = [each.partition(":") for each in data.get("cancel", ())]
        cancelled = [
            Command(Change.CANCEL, element, activity=UUID(activity) if activity else None)
            for activity, _, element in chosen
        ]
        variables = data.get("variables") or {}
        started = [replace(each, variables=variables) for each in super().commands(data)]
        if not cancelled and not started:
            self.add_error("cancel", gettext_lazy("Choose what to cancel or to start."))
        return [*cancelled, *started]


def with_choices(form: type[forms.Form], **choices: Sequence[tuple[str, str]]) -> type[forms.Form]:
    """The form with these choices in its fields."""
    fields: dict[str, Any] = {}
    for name, found in choices.items():
        field: Any = deepcopy(form.base_fields[name])
        fields[name] = field
        field.choices = found
        field.widget.attrs["size"] = min(_SHOWN, max(2, len(found)))
    return type(form.__name__, (form,), fields)


class StartForm(VariablesForm):
    """The business key and variables of a new instance."""

    business_key = forms.CharField(required=False, max_length=255, label=gettext_lazy("Business key"))
    field_order = ("business_key", "variables")


class VariableForm(forms.Form):
    """One variable of an instance."""

    name = forms.CharField(max_length=255, label=gettext_lazy("Name"))
    value = JSONField(
        label=gettext_lazy("Value"),
        help_text=gettext_lazy('As JSON: 5, "text", true, null, [1, 2] or {"a": 1}.'),
    )


class CancelForm(forms.Form):
    """The reason of a cancellation, and whether listeners are called."""

    reason = forms.CharField(required=False, max_length=4000, label=gettext_lazy("Reason"))
    skip_listeners = _skips_listeners()


class RetryForm(JobRetriesForm):
    """The attempts of the dead letters; all of an instance, or the one that its page names."""

    job = forms.UUIDField(required=False, widget=forms.HiddenInput)
