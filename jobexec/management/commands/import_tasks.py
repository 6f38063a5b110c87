"""``manage.py import_tasks``: a thin wrapper of :mod:`jobexec.management.import_tasks`."""

from __future__ import annotations

import sys
from argparse import ArgumentParser
from typing import Any

from django.core.exceptions import ImproperlyConfigured
from django.core.management.base import BaseCommand, CommandError
from django.db import DatabaseError, connections, router
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from jobexec.exceptions import JobExecError
from jobexec.management.import_tasks.source import StoredTask, check_table
from jobexec.management.jobs.output.screen import Exit, usage


class Command(BaseCommand):
    help = "Move the waiting tasks of django-tasks-db to jobexec, with their ids."

    def add_arguments(self, parser: ArgumentParser) -> None:
        add = parser.add_argument
        add("--dry-run", action="store_true", help="only show what would be moved")
        add("--results", action="store_true", help="also move the results of tasks that have ended")
        add("--queue", action="append", metavar="NAME", help="only tasks of this queue; repeatable")
        add("--backend", metavar="ALIAS", help="alias in TASKS for all tasks; default: the one that each task names")
        add("--limit", type=int, metavar="N", help="move at most N rows")
        add("--batch-size", type=int, default=100, metavar="N", help="rows per transaction; default 100")
        add("--source", metavar="DATABASE", help="database of django-tasks-db; default: chosen by the database routers")

    def handle(self, *args: Any, **options: Any) -> None:
        source = options["source"] or router.db_for_write(StoredTask)
        if source not in connections:
            raise usage(_("--source: there is no database %(source)r in DATABASES.") % {"source": source})
        for name in ("limit", "batch_size"):
            if options[name] is not None and options[name] < 1:
                option = f"--{name.replace('_', '-')}"
                raise usage(_("%(option)s: expected a number of at least 1.") % {"option": option})
        try:
            left = self._run(source, options)
        except (JobExecError, ImproperlyConfigured, DatabaseError) as error:
            raise CommandError(str(error), returncode=Exit.ERROR) from error
        except KeyboardInterrupt:
            raise CommandError(_("Interrupted; run the command again to continue."), returncode=130) from None
        if left:
            sys.exit(Exit.LEFT_ALONE)

    def _run(self, source: str, options: dict[str, Any]) -> bool:
        # These modules need django.tasks or its backport, and raise an error that says so.
        from jobexec.management.import_tasks.importer import Importer
        from jobexec.management.import_tasks.mapping import Mapping

        check_table(source)
        importer = Importer(
            source,
            Mapping(options["backend"]),
            queues=options["queue"],
            limit=options["limit"],
            batch_size=options["batch_size"],
            dry_run=options["dry_run"],
        )
        try:
            importer.waiting()
            if options["results"]:
                importer.ended()
        finally:
            self._tell(importer.report, options)
        return bool(importer.report.left or importer.report.running)

    def _tell(self, report: Any, options: dict[str, Any]) -> None:
        if options["dry_run"]:
            self.stdout.write(_("Nothing is moved. Without --dry-run:"))
        self._count(
            ngettext("%(count)d task has become a job.", "%(count)d tasks have become jobs.", report.jobs), report.jobs
        )
        if options["results"]:
            text = ngettext("%(count)d result was moved.", "%(count)d results were moved.", report.results)
            self._count(text, report.results)
        if report.there:
            text = ngettext("%(count)d already existed.", "%(count)d already existed.", report.there)
            self._count(text, report.there)
        if report.running:
            text = ngettext(
                "%(count)d is running and stays with its worker.",
                "%(count)d are running and stay with their workers.",
                report.running,
            )
            self._count(text, report.running)
        for reason, count in report.left.most_common():
            self.stdout.write(_("%(count)d not moved: %(reason)s") % {"count": count, "reason": reason})

    def _count(self, text: str, count: int) -> None:
        self.stdout.write(text % {"count": count})
