"""Forms of the actions."""

from __future__ import annotations

from typing import Any

from django import forms
from django.utils.translation import gettext_lazy


class VariablesForm(forms.Form):
    """Variables as a JSON object."""

    variables = forms.JSONField(
        required=False,
        label=gettext_lazy("Variables"),
        help_text=gettext_lazy('A JSON object, for example {"approved": true}.'),
        widget=forms.Textarea(attrs={"rows": 6, "cols": 60}),
    )

    def clean_variables(self) -> dict[str, Any]:
        found = self.cleaned_data["variables"]
        if found is None or found == "":
            return {}
        if not isinstance(found, dict):
            raise forms.ValidationError(gettext_lazy("Expected a JSON object."))
        return found


class ReasonForm(forms.Form):
    """Why something is done."""

    reason = forms.CharField(required=False, max_length=4000, label=gettext_lazy("Reason"))
