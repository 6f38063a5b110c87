"""`manage.py demo`: the whole demo with one command. See demo_project/runner."""

import sys

from django.core.management.base import BaseCommand, CommandError

from demo_project.runner.demo import Demo, Options
from demo_project.runner.stage import StageError


class Command(BaseCommand):
    help = "Start a database, the booking site, a flaky flight service and a job executor; Ctrl-C stops them."
    requires_system_checks = []  # there is no database yet

    def add_arguments(self, parser):
        add = parser.add_argument
        add("--once", action="store_true", help="Without the site: process all bookings, print a table and exit.")
        add("--database", choices=["postgresql", "sqlite"], help="Default: PostgreSQL if its wheel is installed.")
        add("--bookings", type=int, default=300, help="How many of the CSV file's 300 to load.")
        add("--port", type=int, help="Port of the site. Default: 8000, or a free one if it is taken.")

    def handle(self, *args, **options):
        chosen = Options(options["once"], options["database"], options["bookings"], options["port"])
        try:
            sys.exit(Demo(chosen, self.stdout._out).run())
        except StageError as error:
            raise CommandError(str(error)) from error
