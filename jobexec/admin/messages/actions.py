"""Actions on messages, and the one that publishes those for which jobs wait."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.db.models import QuerySet
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext_lazy

from jobexec import operations
from jobexec.exceptions import JobExecError
from jobexec.operations.manage.purge import delete_messages

from ..common.actions import Action, DeletingAction, Outcome
from ..common.batching import MOST_BY_PAGES
from .form import PayloadForm


class DeleteMessages(DeletingAction):
    """Delete messages, so that no further job receives them."""

    warning = gettext_lazy("No further job receives them. Jobs that have received them keep them.")
    name_column = "key"
    most = MOST_BY_PAGES
    report = ngettext_lazy("%(count)d message deleted.", "%(count)d messages deleted.", "count")

    def perform(self, queryset: QuerySet[Any], using: str, data: Mapping[str, Any]) -> Outcome:
        return Outcome(list(delete_messages(queryset.values_list("pk", flat=True), using=using)))


class PublishMessage(Action):
    """Publish the messages for which the selected jobs wait."""

    name, permission = "publish_message", "publish"
    description = gettext_lazy("Publish the messages for which selected %(verbose_name_plural)s wait…")
    label = gettext_lazy("Publish its message…")
    form_class = PayloadForm
    name_column = "handler_type"
    warning = gettext_lazy("All jobs that wait for the same message receive it, not only the selected ones.")
    report = ngettext_lazy(
        "The message of %(count)d job published.",
        "The messages of %(count)d jobs published.",
        "count",
    )

    def applies(self, row: Any) -> bool:
        return row.waits_for is not None

    def perform(self, queryset: QuerySet[Any], using: str, data: Mapping[str, Any]) -> Outcome:
        outcome, messages = Outcome(), dict[tuple[str, str, str], list[Any]]()
        for pk, *message in queryset.values_list("pk", "tenant_id", "waits_for", "waits_for_key"):
            if message[1] is None:
                outcome.skipped[pk] = _("it does not wait for a message")
            else:
                messages.setdefault((message[0], message[1], message[2]), []).append(pk)
        for (tenant_id, name, key), ids in messages.items():
            try:
                operations.publish_message(name, key=key, tenant_id=tenant_id, using=using, **data)
                outcome.changed += ids
            except JobExecError as error:
                outcome.skipped |= dict.fromkeys(ids, str(error).rstrip("."))
        return outcome
