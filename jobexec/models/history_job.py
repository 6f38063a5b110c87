"""Recorded history, written by a separate loop."""

from __future__ import annotations

from typing import ClassVar

from django.utils.translation import gettext_lazy as _

from .base import AbstractJob, ordered_index


class HistoryJob(AbstractJob):
    """History that is not written yet (Flowable: ACT_RU_HISTORY_JOB, its asynchronous history).

    Never locked by an owner: a node's history loop locks the rows by the transaction in which it writes the history and
    deletes them, so each is written exactly once.
    """

    state: ClassVar[str] = "history"
    runnable: ClassVar[bool] = True
    dead: ClassVar[bool] = False

    class Meta(AbstractJob.Meta):
        verbose_name = _("history job")
        verbose_name_plural = _("history jobs")
        indexes: ClassVar = [ordered_index("jobexec_historyjob_due", "due_date")]
