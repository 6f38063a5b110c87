"""``manage.py jobbench``: a thin door to :mod:`demo_project.benchmarks`."""

from __future__ import annotations

import gc
import json
from argparse import ArgumentParser, RawDescriptionHelpFormatter
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core import checks
from django.core.exceptions import ImproperlyConfigured
from django.core.management.base import BaseCommand, CommandError
from django.db import DatabaseError

from demo_project.benchmarks.cases import CASES
from demo_project.benchmarks.measure import BenchError
from demo_project.benchmarks.nodes.node import serve
from demo_project.benchmarks.options import add_options, plan_of
from demo_project.benchmarks.progress import Bar, Lines, Progress
from demo_project.benchmarks.report import Report
from demo_project.benchmarks.runner import run_case
from jobexec.exceptions import JobExecError


class Command(BaseCommand):
    help = "Measure how fast jobs are enqueued and executed here, with the raw SQL of the same work beside it."
    requires_system_checks = [checks.Tags.database, "jobexec"]

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.formatter_class = RawDescriptionHelpFormatter
        parser.epilog = "\n".join(f"{name:<14}{case.summary}" for name, case in CASES.items())
        add_options(parser)

    def handle(self, *args: Any, **options: Any) -> None:
        if getattr(self, "_called_from_command_line", False):
            gc.freeze()  # as runjobexecutor does
        if options["node_line"] is not None:
            serve(options["node_line"])
            return
        try:
            plan = plan_of(options)
            settings.DEBUG = False  # otherwise Django keeps the text of every query
            with self._progress(options["verbosity"]) as progress:
                report = run_case(CASES[options["case"]], plan, force=options["force"], progress=progress)
        except (BenchError, JobExecError, ImproperlyConfigured, DatabaseError) as error:
            raise CommandError(str(error)) from error
        except KeyboardInterrupt:
            raise CommandError("Interrupted; what the benchmark had written is removed.", returncode=130) from None
        self.stdout.write(json.dumps(report.as_json()) if options["json"] else "\n".join(report.as_text()))
        if options["svg"]:
            self._write_chart(options["svg"], report)

    def _write_chart(self, path: Path, report: Report) -> None:
        try:
            path.write_text(report.as_svg(), encoding="utf-8")
        except OSError as error:
            raise CommandError(f"--svg: {path} cannot be written: {error.strerror}.") from error

    def _progress(self, verbosity: int) -> Progress:
        """A bar for who looks at it, lines for a log that asks for them, else nothing."""
        if verbosity > 1:
            return Lines(self.stderr.write)
        if verbosity == 1 and self.stderr.isatty():
            return Bar(lambda text: self._draw(text), getattr(self.stderr, "encoding", "") or "")
        return Progress()

    def _draw(self, text: str) -> None:
        self.stderr.write(text, style_func=str, ending="")
        self.stderr.flush()
