"""Forms for the arguments of a job: one field for each parameter of its function."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from django import forms
from django.utils.translation import gettext as _

from jobexec.by_hand import InvalidArguments, Parameter
from jobexec.json_values import read_json
from jobexec.sensitive import HIDDEN

from ..common.forms import JSONField, entered_json

_PREFIX = "argument_"
#: The field with the variables of an external job.
VARIABLES = "variables"


class ArgumentField(forms.CharField):
    """An argument as JSON; a text without quotes where only a text fits. Nothing: the argument is not given."""

    def __init__(self, parameter: Parameter, *, kept: bool) -> None:
        self.parameter = parameter
        #: An empty field means the value of the old job, which is not shown.
        self.kept = kept
        hidden = parameter.sensitive or kept
        attrs = {"cols": 60, "rows": 1 if parameter.takes == "one" else 2, "spellcheck": "false"}
        widget = forms.PasswordInput(attrs={"size": 50, "autocomplete": "off"}) if hidden else forms.Textarea(attrs)
        super().__init__(
            label=parameter.name + (f": {parameter.annotation}" if parameter.annotation else ""),
            required=False,
            widget=widget,
            help_text=self._help(),
        )

    def _help(self) -> str:
        each = self.parameter
        if self.kept:
            return _("If empty: as in the job.")
        if each.takes != "one":
            return _("A JSON list.") if each.takes == "list" else _("A JSON object.")
        kind = _("A string.") if each.is_text else _("JSON; put strings in quotes.")
        if each.required:
            return _("%(kind)s Required.") % {"kind": kind}
        return _("%(kind)s If empty: %(default)s.") % {"kind": kind, "default": each.default}

    def clean(self, value: Any) -> Any:
        """The value, or None in a list of none: an argument that is not given."""
        text = super().clean(value)
        if text == "":
            if self.kept:
                return [HIDDEN]
            if self.parameter.required:
                raise forms.ValidationError(_("This argument is required."))
            return []
        found = self._parsed(text)
        error = None if found == HIDDEN else self.parameter.error(found)
        if error:
            raise forms.ValidationError(error)
        return [found]

    def _parsed(self, text: str) -> Any:
        try:
            found = (read_json if self.parameter.is_text else entered_json)(text)
        except ValueError:
            found = None if not self.parameter.is_text else text
            if found is None and text != HIDDEN:
                raise forms.ValidationError(_("Enter JSON: a string in quotes, a number, a list …")) from None
            return text
        # A number and a word may be meant as a text, too.
        return text if self.parameter.is_text and self.parameter.error(found) else found


class ArgumentsForm(forms.Form):
    """The arguments of a function, or the variables of an external job. ``arguments()`` is what was entered."""

    parameters: ClassVar[Sequence[Parameter] | None] = None
    """None for an external job."""
    old: ClassVar[Mapping[str, Any]] = {}
    """The shown arguments of the job that is run again."""
    hides_all: ClassVar[bool] = False
    """Whether the old job is encrypted."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if self.parameters is None:
            self.fields[VARIABLES] = JSONField(
                label=_("Variables"),
                help_text=_("A JSON object. If empty: as in the job.") if self.hides_all else _("A JSON object."),
            )
            if not self.hides_all:
                self.initial.setdefault(VARIABLES, dict(self.old))
        for each in self.parameters or ():
            secret = each.sensitive or self.hides_all
            field = ArgumentField(each, kept=each.name in self.old and secret)
            if each.name in self.old and not secret:
                field.initial = _as_text(each, self.old[each.name])
            self.fields[f"{_PREFIX}{each.name}"] = field

    def clean_variables(self) -> dict[str, Any]:
        value = self.cleaned_data[VARIABLES]
        if value in (None, ""):
            return {}
        if not isinstance(value, dict):
            raise forms.ValidationError(_("This must be a JSON object."))
        return value

    def arguments(self) -> dict[str, Any]:
        """The valid arguments by name."""
        if self.parameters is None:
            return dict(self.cleaned_data[VARIABLES])
        given = {each.name: self.cleaned_data.get(f"{_PREFIX}{each.name}") for each in self.parameters}
        return {name: found[0] for name, found in given.items() if found}

    def tell(self, error: InvalidArguments) -> None:
        """Show the errors beside their fields."""
        for name, text in error.errors.items():
            field = f"{_PREFIX}{name}"
            self.add_error(field if field in self.fields else None, text if field in self.fields else f"{name}: {text}")


def form_of(
    base: type[ArgumentsForm],
    parameters: Sequence[Parameter] | None,
    old: Mapping[str, Any] | None = None,
    *,
    hides_all: bool = False,
) -> type[ArgumentsForm]:
    """A form class for these parameters."""
    return type(base.__name__, (base,), {"parameters": parameters, "old": old or {}, "hides_all": hides_all})


def _as_text(parameter: Parameter, value: Any) -> str:
    if parameter.is_text and isinstance(value, str) and not _is_json(value):
        return value
    return json.dumps(value, ensure_ascii=False)


def _is_json(text: str) -> bool:
    try:
        read_json(text)
    except ValueError:
        return False
    return True
