"""The form for schedules."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, ClassVar
from zoneinfo import available_timezones

from django import forms
from django.conf import settings
from django.core.serializers.json import DjangoJSONEncoder
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from jobexec.by_hand import restored
from jobexec.exceptions import InvalidSchedule
from jobexec.models import Schedule
from jobexec.operations.schedules.fields import check_job, checked_values
from jobexec.operations.schedules.manage import upcoming
from jobexec.redaction import redact
from jobexec.sensitive import HIDDEN, hide

from ..common.forms import JSONField
from ..common.tenancy import COLUMN

#: How the process instances of batches begin, of which users limited to some tenants may make no jobs: a handler would
#: reach the batch by its context. Unique keys and other process instances belong to a tenant.
_OF_BATCHES = "batch:"

NEVER = gettext_lazy("The schedule would never fire: all its times have passed.")
#: The expressions to suggest, all of which can be said in words.
EXPRESSIONS = (
    *("*/5 * * * *", "*/15 * * * *", "0 * * * *", "0 3 * * *", "0 3 * * MON-FRI", "0 3 * * SUN", "0 3 1 * *"),
    *("R/PT30S", "R/PT15M", "R/PT6H"),
)


class IndentedJSONField(JSONField):
    """Indented JSON."""

    def prepare_value(self, value: Any) -> Any:
        if isinstance(value, forms.fields.InvalidJSONInput):
            return value
        return json.dumps(value, indent=2, ensure_ascii=False, cls=DjangoJSONEncoder)


def _json(label: Any, help_text: Any, initial: Any, rows: int) -> IndentedJSONField:
    return IndentedJSONField(label=label, help_text=help_text, initial=initial, rows=rows)


class ScheduleForm(forms.ModelForm):  # type: ignore[type-arg]
    """A schedule, saved by :func:`jobexec.operations.schedules.manage.save_schedule`, which makes the same checks."""

    #: Set by the admin for each request: the database to save in, and the tenants that its user is limited to.
    using: ClassVar[str] = "default"
    tenants: ClassVar[frozenset[str] | None] = None

    args = _json(gettext_lazy("Arguments by position"), gettext_lazy("A JSON list, for example [4711]."), [], 3)
    kwargs = _json(
        gettext_lazy("Arguments by name"), gettext_lazy('A JSON object, for example {"currency": "EUR"}.'), {}, 4
    )
    options = _json(
        gettext_lazy("Options"),
        gettext_lazy(
            'Options of its jobs, as for using(): a JSON object, for example {"priority": 5, "tenant_id": "acme"}.'
        ),
        {},
        4,
    )

    class Meta:
        model = Schedule
        fields = ("name", "handler_type", "expression", "timezone", "misfire", "enabled", "options")
        widgets: ClassVar = {
            "name": forms.TextInput(attrs={"size": "50"}),
            "handler_type": forms.TextInput(attrs={"size": "50", "list": "jobexec-handlers", "autocomplete": "off"}),
            "expression": forms.TextInput(
                attrs={"size": "30", "list": "jobexec-expressions", "autocomplete": "off", "spellcheck": "false"}
            ),
            "timezone": forms.TextInput(attrs={"size": "30", "list": "jobexec-zones", "autocomplete": "off"}),
        }

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        row = self.instance
        if row.pk is None:
            self.initial.setdefault("timezone", settings.TIME_ZONE)
            return
        shown = redact(row.handler_type, row.handler_configuration, self.using)
        shown = shown if isinstance(shown, dict) else {}
        self.initial.update(args=shown.get("args", []), kwargs=shown.get("kwargs", {}), options=hide(row.options))

    def _stored(self, field: str) -> Any:
        """The saved value, including what the form hides."""
        row = self.instance
        if row.pk is None or ("handler_type" in self.changed_data and field != "options"):
            return None  # the new handler might show what the old one hides
        return row.options if field == "options" else row.handler_configuration.get(field)

    def _clean_json(self, field: str) -> Any:
        given = self.cleaned_data[field]
        default: Any = [] if field == "args" else {}
        if given is None or given == "":
            return default
        if not isinstance(given, type(default)):
            raise forms.ValidationError(
                _("This must be a JSON list.") if field == "args" else _("This must be a JSON object.")
            )
        value = restored(given, self._stored(field))
        if HIDDEN in json.dumps(value, ensure_ascii=False):
            raise forms.ValidationError(_("Enter hidden values (●●●) again here."))
        return value

    def clean_args(self) -> Any:
        return self._clean_json("args")

    def clean_kwargs(self) -> Any:
        return self._clean_json("kwargs")

    def clean_options(self) -> Any:
        options = self._clean_json("options")
        if self.tenants is not None and options.get(COLUMN, "") not in self.tenants:
            raise forms.ValidationError(_('Its "tenant_id" must be one of your tenants.'))
        if self.tenants is not None and str(options.get("process_instance_id", "")).startswith(_OF_BATCHES):
            text = _("These options affect jobs of other tenants: %(options)s.")
            raise forms.ValidationError(text % {"options": "process_instance_id"})
        return options

    def clean(self) -> dict[str, Any]:
        data = super().clean() or self.cleaned_data
        if data.get("expression") and data.get("timezone"):
            self._try(lambda: self._check_times(data["expression"], data["timezone"]))
        if not self.errors:
            self._try(lambda: check_job(self.using, checked_values(**self.values())))
        return data

    def _try(self, check: Callable[[], object]) -> None:
        try:
            check()
        except InvalidSchedule as error:
            field, text = placed(error)
            self.add_error(field if field in self.fields else None, text)

    def values(self) -> dict[str, Any]:
        """The arguments of save_schedule."""
        names = ("handler_type", "expression", "timezone", "misfire", "enabled")
        given = {name: self.cleaned_data.get(name, getattr(self.instance, name)) for name in names}
        return {**given, **{name: self.cleaned_data[name] for name in ("args", "kwargs", "options")}}

    def _check_times(self, expression: str, timezone: str) -> None:
        if not upcoming(expression, 1, timezone=timezone):
            raise InvalidSchedule(str(NEVER))


def zones() -> list[str]:
    """The time zones to suggest."""
    return sorted(available_timezones() - {"localtime"})


def placed(error: InvalidSchedule) -> tuple[str, str]:
    """The form field that the error is about, and the message without the name of the field."""
    text = str(error)
    first, colon, rest = text.partition(": ")
    field = "kwargs" if first.partition("[")[0] == "kwargs" else error.field
    if colon and first in ("name", "handler_type", "expression", "timezone", "misfire", "args", "kwargs", "options"):
        text = rest[:1].upper() + rest[1:]
    return field, text
