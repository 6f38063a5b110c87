"""Actions on resources."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from django.db.models import QuerySet
from django.utils.translation import gettext_lazy, pgettext_lazy

from jobexec import operations
from jobexec.models import BreakerState
from jobexec.operations.manage import resource_words

from ..common.actions import RowAction
from ..common.forms import ConfirmForm, HoldForm, LimitsForm


class ResourceAction(RowAction):
    """An operation on resources, one at a time."""

    permission = "limit"


class SetLimits(ResourceAction):
    """Override the limit and the rate of the settings, or return to them."""

    name = "set_limits"
    description = gettext_lazy("Set the limits of selected %(verbose_name_plural)s…")
    label = gettext_lazy("Set limits…")
    form_class = LimitsForm
    warning = gettext_lazy(
        "This applies to the whole cluster, from now on. Running jobs are not affected: with a lower limit, no other "
        "job starts until enough of them have ended."
    )

    def initial(self, queryset: QuerySet[Any]) -> dict[str, Any]:
        found = list(queryset.order_by().values("limit", "rate")[:2])
        return found[0] if len(found) == 1 else {}

    def operate(self, key: str, using: str, data: Mapping[str, Any]) -> None:
        operations.set_resource_limits(key, using=using, **data)

    def done(self, count: int, data: Mapping[str, Any]) -> str:
        return resource_words.limited(count)


class _Hold(ResourceAction):
    form_class = HoldForm
    state: ClassVar[str]

    def operate(self, key: str, using: str, data: Mapping[str, Any]) -> None:
        operations.hold_resource(key, state=self.state, using=using, **data)

    def done(self, count: int, data: Mapping[str, Any]) -> str:
        return resource_words.held(count, self.state, data["until"])


class HoldOpen(_Hold):
    """Let no job of the resource start."""

    name, state = "hold_open", BreakerState.OPEN.value
    description = gettext_lazy("Hold selected %(verbose_name_plural)s open…")
    label = gettext_lazy("Hold open…")
    warning = gettext_lazy("None of its jobs starts. Running jobs finish; the others wait.")


class HoldClosed(_Hold):
    """Let jobs start whatever the breaker says."""

    name, state = "hold_closed", BreakerState.CLOSED.value
    description = gettext_lazy("Hold selected %(verbose_name_plural)s closed…")
    label = gettext_lazy("Hold closed…")
    warning = gettext_lazy("Its jobs start regardless of its breaker, even if every call fails.")


class Release(ResourceAction):
    """Leave the breaker to itself again."""

    name = "release"
    description = gettext_lazy("Release selected %(verbose_name_plural)s…")
    label = pgettext_lazy("a resource that is held", "Release…")
    form_class = ConfirmForm
    warning = gettext_lazy("The hold ends and its breaker closes: its jobs start again.")

    def operate(self, key: str, using: str, data: Mapping[str, Any]) -> None:
        operations.release_resource(key, using=using)

    def done(self, count: int, data: Mapping[str, Any]) -> str:
        return resource_words.released(count)
