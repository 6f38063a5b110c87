"""`manage.py load_bookings`: the bookings of a CSV file, as if visitors had booked them one after the other."""

import csv
from itertools import islice
from pathlib import Path

from django.core.management.base import BaseCommand, CommandError
from django.db import transaction

from demo_project.bookings.forms import BookingForm
from demo_project.bookings.services import book

DATA = Path(__file__).resolve().parents[2] / "data" / "bookings.csv"
TOGETHER = 50  # bookings in one transaction: few commits, and no long lock on a busy database


class Command(BaseCommand):
    help = "Book the trips of a CSV file with the columns visitor, email, city, arrival, departure."

    def add_arguments(self, parser):
        parser.add_argument("file", nargs="?", type=Path, default=DATA)
        parser.add_argument("--limit", type=int, help="Only the first N trips.")

    def handle(self, *args, **options):
        with options["file"].open(newline="", encoding="utf-8") as file:
            lines = enumerate(islice(csv.DictReader(file), options["limit"]), start=2)
            forms = [(line, BookingForm(row)) for line, row in lines]
        for line, form in forms:
            if not form.is_valid():
                raise CommandError(f"{options['file'].name}, line {line}: {form.errors.as_json()}")
        for first in range(0, len(forms), TOGETHER):
            with transaction.atomic():
                for _, form in forms[first : first + TOGETHER]:
                    book(form.instance)
        self.stdout.write(f"{len(forms)} bookings, {3 * len(forms)} jobs.")
