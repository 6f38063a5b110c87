"""Actions on clients of the gateways."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext, ngettext_lazy

from jobexec.exceptions import ClientNotFound
from jobexec.operations.manage import gateway_clients

from ..common.actions import Action, DeletingAction, Outcome
from ..common.base import TableAdmin
from ..common.forms import ConfirmForm, RotateForm

_SECRETS = "_jobexec_secrets"


class ClientAction(Action):
    """An operation on clients, one at a time."""

    permission = "enable"
    name_column = "name"

    def perform_for(
        self, request: HttpRequest, queryset: QuerySet[Any], using: str, data: Mapping[str, Any]
    ) -> Outcome:
        outcome = Outcome()
        for id, name in list(queryset.values_list("pk", "name")):
            try:
                self.operate(request, name, using, data)
                outcome.changed.append(id)
            except ClientNotFound:
                outcome.skipped[id] = _("it is no longer in the list")
        return outcome

    def operate(self, request: HttpRequest, name: str, using: str, data: Mapping[str, Any]) -> None:
        """Call the operation."""
        raise NotImplementedError


class RotateSecret(ClientAction):
    """Give a client a new secret, which is shown once."""

    name = "rotate_secret"
    permission = "rotate"
    description = gettext_lazy("Give selected %(verbose_name_plural)s a new secret…")
    label = gettext_lazy("New secret…")
    form_class = RotateForm
    warning = gettext_lazy(
        "Unless you keep the old secret, it becomes invalid immediately: workers that use it are locked out until they "
        "have the new one."
    )
    dangerous = True
    report = ngettext_lazy("%(count)d client has a new secret.", "%(count)d clients have a new secret.", "count")

    def operate(self, request: HttpRequest, name: str, using: str, data: Mapping[str, Any]) -> None:
        remember_secret(request, name, gateway_clients.rotate_secret(using, name, **data))

    def respond(self, modeladmin: TableAdmin, request: HttpRequest) -> HttpResponse | None:
        return secrets_page(modeladmin, request)


class RetireSecret(ClientAction):
    """End the validity of the old secret."""

    name = "retire_secret"
    permission = "rotate"
    description = gettext_lazy("Retire the old secret of selected %(verbose_name_plural)s…")
    label = gettext_lazy("Retire the old secret…")
    form_class = ConfirmForm
    warning = gettext_lazy("Workers that still use the old secret are locked out until they have the new one.")
    dangerous = True
    report = ngettext_lazy(
        "The old secret of %(count)d client is retired.",
        "The old secrets of %(count)d clients are retired.",
        "count",
    )

    def operate(self, request: HttpRequest, name: str, using: str, data: Mapping[str, Any]) -> None:
        gateway_clients.retire_secret(using, name)


class EnableClient(ClientAction):
    """Enable a client."""

    name = "enable"
    description = gettext_lazy("Enable selected %(verbose_name_plural)s")
    label = gettext_lazy("Enable")
    report = ngettext_lazy("%(count)d client enabled.", "%(count)d clients enabled.", "count")

    def operate(self, request: HttpRequest, name: str, using: str, data: Mapping[str, Any]) -> None:
        gateway_clients.set_client_enabled(using, name, True)


class DisableClient(ClientAction):
    """Disable a client."""

    name = "disable"
    description = gettext_lazy("Disable selected %(verbose_name_plural)s")
    label = gettext_lazy("Disable")
    report = ngettext_lazy(
        "%(count)d client disabled. Gateways may still accept it for a few seconds.",
        "%(count)d clients disabled. Gateways may still accept them for a few seconds.",
        "count",
    )

    def operate(self, request: HttpRequest, name: str, using: str, data: Mapping[str, Any]) -> None:
        gateway_clients.set_client_enabled(using, name, False)


class DeleteClients(DeletingAction, ClientAction):
    """Delete clients for good."""

    warning = gettext_lazy("Other workers can fetch the jobs that these clients hold when the timeouts have expired.")
    report = ngettext_lazy("%(count)d client deleted.", "%(count)d clients deleted.", "count")

    def operate(self, request: HttpRequest, name: str, using: str, data: Mapping[str, Any]) -> None:
        gateway_clients.delete_client(using, name)


def remember_secret(request: HttpRequest, name: str, secret: str) -> None:
    """Keep the secret on the request, for the page that answers it. It must not be stored in a session or a cookie."""
    setattr(request, _SECRETS, [*getattr(request, _SECRETS, ()), (name, secret)])


def secrets_page(modeladmin: TableAdmin, request: HttpRequest) -> HttpResponse | None:
    """The page with the secrets that this request has created; None if there are none."""
    secrets = getattr(request, _SECRETS, ())
    if not secrets:
        return None
    context = {
        **modeladmin.admin_site.each_context(request),
        "title": ngettext("The secret", "The secrets", len(secrets)),
        "opts": modeladmin.opts,
        "media": modeladmin.media,
        "secrets": secrets,
        "list_url": modeladmin.list_url(),
    }
    request.current_app = modeladmin.admin_site.name
    response = TemplateResponse(request, "admin/jobexec/gateway_secret.html", context)
    response["Cache-Control"] = "no-store, private"
    return response
