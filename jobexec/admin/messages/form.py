"""The forms by which operators publish messages."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar

from django import forms
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from jobexec.conf.messages import check_duration, check_key, check_name
from jobexec.exceptions import InvalidJob
from jobexec.models import Message
from jobexec.operations.values.messages import check_payload

from ..common.forms import JSONField


class PayloadForm(forms.Form):
    """The payload, and how long the message is kept."""

    payload = JSONField(
        label=gettext_lazy("Payload"),
        help_text=gettext_lazy('What the jobs receive: JSON, for example {"approved": true}. Empty is null.'),
    )
    ttl = forms.CharField(
        label=gettext_lazy("Kept for"),
        required=False,
        max_length=32,
        help_text=gettext_lazy(
            "For jobs that wait later: seconds or an ISO 8601 duration, such as PT1H. Empty: only jobs that wait now "
            "receive it."
        ),
    )

    def clean_payload(self) -> Any:
        payload = self.cleaned_data["payload"]
        _checked(lambda: check_payload(payload))
        return payload

    def clean_ttl(self) -> Any:
        text = self.cleaned_data["ttl"].strip()
        if not text:
            return None
        return _checked(lambda: check_duration("ttl", int(text) if text.isdecimal() else text))


class MessageForm(PayloadForm, forms.ModelForm):  # type: ignore[type-arg]
    """A message, published by :func:`jobexec.operations.publish_message`, which makes the same checks."""

    #: The tenants that the user is limited to; set by the admin for each request.
    tenants: ClassVar[frozenset[str] | None] = None

    class Meta:
        model = Message
        fields = ("name", "key", "tenant_id", "message_id", "payload")

    def clean_name(self) -> str:
        return str(_checked(lambda: check_name("name", self.cleaned_data["name"])))

    def clean_key(self) -> str:
        return str(_checked(lambda: check_key("key", self.cleaned_data["key"])))

    def clean_message_id(self) -> str | None:
        return self.cleaned_data["message_id"] or None

    def clean_tenant_id(self) -> str:
        tenant = self.cleaned_data["tenant_id"] or ""
        if self.tenants is not None and tenant not in self.tenants:
            raise forms.ValidationError(_("This must be one of your tenants."))
        return str(tenant)

    def _get_validation_exclusions(self) -> set[str]:
        """A message id that is known is no error: the message counts once. So its constraint is not validated."""
        return {*super()._get_validation_exclusions(), "message_id"}  # type: ignore[misc]

    def values(self) -> Mapping[str, Any]:
        """The arguments of ``publish_message``."""
        names = ("name", "key", "tenant_id", "message_id", "payload", "ttl")
        return {name: self.cleaned_data[name] for name in names}


def _checked(check: Callable[[], Any]) -> Any:
    try:
        return check()
    except InvalidJob as error:
        raise forms.ValidationError(str(error)) from None
