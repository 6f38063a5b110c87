"""Actions on schedules."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.db import transaction
from django.db.models import QuerySet
from django.utils.translation import gettext_lazy, ngettext

from jobexec.exceptions import JobExecError
from jobexec.operations import schedules

from ..common.actions import Action, DeletingAction, Outcome


class ScheduleAction(Action):
    """An operation on schedules, one at a time."""

    permission = "fire"
    name_column = "name"

    def perform(self, queryset: QuerySet[Any], using: str, data: Mapping[str, Any]) -> Outcome:
        outcome = Outcome()
        for id, name in list(queryset.values_list("pk", "name")):
            try:
                self.operate(name, using)
                outcome.changed.append(id)
            except JobExecError as error:
                outcome.skipped[id] = str(error).rstrip(".")
        return outcome

    def operate(self, name: str, using: str) -> None:
        """Call the operation."""
        raise NotImplementedError


class FireNow(ScheduleAction):
    """Create an additional job now."""

    name = "fire_now"
    description = gettext_lazy("Fire selected %(verbose_name_plural)s now")
    label = gettext_lazy("Fire now")

    def operate(self, name: str, using: str) -> None:
        with transaction.atomic(using=using):  # a savepoint: a job that its handler refuses must not spoil the request
            schedules.fire_now(using, name)

    def done(self, count: int, data: Mapping[str, Any]) -> str:
        text = ngettext(
            "%(count)d schedule fired: its job is due now; its times do not change.",
            "%(count)d schedules fired: their jobs are due now; their times do not change.",
            count,
        )
        return text % {"count": count}


class Enable(ScheduleAction):
    """Enable a schedule."""

    name = "enable"
    description = gettext_lazy("Enable selected %(verbose_name_plural)s")
    label = gettext_lazy("Enable")

    def operate(self, name: str, using: str) -> None:
        schedules.set_enabled(using, name, True)

    def done(self, count: int, data: Mapping[str, Any]) -> str:
        text = ngettext("%(count)d schedule enabled.", "%(count)d schedules enabled.", count)
        return text % {"count": count}


class Disable(ScheduleAction):
    """Disable a schedule until an operator enables it."""

    name = "disable"
    description = gettext_lazy("Disable selected %(verbose_name_plural)s")
    label = gettext_lazy("Disable")

    def operate(self, name: str, using: str) -> None:
        schedules.set_enabled(using, name, False)

    def done(self, count: int, data: Mapping[str, Any]) -> str:
        text = ngettext(
            "%(count)d schedule disabled. Times that pass until it is enabled are skipped.",
            "%(count)d schedules disabled. Times that pass until they are enabled are skipped.",
            count,
        )
        return text % {"count": count}


class DeleteSchedules(DeletingAction, ScheduleAction):
    """Delete schedules for good."""

    warning = gettext_lazy(
        "Existing jobs are not affected. A schedule that the code declares is created again when the next executor "
        "starts; disable it instead."
    )

    def operate(self, name: str, using: str) -> None:
        schedules.delete_schedule(using, name)

    def done(self, count: int, data: Mapping[str, Any]) -> str:
        text = ngettext("%(count)d schedule deleted.", "%(count)d schedules deleted.", count)
        return text % {"count": count}
