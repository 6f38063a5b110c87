"""Forms that actions show before they run."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from django import forms
from django.utils import timezone
from django.utils.translation import gettext_lazy as _
from django.utils.translation import pgettext_lazy

from jobexec import clock
from jobexec.conf.resources import rate
from jobexec.json_values import MAX_DEPTH, MAX_LENGTH, TooMuchJSON, read_json
from jobexec.models import Resource
from jobexec.operations.history.incidents import ANNOTATION_LENGTH
from jobexec.operations.manage.failure_groups import MOST_FAILURES
from jobexec.operations.manage.resources import MAX_LIMIT
from jobexec.operations.values.ranking import MAX_PRIORITY

MAX_RETRIES = 1_000
RATE_LENGTH = Resource._meta.get_field("rate").max_length


def entered_json(text: str) -> Any:
    """The value of JSON. Raises ValidationError beyond its limits, and ValueError if it is none."""
    try:
        return read_json(text)
    except TooMuchJSON:
        message = _("Enter JSON of at most %(length)d characters, nested at most %(depth)d deep.")
        raise forms.ValidationError(message, params={"length": MAX_LENGTH, "depth": MAX_DEPTH}) from None


class JSONField(forms.JSONField):
    """JSON that :func:`~jobexec.json_values.read_json` reads; Django's own field has no limits."""

    def __init__(self, *, rows: int = 6, **options: Any) -> None:
        area = forms.Textarea(attrs={"rows": rows, "cols": 60, "class": "jobexec-json", "spellcheck": "false"})
        super().__init__(**{"required": False, "widget": area, **options})

    def to_python(self, value: Any) -> Any:
        if isinstance(value, str) and value not in self.empty_values and not self.disabled:
            try:
                entered_json(value)
            except ValueError:
                raise forms.ValidationError(self.error_messages["invalid"], code="invalid") from None
        return super().to_python(value)

    def bound_data(self, data: Any, initial: Any) -> Any:
        try:
            self.to_python(data)
        except forms.ValidationError:
            return forms.fields.InvalidJSONInput(data)
        return super().bound_data(data, initial)


class ConfirmForm(forms.Form):
    """A confirmation without fields."""


class RetriesForm(forms.Form):
    """The number of attempts."""

    retries = forms.IntegerField(
        label=_("Retries"),
        min_value=1,
        max_value=MAX_RETRIES,
        initial=3,
        help_text=_("How many attempts each job gets."),
    )


class PriorityForm(forms.Form):
    """The priority."""

    priority = forms.IntegerField(
        label=_("Priority"),
        min_value=-MAX_PRIORITY,
        max_value=MAX_PRIORITY,
        initial=0,
        help_text=_("Higher values run sooner."),
    )


class ReencryptForm(forms.Form):
    """Whether jobs that are not encrypted are meant, too."""

    plain = forms.BooleanField(
        label=_("Include jobs that are not encrypted"),
        required=False,
        help_text=_("Encrypts the arguments of jobs that were enqueued before their handler required encryption."),
    )


def _picker() -> forms.DateTimeInput:
    """The browser's own date picker, which needs no script."""
    return forms.DateTimeInput(attrs={"type": "datetime-local", "step": "1"}, format="%Y-%m-%dT%H:%M:%S")


class DueDateForm(forms.Form):
    """The due date."""

    due_date = forms.DateTimeField(label=_("Due date"), widget=_picker())

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        field = self.fields["due_date"]
        field.initial = (timezone.localtime() + timedelta(hours=1)).replace(minute=0, second=0, microsecond=0)
        field.help_text = _("In the time zone %(zone)s. With a past date, the jobs run immediately.") % {
            "zone": timezone.get_current_timezone_name()
        }


class RotateForm(forms.Form):
    """Whether, and until when, the old secret stays valid."""

    keep_old = forms.BooleanField(
        label=_("Keep the old secret"),
        required=False,
        help_text=_("It stays valid alongside the new one, until the time below or until it is retired."),
    )
    old_until = forms.DateTimeField(label=_("Old secret until"), required=False, widget=_picker())

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        zone = {"zone": timezone.get_current_timezone_name()}
        self.fields["old_until"].help_text = _("In the time zone %(zone)s. If empty: until it is retired.") % zone

    def clean(self) -> dict[str, Any]:
        data = super().clean() or {}
        if data.get("old_until") and not data.get("keep_old"):
            self.add_error("old_until", _("Set this only if the old secret is kept."))
        elif data.get("old_until") and data["old_until"] <= clock.now():
            self.add_error("old_until", _("This must be in the future."))
        return data


class LimitsForm(forms.Form):
    """The limit and the rate of a resource; without them, those of the settings."""

    limit = forms.IntegerField(
        label=pgettext_lazy("of a resource", "Limit"),
        required=False,
        min_value=0,
        max_value=MAX_LIMIT,
        help_text=_("How many of its jobs run at once. 0: no limit. If empty: as in the settings."),
    )
    rate = forms.CharField(
        label=_("Rate"),
        required=False,
        max_length=RATE_LENGTH,
        help_text=_("A number of jobs and an ISO 8601 duration, such as 100/PT1M. If empty: as in the settings."),
    )

    def clean_rate(self) -> str:
        value: str = self.cleaned_data["rate"]
        try:
            return value and str(rate(value))
        except ValueError:
            raise forms.ValidationError(_("Enter a number of jobs and a duration, such as 100/PT1M.")) from None


class HoldForm(forms.Form):
    """Until when a resource is held; without it, until an operator releases it."""

    until = forms.DateTimeField(label=_("Until"), required=False, widget=_picker())

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["until"].help_text = _("In the time zone %(zone)s. If empty: until an operator releases it.") % {
            "zone": timezone.get_current_timezone_name()
        }

    def clean_until(self) -> datetime | None:
        until: datetime | None = self.cleaned_data["until"]
        if until is not None and until <= clock.now():
            raise forms.ValidationError(_("This must be in the future."))
        return until


class SuspendForm(forms.Form):
    """The beginning and the end of a suspension; without them, now and without an end."""

    at = forms.DateTimeField(label=_("From"), required=False, widget=_picker())
    until = forms.DateTimeField(label=_("Until"), required=False, widget=_picker())

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        zone = {"zone": timezone.get_current_timezone_name()}
        self.fields["at"].help_text = _("In the time zone %(zone)s. If empty: now.") % zone
        self.fields["until"].help_text = (
            _("In the time zone %(zone)s. If empty: until an operator ends the suspension.") % zone
        )

    def clean(self) -> dict[str, Any]:
        data = super().clean() or self.cleaned_data
        at, until, now = data.get("at"), data.get("until"), timezone.now()
        if until is not None and until <= max(at or now, now):
            self.add_error("until", _("This must be in the future and after the start."))
        return data


class SuspendScopeForm(SuspendForm):
    """The same for all jobs of a scope."""

    include_jobs = forms.BooleanField(
        label=_("Include existing jobs"),
        required=False,
        initial=True,
        help_text=_("Otherwise only jobs that are created afterwards are suspended."),
    )


class OverrideForm(PriorityForm):
    """The priority, and whether existing jobs get it too."""

    cascade = forms.BooleanField(
        label=_("Include existing jobs"),
        required=False,
        help_text=_("Running jobs get it at their next attempt."),
    )


class RecalculateForm(forms.Form):
    """The moment from which the retry plan counts."""

    from_creation = forms.BooleanField(
        label=_("From the creation of the job"), required=False, help_text=_("Otherwise from now.")
    )


class ReasonForm(forms.Form):
    """The reason."""

    reason = forms.CharField(
        label=_("Reason"),
        required=False,
        max_length=1000,
        widget=forms.TextInput(attrs={"size": "80"}),
        help_text=_("It replaces the last exception. If empty, the last exception stays."),
    )


class LiftForm(forms.Form):
    """The moment; without it, now."""

    at = forms.DateTimeField(label=_("When"), required=False, widget=_picker())

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["at"].help_text = _("In the time zone %(zone)s. If empty: now.") % {
            "zone": timezone.get_current_timezone_name()
        }


class AnnotationForm(forms.Form):
    """A note for other operators."""

    annotation = forms.CharField(
        label=_("Annotation"),
        required=False,
        max_length=ANNOTATION_LENGTH,
        widget=forms.Textarea(attrs={"rows": 4, "cols": 80}),
        help_text=_("It replaces the existing annotation. If empty, the annotation is removed."),
    )


class AssignForm(forms.Form):
    """The name of a user; empty for none."""

    assigned_to = forms.CharField(
        label=_("User"),
        required=False,
        max_length=150,
        widget=forms.TextInput(attrs={"list": "jobexec-choices", "autocomplete": "off", "size": "40"}),
        help_text=_("The user who deals with it. If empty, the assignment is removed."),
    )


class SnoozeForm(forms.Form):
    """Until when, or until how many further failures, groups of failures are quiet."""

    until = forms.DateTimeField(label=_("Until"), required=False, widget=_picker())
    failures = forms.IntegerField(
        label=_("Or until more failures than"),
        required=False,
        min_value=0,
        max_value=MOST_FAILURES,
        help_text=_(
            "Further failures of each group, from now on. If you set both, whichever comes first ends the snooze."
        ),
    )

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        field = self.fields["until"]
        field.initial = (timezone.localtime() + timedelta(days=1)).replace(minute=0, second=0, microsecond=0)
        field.help_text = _("In the time zone %(zone)s.") % {"zone": timezone.get_current_timezone_name()}

    def clean(self) -> dict[str, Any]:
        data = super().clean() or self.cleaned_data
        until = data.get("until")
        if until is not None and until <= clock.now():
            self.add_error("until", _("This must be in the future."))
        if not self.errors and until is None and data.get("failures") is None:
            raise forms.ValidationError(_("Enter a date or a number of failures."))
        return data


class NodeNameForm(forms.Form):
    """The name of a node. Known names are suggested; a node with another name may start later."""

    node_name = forms.CharField(
        label=_("Node name"),
        max_length=255,
        widget=forms.TextInput(attrs={"list": "jobexec-choices", "autocomplete": "off", "size": "40"}),
        help_text=_("Registrations belong to the name of a node; the node need not be running."),
    )
