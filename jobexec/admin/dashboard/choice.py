"""The engine and the period that the dashboard shows: ``?engine=`` and ``?period=``."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any
from urllib.parse import urlencode

from django.db import router
from django.http import HttpRequest
from django.utils.translation import gettext_lazy as _

from jobexec.conf import get_settings
from jobexec.models import Job

SPLITS = {"": _("outcome"), "handler": _("handler"), "category": _("category"), "node": _("node")}
PERIODS = {"hour": (timedelta(hours=1), _("Hour")), "day": (timedelta(days=1), _("Day"))}


@dataclass(frozen=True, slots=True)
class Choice:
    """One engine, one period."""

    engine: str
    period: str
    by: str = ""
    """How the traffic is split: '' for not at all."""

    @classmethod
    def of(cls, request: HttpRequest) -> Choice:
        """Read the URL; missing or invalid values become the engine of the lists and one hour."""
        engine, period, by = (request.GET.get(name, "") for name in ("engine", "period", "by"))
        return cls(
            engine if engine in get_settings().engines else engine_of_lists(),
            period if period in PERIODS else next(iter(PERIODS)),
            by if by in SPLITS else "",
        )

    @property
    def length(self) -> timedelta:
        return PERIODS[self.period][0]

    @property
    def query(self) -> str:
        return urlencode({"engine": self.engine, "period": self.period} | ({"by": self.by} if self.by else {}))

    def engines(self) -> list[dict[str, Any]]:
        """The engines to choose from; empty if there is only one."""
        names = list(get_settings().engines)
        return [] if len(names) < 2 else [self._offer(name, replace(self, engine=name)) for name in names]

    def periods(self) -> list[dict[str, Any]]:
        return [self._offer(text, replace(self, period=name)) for name, (_length, text) in PERIODS.items()]

    def splits(self) -> list[dict[str, Any]]:
        """How the traffic can be split; rows of nodes are kept apart for two hours only."""
        kept = [name for name in SPLITS if name != "node" or self.period == "hour"]
        return [self._offer(SPLITS[name], replace(self, by=name)) for name in kept]

    def _offer(self, text: Any, choice: Choice) -> dict[str, Any]:
        return {"text": text, "query": choice.query, "current": choice == self}


def engine_of_lists() -> str:
    """The engine whose rows the admin's lists show, as the database routers choose."""
    alias = router.db_for_read(Job)
    engines = get_settings().engines
    return alias if alias in engines else next(iter(engines))
