"""Execute jobs in tables that are full of others: timers, dead letters, history, blocked jobs, other deployments."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from typing import Any, ClassVar
from uuid import uuid4

from django.db import connections, models

from jobexec import clock
from jobexec.models import BlockedJob, DeadLetterJob, Job, JobLog, LogState, TimerJob

from ...bulk import multiply
from ...case import Contenders
from ...noop import BACKLOG_HANDLER, CATEGORY
from ...sandbox import remove_everything, tidy
from ..drain import Drain

_ELSEWHERE = "jobbench-elsewhere"
_RESOURCE, _LIMIT = "jobbench", 5
_OPTIONS = ("timers", "dead_letters", "log", "foreign", "blocked")
_COMMON: dict[str, Any] = {"handler_type": BACKLOG_HANDLER, "category": CATEGORY}


class Backlog(Drain):
    """Runs on empty tables, then the rows are loaded, once, then runs beside them, then on empty tables again.

    So what the machine does meanwhile is on both sides of the comparison.

    Timers are due from tomorrow on, one each second. The jobs of another deployment are executable, and stand before
    ours in the order. Blocked jobs wait for a resource whose permits jobs of that deployment have.
    """

    name: ClassVar[str] = "backlog"
    summary: ClassVar[str] = "execute no-op jobs beside timers, dead letters, history and jobs of other deployments"
    own_settings: ClassVar[Mapping[str, Any]] = {
        "deployment_aware": True,
        "resources": {_RESOURCE: {"limit": _LIMIT}},
    }
    ratios = (("ours", "ours, empty"), ("raw", "raw, empty"))

    def phases(self) -> Sequence[tuple[Callable[[], None], Contenders]]:
        empty: Contenders = {"ours, empty": self.ours, "raw, empty": self.raw}
        loaded: Contenders = {"ours": self.ours, "raw": self.raw}
        return [(lambda: None, empty), (self.load, loaded), (self.unload, empty)]

    def facts(self) -> dict[str, Any]:
        return {"backlog": {name: self.plan.options[name] for name in _OPTIONS}}

    def load(self) -> None:
        """Fill the tables."""
        self.progress.stage(f"{self.name}: rows are loaded")
        alias = self.plan.alias
        now = clock.now(alias)
        tomorrow = now + timedelta(days=1)
        self._rows("timers", TimerJob(type="timer", due_date=tomorrow, **_COMMON), later="due_date")
        self._rows("dead_letters", DeadLetterJob(died_at=now - timedelta(days=1), retries=0, **_COMMON))
        ended = {"timestamp": now - timedelta(days=30), "state": LogState.SUCCESSFUL, "job_id": uuid4()}
        self._rows("log", JobLog(**ended, **_COMMON), later="timestamp", distinct=["job_id"])
        self._rows("foreign", Job(deployment_id=_ELSEWHERE, rank=0, **_COMMON))
        self._rows("blocked", BlockedJob(resource=_RESOURCE, rank=0, **_COMMON))
        Job.objects.using(alias).bulk_create(
            Job(deployment_id=_ELSEWHERE, resource=_RESOURCE, rank=0, **_COMMON) for _ in range(_LIMIT)
        )
        analyze(alias, TimerJob, DeadLetterJob, JobLog, Job, BlockedJob)

    def unload(self) -> None:
        """Empty them again."""
        self.progress.stage(f"{self.name}: rows are removed")
        remove_everything(self.plan.alias)

    def _rows(self, option: str, row: Any, **more: Any) -> None:
        count = self.plan.options[option]
        if count:
            row.save(using=self.plan.alias, force_insert=True)
            multiply(row, count, **more)


def analyze(alias: str, *tables: type[models.Model]) -> None:
    """Let the database know what it has, as it would after an hour."""
    tidy(alias, *tables)
    if connections[alias].vendor == "mysql":
        with connections[alias].cursor() as cursor:
            for table in tables:
                cursor.execute(f"ANALYZE TABLE {table._meta.db_table}")
                cursor.fetchall()
