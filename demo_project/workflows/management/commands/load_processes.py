"""`manage.py load_processes`: deploys the demo's processes, and starts some of each."""

from django.core.management.base import BaseCommand
from django.db import transaction

from demo_project.workflows import services

ITEMS = (("tour T-shirt", 30), ("poster", 12), ("front-row seat", 90), ("mug", 9))
REFUNDS = ((40, "NL91ABNA0417164300"), (250, "NL91ABNA0417164300"), (60, "unknown"))
CITIES = ("Rome", "Oslo", "Vienna")


class Command(BaseCommand):
    help = "Deploy the processes of the demo, and start trips, orders, refunds and offers."

    def handle(self, *args, **options):
        services.deploy_all()
        with transaction.atomic():
            started = [services.travel(city) for city in CITIES]
            started += [services.order(item, amount) for item, amount in ITEMS]
            started += [services.ask_for_money("Ada Byron", amount, account) for amount, account in REFUNDS]
            started += [services.make_offer(city, 3) for city in CITIES]
        self.stdout.write(f"{len(started)} processes.")
