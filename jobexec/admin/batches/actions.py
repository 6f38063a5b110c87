"""Actions on batches."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from uuid import UUID

from django.utils.translation import gettext_lazy, ngettext_lazy

from jobexec import operations
from jobexec.operations import batches
from jobexec.operations.batches.of_jobs import NO_FAILED_JOBS

from ..common.actions import DeletingAction, RowAction
from ..common.forms import ConfirmForm


class BatchAction(RowAction):
    """An operation on batches, one at a time."""

    permission = "manage"
    name_column = "type"


class SuspendBatch(BatchAction):
    """Start no more jobs of a batch."""

    name = "suspend"
    description = gettext_lazy("Suspend selected %(verbose_name_plural)s")
    label = gettext_lazy("Suspend")
    report = ngettext_lazy(
        "%(count)d batch suspended. Its running jobs finish.",
        "%(count)d batches suspended. Their running jobs finish.",
        "count",
    )

    def operate(self, key: UUID, using: str, data: Mapping[str, Any]) -> None:
        batches.suspend_batch(key, using=using)


class ActivateBatch(BatchAction):
    """Continue a batch."""

    name = "activate"
    description = gettext_lazy("Activate selected %(verbose_name_plural)s")
    label = gettext_lazy("Activate")
    report = ngettext_lazy("%(count)d batch continues.", "%(count)d batches continue.", "count")

    def operate(self, key: UUID, using: str, data: Mapping[str, Any]) -> None:
        batches.activate_batch(key, using=using)


class SealBatch(BatchAction):
    """Let a batch of jobs end."""

    name = "seal"
    description = gettext_lazy("Seal selected %(verbose_name_plural)s")
    label = gettext_lazy("Seal")
    report = ngettext_lazy("%(count)d batch sealed.", "%(count)d batches sealed.", "count")

    def operate(self, key: UUID, using: str, data: Mapping[str, Any]) -> None:
        operations.seal_batch(key, using=using)


class RetryBatch(BatchAction):
    """Try the dead letters of a batch of jobs again."""

    name = "retry"
    description = gettext_lazy("Retry failed jobs of selected %(verbose_name_plural)s")
    label = gettext_lazy("Retry failed jobs")
    report = ngettext_lazy(
        "The failed jobs of %(count)d batch are retried.",
        "The failed jobs of %(count)d batches are retried.",
        "count",
    )

    def operate(self, key: UUID, using: str, data: Mapping[str, Any]) -> str | None:
        return None if operations.retry_batch(key, using=using) else NO_FAILED_JOBS


class CancelBatch(BatchAction):
    """End a batch where it is."""

    name = "cancel"
    description = gettext_lazy("Cancel selected %(verbose_name_plural)s…")
    label = gettext_lazy("Cancel…")
    form_class = ConfirmForm
    warning = gettext_lazy("Nothing more is changed. Completed changes remain.")
    dangerous = True
    report = ngettext_lazy("%(count)d batch cancelled.", "%(count)d batches cancelled.", "count")

    def operate(self, key: UUID, using: str, data: Mapping[str, Any]) -> None:
        batches.cancel_batch(key, using=using)


class DeleteBatch(DeletingAction, BatchAction):
    """Delete a batch with the record of what it left alone."""

    warning = gettext_lazy(
        "An unfinished batch is cancelled first. Completed changes remain; the record of what it skipped, and why, is "
        "deleted."
    )
    report = ngettext_lazy("%(count)d batch deleted.", "%(count)d batches deleted.", "count")

    def operate(self, key: UUID, using: str, data: Mapping[str, Any]) -> None:
        batches.delete_batch(key, using=using)
