"""The form for gateway clients."""

from __future__ import annotations

from typing import Any, ClassVar

from django import forms
from django.utils import timezone
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from jobexec import clock
from jobexec.exceptions import InvalidClient
from jobexec.models import GatewayClient
from jobexec.operations.manage.gateway_clients import PERMISSIONS, checked_client, checked_name

#: The name for jobs without a tenant, as in the gateways' protocols.
NO_TENANT = "<default>"

_LABELS = {
    "work": gettext_lazy("work: fetch and finish jobs, and change their deadlines"),
    "search": gettext_lazy("search: search for jobs and incidents"),
    "update": gettext_lazy("update: change retries and priority"),
    "resolve": gettext_lazy("resolve: resolve incidents"),
    "publish": gettext_lazy("publish: publish messages for jobs that wait"),
    "deploy": gettext_lazy("deploy: deploy processes"),
    "start": gettext_lazy("start: start processes"),
    "tasks": gettext_lazy("tasks: claim and complete user tasks"),
}
_ERRORS = {
    "name": gettext_lazy(
        "Enter 1 to 150 printable characters, without a colon and without leading or trailing spaces."
    ),
    "types": gettext_lazy("Enter types of at most 255 characters, or prefixes followed by one *."),
    "tenants": gettext_lazy("Enter tenant ids of at most 64 printable characters."),
}


class LinesField(forms.CharField):
    """A list of texts, entered one per line or separated by commas."""

    widget = forms.Textarea

    def __init__(self, *, empty_as: str = "", **kwargs: Any) -> None:
        area = forms.Textarea(attrs={"rows": 4, "cols": 40, "spellcheck": "false"})
        super().__init__(required=False, widget=area, strip=True, **kwargs)
        self.empty_as = empty_as

    def prepare_value(self, value: Any) -> Any:
        if not isinstance(value, list):
            return value
        # Values that are not texts get no line: jobexec never writes them, and saving drops them.
        return "\n".join(text or self.empty_as for text in value if isinstance(text, str))

    def to_python(self, value: Any) -> Any:
        if isinstance(value, list):
            return value
        texts = (text.strip() for text in (super().to_python(value) or "").replace(",", "\n").splitlines())
        return ["" if text == self.empty_as else text for text in texts if text]

    def has_changed(self, initial: Any, data: Any) -> bool:
        return sorted(initial or []) != sorted(self.to_python(data))


class GatewayClientForm(forms.ModelForm):  # type: ignore[type-arg]
    """A client, saved by :mod:`jobexec.operations.manage.gateway_clients`, which makes the same checks."""

    #: Set by the admin for each request: the database to save in, and the tenants that its user is limited to.
    using: ClassVar[str] = "default"
    user_tenants: ClassVar[frozenset[str] | None] = None

    types = LinesField(
        label=gettext_lazy("Types"),
        help_text=gettext_lazy(
            "The types of jobs that the client may work on, one per line: payment, or mail.* for all types with this "
            "prefix. If empty: all types."
        ),
    )
    tenants = LinesField(
        label=gettext_lazy("Tenants"),
        empty_as=NO_TENANT,
        # The admin shows help texts as HTML.
        help_text=gettext_lazy(
            "The tenants whose jobs the client may see, one per line; &lt;default&gt; for jobs without a tenant. If "
            "empty: all tenants."
        ),
    )
    permissions = forms.MultipleChoiceField(
        label=gettext_lazy("Permissions"),
        choices=[(name, _LABELS[name]) for name in PERMISSIONS],
        widget=forms.CheckboxSelectMultiple,
        initial=["work"],
    )
    expiration_time = forms.DateTimeField(
        label=gettext_lazy("Expiration time"),
        required=False,
        widget=forms.DateTimeInput(attrs={"type": "datetime-local", "step": "1"}, format="%Y-%m-%dT%H:%M:%S"),
    )

    class Meta:
        model = GatewayClient
        fields = ("name", "types", "tenants", "permissions", "max_requests_per_second", "expiration_time")

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if "expiration_time" in self.fields:
            zone = {"zone": timezone.get_current_timezone_name()}
            self.fields["expiration_time"].help_text = _("In the time zone %(zone)s. If empty: never.") % zone

    def validate_unique(self) -> None:
        """Disabled: Django would check uniqueness in the database of the models."""

    def clean_name(self) -> str:
        name: str = self.cleaned_data["name"]
        _check("name", lambda: checked_name(name))
        if GatewayClient.objects.using(self.using).filter(name=name).exists():
            raise forms.ValidationError(_("A client with this name already exists."))
        return name

    def clean_types(self) -> list[str]:
        return self._checked("types")

    def clean_tenants(self) -> list[str]:
        tenants = self._checked("tenants")
        if self.user_tenants is not None and not (tenants and set(tenants) <= self.user_tenants):
            raise forms.ValidationError(_("Enter at least one tenant, and only your own."))
        return tenants

    def clean_expiration_time(self) -> Any:
        moment = self.cleaned_data["expiration_time"]
        if moment is not None and "expiration_time" in self.changed_data and moment <= clock.now(self.using):
            raise forms.ValidationError(_("This must be in the future."))
        return moment

    def _checked(self, field: str) -> list[str]:
        found: list[str] = _check(field, lambda: checked_client(**{field: self.cleaned_data[field]})[field])
        return found

    def values(self) -> dict[str, Any]:
        """The arguments of change_client and create_client, without the name."""
        return {name: value for name, value in self.cleaned_data.items() if name != "name"}


def _check(field: str, check: Any) -> Any:
    try:
        return check()
    except InvalidClient:
        raise forms.ValidationError(_ERRORS[field]) from None
