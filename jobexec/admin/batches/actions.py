"""Actions on batches."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from uuid import UUID

from django.db.models import QuerySet
from django.utils.translation import gettext_lazy, ngettext

from jobexec import operations
from jobexec.exceptions import JobExecError
from jobexec.operations import batches

from ..common.actions import Action, DeletingAction, Outcome
from ..common.forms import ConfirmForm


class BatchAction(Action):
    """An operation on batches, one at a time."""

    permission = "manage"
    name_column = "type"

    def perform(self, queryset: QuerySet[Any], using: str, data: Mapping[str, Any]) -> Outcome:
        outcome = Outcome()
        for id in list(queryset.values_list("pk", flat=True)):
            try:
                self.operate(id, using)
                outcome.changed.append(id)
            except JobExecError as error:
                outcome.skipped[id] = str(error).rstrip(".")
        return outcome

    def operate(self, id: UUID, using: str) -> None:
        """Call the operation."""
        raise NotImplementedError


class SuspendBatch(BatchAction):
    """Start no more jobs of a batch."""

    name = "suspend"
    description = gettext_lazy("Suspend selected %(verbose_name_plural)s")
    label = gettext_lazy("Suspend")

    def operate(self, id: UUID, using: str) -> None:
        batches.suspend_batch(id, using=using)

    def done(self, count: int, data: Mapping[str, Any]) -> str:
        text = ngettext(
            "%(count)d batch suspended. Its running jobs finish.",
            "%(count)d batches suspended. Their running jobs finish.",
            count,
        )
        return text % {"count": count}


class ActivateBatch(BatchAction):
    """Continue a batch."""

    name = "activate"
    description = gettext_lazy("Activate selected %(verbose_name_plural)s")
    label = gettext_lazy("Activate")

    def operate(self, id: UUID, using: str) -> None:
        batches.activate_batch(id, using=using)

    def done(self, count: int, data: Mapping[str, Any]) -> str:
        return ngettext("%(count)d batch continues.", "%(count)d batches continue.", count) % {"count": count}


class SealBatch(BatchAction):
    """Let a batch of jobs end."""

    name = "seal"
    description = gettext_lazy("Seal selected %(verbose_name_plural)s")
    label = gettext_lazy("Seal")

    def operate(self, id: UUID, using: str) -> None:
        operations.seal_batch(id, using=using)

    def done(self, count: int, data: Mapping[str, Any]) -> str:
        return ngettext("%(count)d batch sealed.", "%(count)d batches sealed.", count) % {"count": count}


class RetryBatch(BatchAction):
    """Try the dead letters of a batch of jobs again."""

    name = "retry"
    description = gettext_lazy("Retry failed jobs of selected %(verbose_name_plural)s")
    label = gettext_lazy("Retry failed jobs")

    def operate(self, id: UUID, using: str) -> None:
        operations.retry_batch(id, using=using)

    def done(self, count: int, data: Mapping[str, Any]) -> str:
        text = ngettext(
            "The failed jobs of %(count)d batch are retried.",
            "The failed jobs of %(count)d batches are retried.",
            count,
        )
        return text % {"count": count}


class CancelBatch(BatchAction):
    """End a batch where it is."""

    name = "cancel"
    description = gettext_lazy("Cancel selected %(verbose_name_plural)s…")
    label = gettext_lazy("Cancel…")
    form_class = ConfirmForm
    warning = gettext_lazy("Nothing more is changed. Completed changes remain.")
    dangerous = True

    def operate(self, id: UUID, using: str) -> None:
        batches.cancel_batch(id, using=using)

    def done(self, count: int, data: Mapping[str, Any]) -> str:
        return ngettext("%(count)d batch cancelled.", "%(count)d batches cancelled.", count) % {"count": count}


class DeleteBatch(DeletingAction, BatchAction):
    """Delete a batch with the record of what it left alone."""

    warning = gettext_lazy(
        "An unfinished batch is cancelled first. Completed changes remain; the record of what it skipped, and why, is "
        "deleted."
    )

    def operate(self, id: UUID, using: str) -> None:
        batches.delete_batch(id, using=using)

    def done(self, count: int, data: Mapping[str, Any]) -> str:
        return ngettext("%(count)d batch deleted.", "%(count)d batches deleted.", count) % {"count": count}
