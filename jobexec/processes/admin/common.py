"""What the pages of processes have in common."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar
from uuid import UUID

from django.db.models import QuerySet
from django.utils.safestring import SafeString

from jobexec.admin.common import display
from jobexec.admin.common.actions import Action, Outcome
from jobexec.admin.common.base import TableAdmin
from jobexec.exceptions import JobExecError
from jobexec.processes.engine.exceptions import StepError

KINDS = {"active": "ok", "compensating": "warn", "completed": "quiet", "terminated": "quiet", "cancelled": "warn"}


class ProcessTableAdmin(TableAdmin):
    """A read-only table of processes."""

    tenant_column = "tenant_id"

    class Media:
        css: ClassVar = {"all": ["jobexec/admin.css", "jobexec_processes/picture.css"]}

    def has_view_permission(self, request: Any, obj: Any = None) -> bool:
        name = f"{self.opts.app_label}.view_{self.opts.model_name}"
        return super().has_view_permission(request, obj) and request.user.has_perm(name)


class RowAction(Action):
    """An operation on rows, one at a time; what refuses one leaves the others alone."""

    def perform(self, queryset: QuerySet[Any], using: str, data: Mapping[str, Any]) -> Outcome:
        outcome = Outcome()
        for key in list(queryset.values_list("pk", flat=True)):
            try:
                self.operate(key, using, data)
                outcome.changed.append(key)
            except (JobExecError, StepError) as error:
                outcome.skipped[key] = str(error).rstrip(".")
        return outcome

    def operate(self, key: UUID, using: str, data: Mapping[str, Any]) -> None:
        """Call the operation."""
        raise NotImplementedError


def state_badge(state: str, label: Any) -> SafeString:
    return display.badge(KINDS.get(state, "quiet"), label)
