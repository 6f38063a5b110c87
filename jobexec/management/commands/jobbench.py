"""``manage.py jobbench``: a thin door to :mod:`jobexec.management.bench`."""

from __future__ import annotations

import json
import os
from argparse import SUPPRESS, ArgumentParser, ArgumentTypeError, RawDescriptionHelpFormatter
from pathlib import Path
from typing import Any

from django.core import checks
from django.core.exceptions import ImproperlyConfigured
from django.core.management.base import BaseCommand, CommandError
from django.db import DatabaseError

from jobexec.conf import get_settings
from jobexec.exceptions import JobExecError
from jobexec.executor.preflight import check_engines
from jobexec.management.bench import CASES, BenchError
from jobexec.management.bench.cluster import Cluster, ClusterPlan
from jobexec.management.bench.cluster_node import serve
from jobexec.management.bench.cluster_report import ClusterReport
from jobexec.management.bench.measure import Plan
from jobexec.management.bench.report import Report
from jobexec.management.bench.runner import run_case
from jobexec.management.bench.sandbox import build_settings
from jobexec.management.bench.strategies import ALL, STRATEGIES, chosen

_NODES = 3
_OF_CLUSTER = ("nodes", "strategy", "queue_size", "seed", "svg")


class Command(BaseCommand):
    help = "Measure how fast jobs are enqueued and executed here, with the raw SQL of the same work beside it."
    requires_system_checks = [checks.Tags.database, "jobexec"]

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.formatter_class = RawDescriptionHelpFormatter
        parser.epilog = "\n".join(f"{name:<14}{case.summary}" for name, case in CASES.items())
        add = parser.add_argument
        add("case", choices=CASES, help="What to measure; see below.")
        add("--engine", help="The engine, a database alias (default: the first of JOBEXEC['ENGINES']).")
        add("--jobs", type=_positive, help="Jobs in each run (default: depends on the case).")
        add("--repeat", type=_positive, default=3, help="Runs of each contender, in turn (default: 3).")
        add("--threads", type=int, help="Worker threads (setting THREADS).")
        add("--page", type=int, help="Jobs locked in one round, ours and raw (setting MAX_JOBS_PER_ACQUISITION).")
        levels = ("none", "failures", "activity", "full")
        add("--history", choices=levels, default="failures", help="What the job log keeps (default: failures).")
        add("--json", action="store_true", help="Print one JSON object instead of a table.")
        add("--force", action="store_true", help="Run although executors are alive or jobs are due.")
        self._add_cluster(parser.add_argument_group("cluster"))

    def _add_cluster(self, group: Any) -> None:
        """What only the case ``cluster`` takes; None tells that it was not given."""
        add = group.add_argument
        add("--nodes", type=_positive, help=f"Nodes, each a process of its own (default: {_NODES}).")
        add("--strategy", choices=[*STRATEGIES, ALL], help=f"How they acquire (default: {ALL}, in turn).")
        add("--queue-size", type=int, help="Jobs that may wait for a thread in a node (setting QUEUE_SIZE).")
        add("--seed", type=int, help="Of the jobs' service times and priorities (default: 1).")
        add("--svg", type=Path, metavar="PATH", help="Also write a chart: jobs acquired and lock failures over time.")
        # How this command starts its own nodes.
        add("--node-line", type=int, help=SUPPRESS)

    def handle(self, *args: Any, **options: Any) -> None:
        if options["node_line"] is not None:
            serve(options["node_line"])
            return
        try:
            report = run_case(
                CASES[options["case"]],
                self._plan(options),
                force=options["force"],
                progress=self._progress if options["verbosity"] > 1 else lambda line: None,
            )
        except (BenchError, JobExecError, ImproperlyConfigured, DatabaseError) as error:
            raise CommandError(str(error)) from error
        except KeyboardInterrupt:
            raise CommandError("Interrupted; what the benchmark had written is removed.", returncode=130) from None
        self.stdout.write(json.dumps(report.as_json()) if options["json"] else "\n".join(report.as_text()))
        if options["svg"]:
            self._write_chart(options["svg"], report)

    def _plan(self, options: dict[str, Any]) -> Plan:
        case = options["case"]
        self._check_cluster_options(options)
        alias = options["engine"] or next(iter(get_settings().engines))
        overrides = {
            "threads": options["threads"],
            "queue_size": options["queue_size"],
            "max_jobs_per_acquisition": options["page"],
            "history_level": options["history"],
        }
        settings = build_settings(alias, **overrides)
        check_engines(settings)
        jobs = options["jobs"] or CASES[case].default_jobs
        if case != Cluster.name:
            return Plan(alias, jobs, options["repeat"], settings)
        return ClusterPlan(
            alias,
            jobs,
            options["repeat"],
            settings,
            nodes=options["nodes"] or _NODES,
            strategies=chosen(options["strategy"] or ALL),
            seed=1 if options["seed"] is None else options["seed"],
            overrides=overrides,
        )

    def _check_cluster_options(self, options: dict[str, Any]) -> None:
        given = [name for name in _OF_CLUSTER if options[name] is not None]
        if given and options["case"] != Cluster.name:
            names = ", ".join("--" + name.replace("_", "-") for name in given)
            raise CommandError(f"{names}: only for the case {Cluster.name}, got {options['case']}.")
        folder = options["svg"].parent if options["svg"] else None
        if folder and not os.access(folder, os.W_OK):  # better now than after the last run
            raise CommandError(f"--svg: the folder {folder} is not there or cannot be written to.")

    def _write_chart(self, path: Path, report: Report) -> None:
        assert isinstance(report, ClusterReport)
        try:
            path.write_text(report.as_svg(), encoding="utf-8")
        except OSError as error:
            raise CommandError(f"--svg: {path} cannot be written: {error.strerror}.") from error

    def _progress(self, line: str) -> None:
        self.stderr.write(line)


def _positive(text: str) -> int:
    if not text.isdigit() or int(text) < 1:
        raise ArgumentTypeError(f"expected a number of at least 1, got {text!r}")
    return int(text)
