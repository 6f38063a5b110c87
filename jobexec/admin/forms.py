"""What actions ask before they run."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from django import forms
from django.utils import timezone
from django.utils.translation import gettext_lazy as _

from jobexec.operations.ranking import MAX_PRIORITY

MAX_RETRIES = 1_000


class ConfirmForm(forms.Form):
    """Only "are you sure"."""


class RetriesForm(forms.Form):
    """How many attempts."""

    retries = forms.IntegerField(
        label=_("Retries"),
        min_value=1,
        max_value=MAX_RETRIES,
        initial=3,
        help_text=_("How many attempts each job gets."),
    )


class PriorityForm(forms.Form):
    """Which priority."""

    priority = forms.IntegerField(
        label=_("Priority"),
        min_value=-MAX_PRIORITY,
        max_value=MAX_PRIORITY,
        initial=0,
        help_text=_("Higher runs sooner."),
    )


class DueDateForm(forms.Form):
    """When. The browser's own date picker: it needs no script."""

    due_date = forms.DateTimeField(
        label=_("Due date"),
        widget=forms.DateTimeInput(attrs={"type": "datetime-local", "step": "1"}, format="%Y-%m-%dT%H:%M:%S"),
    )

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        field = self.fields["due_date"]
        field.initial = (timezone.localtime() + timedelta(hours=1)).replace(minute=0, second=0, microsecond=0)
        field.help_text = _("In the time zone %(zone)s. What lies in the past runs at once.") % {
            "zone": timezone.get_current_timezone_name()
        }


class NodeNameForm(forms.Form):
    """Which node, by name. Names that are known are offered; others may start later."""

    node_name = forms.CharField(
        label=_("Node name"),
        max_length=255,
        widget=forms.TextInput(attrs={"list": "jobexec-choices", "autocomplete": "off", "size": "40"}),
        help_text=_("Nodes keep their registrations by name; the node need not run now."),
    )
