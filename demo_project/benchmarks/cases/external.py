"""Workers outside fetch jobs and hand them in: through the gateways, through the operations, and in raw SQL."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from importlib.util import find_spec
from typing import Any, ClassVar

from django.urls import Resolver404, resolve

from jobexec.models import ExternalWorker, ExternalWorkerJob, Job
from jobexec.operations.external.create import create_external_jobs
from jobexec.operations.sql.delete import delete_rows
from jobexec.operations.sql.locks import is_single_writer

from ..case import Case, Contenders
from ..measure import BenchError, Sample, Stopwatch
from ..nodes.external_doors import BATCH, TYPE
from ..nodes.external_wakes import wake_ups
from ..nodes.processes import Nodes
from ..noop import CATEGORY, HANDLER
from ..report import Report, Shown
from ..sandbox import tidy

_CHUNK = 5_000
_DATA = {"order_id": 4711, "amount": "99.90", "currency": "EUR", "customer": {"name": "A. Person", "tier": 2}}
_ON_COMPLETE = ", on_complete"


class External(Case):
    """Activations of 32 jobs and completions of each by several workers, each process with threads and connections.

    ``ours`` are the operations, called in the processes of the workers; ``rest`` and ``grpc`` go through a gateway in a
    process of its own. With ``on_complete`` a completion makes the row one of an ordinary job, which is not run;
    without, it deletes it. CPU is that of the gateway, or of the workers where there is none.
    """

    name: ClassVar[str] = "external"
    summary: ClassVar[str] = "workers outside fetch and complete jobs: operations, REST and gRPC, against raw SQL"
    default_jobs: ClassVar[int] = 4_000
    shown = Shown(
        figures={"workers_cpu": "µs of the workers/job", "wake_p50": "ms", "wake_p90": "ms", "wake_max": "ms"}
    )

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        asked = str(self.plan.options.get("gateways") or "all")
        self.missing = {door: why for door in ("rest", "grpc") if (why := _missing(door))}
        if asked in self.missing:
            raise BenchError(f"--gateways {asked}: {self.missing[asked]}")
        self._gateways = [door for door in ("rest", "grpc") if asked in ("all", door) and door not in self.missing]

    @property
    def processes(self) -> int:
        """How many processes work; 1 where one writer locks the database."""
        return 1 if is_single_writer(self.plan.alias) else int(self.plan.options.get("processes") or 2)

    @property
    def threads(self) -> int:
        """How many threads of each work, each with a connection."""
        return 1 if is_single_writer(self.plan.alias) else int(self.plan.options.get("worker_threads") or 4)

    def facts(self) -> dict[str, Any]:
        return {"processes": self.processes, "threads_of_each": self.threads, "batch": BATCH, "skipped": self.missing}

    def notes(self) -> Iterator[str]:
        yield f"{self.processes} processes of workers with {self.threads} threads each, batches of {BATCH}."
        for door, why in self.missing.items():
            yield f"{door} is left out: {why}"

    def contenders(self) -> Contenders:
        doors = ("ours", "raw", *self._gateways)
        plain = {door: partial(self.run, door, False) for door in doors}
        return plain | {door + _ON_COMPLETE: partial(self.run, door, True) for door in doors}

    def report(self, *told: Any) -> Report:
        return replace(super().report(*told), ratios=[(door, "ours") for door in self._gateways])

    def run(self, door: str, on_complete: bool) -> Sample:
        """One contender."""
        jobs = self._fill(on_complete)
        with self._gateway(door) as (port, gateway):
            watch, reports, began = self._drain(door, on_complete, port, jobs)
            wakes = wake_ups(self.plan.alias, door, port) if gateway and not on_complete else {}
            served = gateway.stop()[0]["cpu"] if gateway else None
        self._check(reports, on_complete)
        cpu = sum(report["cpu"] for report in reports)
        figures = {"workers_cpu": cpu / self.plan.jobs * 1e6, **wakes}
        return watch.sample(
            self.plan.jobs,
            seconds=max(report["ended"] for report in reports) - began,
            cpu=cpu if served is None else served,
            figures=figures,
        )

    def _fill(self, on_complete: bool) -> int:
        alias, jobs = self.plan.alias, self.plan.jobs
        callback = {"handler": HANDLER, "kwargs": {}, "columns": {"category": CATEGORY}} if on_complete else None
        configuration: dict[str, Any] = {
            "variables": _DATA,
            "on_complete": callback,
            "on_error": {},
            "tags": [],
        }
        columns = {"handler_type": TYPE, "category": CATEGORY, "exclusive": False, "custom_headers": {"bench": "yes"}}
        for start in range(0, jobs, _CHUNK):
            create_external_jobs(alias, columns, [configuration] * (min(jobs, start + _CHUNK) - start))
        tidy(alias, ExternalWorkerJob, Job)
        return jobs

    @contextmanager
    def _gateway(self, door: str) -> Iterator[tuple[int, Nodes | None]]:
        """The port of a gateway that serves from now on, and its process; 0 and None where there is none."""
        if door not in ("rest", "grpc"):
            yield 0, None
            return
        with Nodes(1, self.plan.alias, self._overrides(), "external", part=door) as nodes:
            (ready,) = nodes.wait_until_ready()
            nodes.go()
            yield ready["port"], nodes

    def _overrides(self) -> Mapping[str, Any]:
        return {**self.plan.overrides, "gateway_auth": "none", "gateway_database": self.plan.alias}

    def _drain(
        self, door: str, on_complete: bool, port: int, jobs: int
    ) -> tuple[Stopwatch, list[dict[str, Any]], float]:
        more = {"door": door, "on_complete": on_complete, "port": port, "threads": self.threads, "part": "worker"}
        with Nodes(self.processes, self.plan.alias, self._overrides(), "external", name=door, **more) as nodes:
            nodes.wait_until_ready()
            self.progress.follow(nodes.done, jobs)
            with Stopwatch(self.plan.alias) as watch:
                began = nodes.go()
                nodes.wait_until_done(jobs)
            return watch, nodes.stop(), began

    def _check(self, reports: list[dict[str, Any]], on_complete: bool) -> None:
        """Raise BenchError unless each job was handed in once, and what was to become of it has."""
        alias, wanted = self.plan.alias, self.plan.jobs
        keys = [key for report in reports for key in report["ran"]]
        if not len(keys) == len(set(keys)) == wanted:
            raise BenchError(f"{wanted} jobs, {len(keys)} were handed in, {len(set(keys))} different ones.")
        left = ExternalWorkerJob.objects.using(alias).filter(handler_type=TYPE).count()
        made = Job.objects.using(alias).filter(handler_type=HANDLER).count()
        if left or made != (wanted if on_complete else 0):
            raise BenchError(f"{wanted} jobs were handed in, {left} are still there, and {made} became ordinary jobs.")
        delete_rows(ExternalWorker.objects.using(alias).filter(type=TYPE))


def _missing(door: str) -> str:
    """Why there is no such door; empty if there is."""
    if door == "grpc":
        lacking = [name for name in ("grpc", "grpc_health", "grpc_reflection") if find_spec(name) is None]
        return 'grpcio is missing: pip install -e ".[grpc]".' if lacking else ""
    if find_spec("uvicorn") is None:
        return "uvicorn is missing: pip install uvicorn."
    try:
        resolve("/v2/jobs/activation", "jobexec.gateways.rest.urls")
    except Resolver404:
        return "the REST gateway has no /v2."
    return ""
