"""`manage.py demo_status`: how things stand, as JSON; the eyes of `manage.py demo`, which does not use the database."""

import json
import select
import sys

from django.core.management.base import BaseCommand

from demo_project.bookings.accounts import accounts
from demo_project.bookings.status import snapshot


class Command(BaseCommand):
    help = "Print counts of bookings and jobs as a line of JSON."
    requires_system_checks = []

    def add_arguments(self, parser):
        parser.add_argument("--every", type=float, help="Write a line every N seconds, until standard input closes.")
        parser.add_argument(
            "--accounts", action="store_true", help="Write the full accounts instead: each handler, each problem."
        )

    def handle(self, *args, **options):
        self._say(accounts() if options["accounts"] else snapshot())
        while options["every"] and not select.select([sys.stdin], [], [], options["every"])[0]:
            self._say(snapshot())

    def _say(self, counts):
        self.stdout.write(json.dumps(counts))
        self.stdout.flush()
