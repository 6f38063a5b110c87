"""Jobs that write to the tables of a tenant."""

from jobexec import DoNotRetry, job

from .models import Order


@job
def place(number):
    Order.objects.create(number=number)


@job(atomic=True)
def place_with_its_job(number):
    Order.objects.create(number=number)


@job
def fail_after_writing(number):
    Order.objects.create(number=number)
    raise DoNotRetry("no")
