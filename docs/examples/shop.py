"""A small shop for the examples in docs/how-to/jobs/test-jobs.md."""

from datetime import timedelta

from django.contrib.auth.models import Group as Order
from django.core.mail import send_mail
from django.db import transaction

from jobexec import job


@job(name="shop.send_receipt", retries="R3/PT5M", sensitive=["to"])
def send_receipt(order: str, to: str) -> str:
    send_mail("Your receipt", f"Order {order}", "shop@example.org", [to])
    return to


@job(name="shop.remind")
def remind(order: str, to: str) -> None:
    send_mail("Your basket", f"Order {order} is waiting", "shop@example.org", [to])


@job(name="shop.book", atomic=True)
def book(order: str) -> None:
    Order.objects.create(name=f"{order}, booked")


@job(name="shop.greet")
async def greet(order: str) -> str:
    return f"Hello, {order}"


def place_order(order: str, to: str) -> None:
    with transaction.atomic():
        Order.objects.create(name=order)
        send_receipt.enqueue(order, to=to)
        remind.using(delay=timedelta(days=1)).enqueue(order, to)
