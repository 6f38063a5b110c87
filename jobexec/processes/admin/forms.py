"""Forms of the actions."""

from __future__ import annotations

from typing import Any

from django import forms
from django.utils.translation import gettext_lazy

from jobexec.admin.common.forms import RetriesForm as JobRetriesForm


def _json(**options: Any) -> forms.JSONField:
    return forms.JSONField(widget=forms.Textarea(attrs={"rows": 6, "cols": 60, "class": "jobexec-json"}), **options)


class VariablesForm(forms.Form):
    """Variables as a JSON object."""

    variables = _json(
        required=False,
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


class StartForm(VariablesForm):
    """What an instance starts with."""

    business_key = forms.CharField(required=False, max_length=255, label=gettext_lazy("Business key"))
    field_order = ("business_key", "variables")


class VariableForm(forms.Form):
    """One variable of an instance."""

    name = forms.CharField(max_length=255, label=gettext_lazy("Name"))
    value = _json(
        required=False,
        label=gettext_lazy("Value"),
        help_text=gettext_lazy('As JSON: 5, "text", true, null, [1, 2] or {"a": 1}.'),
    )


class ReasonForm(forms.Form):
    """Why something is done."""

    reason = forms.CharField(required=False, max_length=4000, label=gettext_lazy("Reason"))


class RetryForm(JobRetriesForm):
    """The attempts of the dead letters; all of an instance, or the one that its page names."""

    job = forms.UUIDField(required=False, widget=forms.HiddenInput)
