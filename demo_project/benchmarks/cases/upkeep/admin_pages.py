"""Look at every page of the admin while the tables are full."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from typing import Any, ClassVar
from uuid import uuid4

from django.apps import apps
from django.db import router
from django.test import RequestFactory
from django.urls import NoReverseMatch, resolve, reverse

from jobexec import clock
from jobexec.models import DeadLetterJob, GatewayClient, Incident, Job, JobLog, LogState, SuspendedJob, TimerJob

from ...bulk import multiply
from ...case import Case, Contenders
from ...measure import BenchError, Sample, Stopwatch
from ...noop import BACKLOG_HANDLER, CATEGORY
from ...processes import CROWD_DEFINITION, CROWD_INSTANCE, crowd
from ...raw.sql import RawConnection
from ...report import Report, Shown
from .backlog import analyze

_COMMON: dict[str, Any] = {"handler_type": BACKLOG_HANDLER, "category": CATEGORY}
_FAILURE = {"exception_message": "BenchError: there is none", "fingerprint": "0123456789abcdef"}
_ROWS = 50
_ACTIVITIES = 500
_ROUTED = ("jobexec", "jobexec_processes", "contenttypes")


class AdminPages(Case):
    """Each list of the admin, some of them filtered, the dashboard and the page of one job, one after the other.

    ``--jobs`` executable jobs, and as many timers and rows of the job log; suspended jobs, dead letters and incidents
    are a tenth of that. The figure is the slowest page of a round, from the request to the finished HTML. The raw SQL
    reads the rows of each job table that its list shows, by its primary key. Of processes, if they are installed, there
    are as many instances that wait, and that have ended, as dead letters, and one that has 500 activities.
    """

    name: ClassVar[str] = "admin"
    summary: ClassVar[str] = "each page of the admin over full tables; the slowest counts"
    default_jobs: ClassVar[int] = 1_000_000
    unit: ClassVar[str] = "ms"
    counted: ClassVar[tuple[str, str]] = ("page", "pages")

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self._pages = {} if _uninstalled() else _pages()

    def phases(self) -> Any:
        return [(self.load, self.contenders())]

    def contenders(self) -> Contenders:
        return {"ours": self.ours, "raw": self.raw}

    def value(self, sample: Sample) -> float:
        return max(sample.latencies) * 1000

    def report(self, *args: Any) -> Report:
        return replace(super().report(*args), shown=Shown(dict.fromkeys(self._pages, "ms")))

    def load(self) -> None:
        """Fill the tables."""
        if not self._pages:
            raise BenchError("admin: the project has no admin (django.contrib.admin, its URLs) to look at.")
        self.progress.stage(f"{self.name}: rows are loaded")
        alias, jobs = self.plan.alias, self.plan.jobs
        now, few = clock.now(alias), max(1, jobs // 10)
        yesterday = now - timedelta(days=1)
        # Locked: they look like jobs in progress, and no executor that should be there takes them.
        held = {"lock_owner": CATEGORY, "lock_expiration_time": now + timedelta(days=1)}
        self._rows(Job(process_instance_id=CATEGORY, exclusive=False, **held, **_COMMON), jobs)
        self._rows(TimerJob(type="timer", due_date=now + timedelta(days=1), **_COMMON), jobs, later="due_date")
        self._rows(SuspendedJob(suspended_at=yesterday, **_COMMON), few, later="suspended_at")
        self._rows(DeadLetterJob(died_at=yesterday, retries=0, **_FAILURE, **_COMMON), few, later="died_at")
        log = JobLog(timestamp=yesterday, state=LogState.SUCCESSFUL, job_id=uuid4(), **_COMMON)
        self._rows(log, jobs, later="timestamp", distinct=["job_id"])
        incident = {"message": _FAILURE["exception_message"], "fingerprint": _FAILURE["fingerprint"]}
        self._rows(
            Incident(timestamp=yesterday, job_id=uuid4(), **incident, **_COMMON),
            few,
            later="timestamp",
            distinct=["job_id"],
        )
        analyze(alias, Job, TimerJob, SuspendedJob, DeadLetterJob, JobLog, Incident)
        if apps.is_installed("jobexec.processes"):
            crowd(alias, few, few, activities=_ACTIVITIES)

    def _rows(self, row: Any, count: int, **more: Any) -> None:
        row.save(using=self.plan.alias, force_insert=True)
        multiply(row, count, **more)

    def ours(self) -> Sample:
        times: dict[str, float] = {}
        alias = self.plan.alias
        with routed_to(alias), Stopwatch(alias) as watch:
            for name, path in self._pages.items():
                began = time.perf_counter()
                get(path)
                times[name] = time.perf_counter() - began
        figures = {name: seconds * 1000 for name, seconds in times.items()}
        return watch.sample(len(times), tuple(times.values()), figures=figures)

    def raw(self) -> Sample:
        alias, times = self.plan.alias, []
        with RawConnection(alias) as connection, Stopwatch(alias) as watch:
            for table in (Job, TimerJob, SuspendedJob, DeadLetterJob):
                began = time.perf_counter()
                connection.execute(f"SELECT * FROM {table._meta.db_table} ORDER BY id DESC LIMIT {_ROWS}").fetchall()
                times.append(time.perf_counter() - began)
        return watch.sample(len(times), tuple(times))


def _uninstalled() -> bool:
    if not apps.is_installed("django.contrib.admin"):
        return True
    try:
        reverse("admin:app_list", args=["jobexec"])
    except NoReverseMatch:
        return True
    return False


def _pages() -> dict[str, str]:
    """The address of each page that is looked at, by the name that the report gives it."""
    from django.contrib import admin

    lists = {
        str(table._meta.verbose_name_plural): reverse(f"admin:jobexec_{table._meta.model_name}_changelist")
        for table in admin.site._registry
        # Clients are looked for in the database of the gateways, whichever is measured.
        if table._meta.app_label == "jobexec" and table is not GatewayClient
    }
    processes = "admin:jobexec_processes_processinstance", "admin:jobexec_processes_processdefinition"
    if apps.is_installed("jobexec.processes"):
        for name, view in zip(("process instances", "process definitions"), processes, strict=True):
            lists[name] = reverse(f"{view}_changelist")
        lists["process instance, 500 activities"] = reverse(f"{processes[0]}_change", args=[CROWD_INSTANCE])
        lists["process definition, its tokens"] = reverse(f"{processes[1]}_change", args=[CROWD_DEFINITION])
    jobs, dead = reverse("admin:jobexec_job_changelist"), reverse("admin:jobexec_deadletterjob_changelist")
    return {
        "dashboard": reverse("admin:app_list", args=["jobexec"]),
        **lists,
        "jobs, page 100": f"{jobs}?p=100",
        "jobs of a handler": f"{jobs}?handler={BACKLOG_HANDLER}",
        "jobs, nothing found": f"{jobs}?q=nothing-of-this-name",
        "jobs of a process instance": f"{jobs}?q={CATEGORY}",
        "free jobs": f"{jobs}?lock=free",
        "dead letters of a group": f"{dead}?fingerprint={_FAILURE['fingerprint']}",
    }


def get(path: str) -> None:
    """Have Django answer this address for a superuser who is in no table. Raises BenchError for another answer."""
    from django.contrib.auth import get_user_model

    match = resolve(path.partition("?")[0])
    request: Any = RequestFactory().get(path)
    request.user = get_user_model()(pk=0, is_active=True, is_staff=True, is_superuser=True)
    request.resolver_match = match
    response = match.func(request, *match.args, **match.kwargs)
    if hasattr(response, "render"):
        response.render()
    if response.status_code != 200:
        raise BenchError(f"admin: {path} answered {response.status_code}.")


@contextmanager
def routed_to(alias: str) -> Iterator[None]:
    """These models are in this database during the block, whatever the routers say."""
    before = router.routers
    router.routers = [_To(alias), *before]
    try:
        yield
    finally:
        router.routers = before


class _To:
    def __init__(self, alias: str) -> None:
        self._alias = alias

    def db_for_read(self, model: Any, **hints: Any) -> str | None:
        return self._alias if model._meta.app_label in _ROUTED else None

    db_for_write = db_for_read
