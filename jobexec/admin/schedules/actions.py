"""Actions on schedules."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.db import transaction
from django.utils.translation import gettext_lazy, ngettext_lazy

from jobexec.operations import schedules

from ..common.actions import DeletingAction, RowAction


class ScheduleAction(RowAction):
    """An operation on schedules, one at a time."""

    permission = "fire"
    name_column = "name"
    named_by = "name"


class FireNow(ScheduleAction):
    """Create an additional job now."""

    name = "fire_now"
    description = gettext_lazy("Fire selected %(verbose_name_plural)s now")
    label = gettext_lazy("Fire now")
    report = ngettext_lazy(
        "%(count)d schedule fired: its job is due now; its times do not change.",
        "%(count)d schedules fired: their jobs are due now; their times do not change.",
        "count",
    )

    def operate(self, key: str, using: str, data: Mapping[str, Any]) -> None:
        with transaction.atomic(using=using):  # a savepoint: a job that its handler refuses must not spoil the request
            schedules.fire_now(using, key)


class Enable(ScheduleAction):
    """Enable a schedule."""

    name = "enable"
    description = gettext_lazy("Enable selected %(verbose_name_plural)s")
    label = gettext_lazy("Enable")
    report = ngettext_lazy("%(count)d schedule enabled.", "%(count)d schedules enabled.", "count")

    def operate(self, key: str, using: str, data: Mapping[str, Any]) -> None:
        schedules.set_enabled(using, key, True)


class Disable(ScheduleAction):
    """Disable a schedule until an operator enables it."""

    name = "disable"
    description = gettext_lazy("Disable selected %(verbose_name_plural)s")
    label = gettext_lazy("Disable")
    report = ngettext_lazy(
        "%(count)d schedule disabled. Times that pass until it is enabled are skipped.",
        "%(count)d schedules disabled. Times that pass until they are enabled are skipped.",
        "count",
    )

    def operate(self, key: str, using: str, data: Mapping[str, Any]) -> None:
        schedules.set_enabled(using, key, False)


class DeleteSchedules(DeletingAction, ScheduleAction):
    """Delete schedules for good."""

    warning = gettext_lazy(
        "Existing jobs are not affected. A schedule that the code declares is created again when the next executor "
        "starts; disable it instead."
    )
    report = ngettext_lazy("%(count)d schedule deleted.", "%(count)d schedules deleted.", "count")

    def operate(self, key: str, using: str, data: Mapping[str, Any]) -> None:
        schedules.delete_schedule(using, key)
