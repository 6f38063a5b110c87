"""``manage.py jobbench``: a thin door to :mod:`jobexec.management.bench`."""

from __future__ import annotations

import json
from argparse import ArgumentParser, ArgumentTypeError, RawDescriptionHelpFormatter
from typing import Any

from django.core import checks
from django.core.exceptions import ImproperlyConfigured
from django.core.management.base import BaseCommand, CommandError
from django.db import DatabaseError

from jobexec.conf import get_settings
from jobexec.exceptions import JobExecError
from jobexec.executor.preflight import check_engines
from jobexec.management.bench import CASES, BenchError
from jobexec.management.bench.measure import Plan
from jobexec.management.bench.runner import run_case
from jobexec.management.bench.sandbox import build_settings


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

    def handle(self, *args: Any, **options: Any) -> None:
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

    def _plan(self, options: dict[str, Any]) -> Plan:
        alias = options["engine"] or next(iter(get_settings().engines))
        settings = build_settings(
            alias,
            threads=options["threads"],
            max_jobs_per_acquisition=options["page"],
            history_level=options["history"],
        )
        check_engines(settings)
        jobs = options["jobs"] or CASES[options["case"]].default_jobs
        return Plan(alias, jobs, options["repeat"], settings)

    def _progress(self, line: str) -> None:
        self.stderr.write(line)


def _positive(text: str) -> int:
    if not text.isdigit() or int(text) < 1:
        raise ArgumentTypeError(f"expected a number of at least 1, got {text!r}")
    return int(text)
