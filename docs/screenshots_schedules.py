"""More rows of the pictures: what the shop does again and again, its unique keys, and results of its tasks."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from jobexec import clock, job
from jobexec.identifiers import uuid7
from jobexec.models import Job, JobKey, ResultStatus, Schedule, ScheduleFiring, TaskResult, TimerJob
from jobexec.operations.schedules.manage import save_schedule, set_enabled, upcoming

REPORT, STOCK, LEDGER = "shop.jobs.send_report", "shop.jobs.count_stock", "shop.jobs.export_to_ledger"
INVOICE, THUMBNAIL = "shop.tasks.send_invoice", "shop.tasks.make_thumbnail"
TIMEOUT = """Traceback (most recent call last):
  File "/srv/shop/tasks.py", line 23, in send_invoice
    mailbox.send(invoice.as_message())
  File "/srv/shop/mailbox.py", line 61, in send
    raise MailboxBusy("451 try again later")
shop.mailbox.MailboxBusy: 451 try again later"""


def fill() -> dict[str, Any]:
    """Insert them; the rows whose pages are shown, by name of their table."""
    _handlers()
    return {"schedule": _schedules(), "jobkey": _keys(), "taskresult": _results()}


def _handlers() -> None:
    for name in (REPORT, STOCK, LEDGER):

        @job(name=name)
        def handler(shop: str = "", days: int = 1) -> None:
            """Only for the pictures."""


def _schedules() -> Schedule:
    def save(name: str, handler: str, expression: str, **values: Any) -> Schedule:
        return save_schedule("default", name=name, handler_type=handler, expression=expression, **values)

    zone, now = "Europe/Berlin", clock.now()
    save("stock of the shelves", STOCK, "*/15 * * * *", misfire="skip", timezone="UTC")
    save("ledger", LEDGER, "R/PT6H", timezone="UTC", misfire="all", kwargs={"shop": "acme"})
    save("monthly figures", REPORT, "30 4 1 * *", timezone=zone, kwargs={"days": 31})
    set_enabled("default", "monthly figures", False)
    row = save("weekday report", REPORT, "0 3 * * MON-FRI", timezone=zone, kwargs={"shop": "acme", "days": 1})
    Schedule.objects.filter(name="ledger").update(declared="R/PT6H\nUTC\nall", handler_type=LEDGER)
    for each in Schedule.objects.exclude(name="monthly figures"):
        _fire(each, now)
    Schedule.objects.filter(pk=row.pk).update(options={"priority": 5, "tenant_id": "acme"})
    return row


def _fire(row: Schedule, now: Any) -> None:
    past = [time for time in upcoming(row, 200, now - timedelta(days=7)) if time <= now][-5:]
    ScheduleFiring.objects.bulk_create(
        ScheduleFiring(schedule=row, fire_time=time, job_id=uuid7(), create_time=time + timedelta(milliseconds=120))
        for time in past
    )
    Schedule.objects.filter(pk=row.pk).update(last_time=past[-1] if past else None, fired=len(past) * 7)


def _keys() -> JobKey:
    now = clock.now()
    waits = TimerJob.objects.filter(attempts=0).first()
    runs = Job.objects.filter(lock_owner__isnull=False).first()
    assert waits is not None and runs is not None
    rows = [
        ("shop.jobs.remind_of_payment", waits.process_instance_id, waits.pk, None, 300),
        ("shop.jobs.reserve_stock", runs.process_instance_id, runs.pk, None, 8),
        ("shop.jobs.print_label", "order-48150", uuid7(), None, 2400),
        ("shop.webhooks.receive", "evt_1QxT7b2eZvKYlo2C", uuid7(), timedelta(hours=23), 3600),
    ]
    made = [
        JobKey.objects.create(
            handler_type=handler,
            key=key,
            job_id=id,
            create_time=now - timedelta(seconds=age),
            expiration_time=None if until is None else now + until,
        )
        for handler, key, id, until, age in rows
    ]
    return made[0]


def _results() -> TaskResult:
    now = clock.now()
    made = []
    for number in range(12):
        handler = (INVOICE, THUMBNAIL)[number % 2]
        begun = now - timedelta(minutes=3 * (12 - number))
        failed = number == 4
        error = {"exception_class_path": "shop.mailbox.MailboxBusy", "traceback": TIMEOUT}
        tries = 3 if failed else 2 if number in (6, 10) else 1
        made.append(
            TaskResult.objects.create(
                id=uuid7(),
                backend="default",
                handler_type=handler,
                handler_configuration={"args": [48213 + number], "kwargs": {}},
                status=ResultStatus.FAILED if failed else ResultStatus.SUCCESSFUL,
                process_instance_id=f"order-{48213 + number}",
                tenant_id=("acme", "globex")[number % 2],
                create_time=begun,
                first_time=begun + timedelta(milliseconds=12),
                last_time=begun + timedelta(minutes=tries - 1, milliseconds=12),
                end_time=begun + timedelta(minutes=tries - 1, milliseconds=340),
                return_value=None if failed else {"message": f"<{48213 + number}@shop.example>", "pages": 2},
                errors=[error] * (tries if failed else tries - 1),
                workers=[f"worker-{(number + attempt) % 3 + 1}" for attempt in range(tries)],
            )
        )
    return made[10]
