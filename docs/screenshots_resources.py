"""More rows of the pictures: jobs that wait for a resource or a message, and what operators have changed."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from jobexec import clock, job, publish_message
from jobexec.models import AuditLog, BlockedJob, Incident, Job, Message, Resource
from jobexec.models.resource import BreakerState
from jobexec.operations import hold_resource, release_resource, set_resource_limits
from jobexec.operations.audit import acting
from jobexec.operations.history.incidents import BREAKER_OPEN
from jobexec.operations.values.operator import Operator

PAY, MAIL = "pay.example", "mail.example"
REASON = "12 of the last 20 calls failed: GatewayTimeout: no answer from pay.example within 30 s"


def fill(operator: Operator) -> dict[str, Any]:
    """Insert them; the rows whose pages are shown, by name of their table."""

    @job(name="shop.jobs.refund", resource=PAY)
    def refund(order_id: int) -> None:
        """Only for the pictures."""

    @job(name="shop.jobs.newsletter", resource=MAIL)
    def newsletter(customer: int) -> None:
        """Only for the pictures."""

    @job(name="shop.jobs.ship", wait_for=lambda order_id: ("paid", f"order-{order_id}"))
    def ship(order_id: int) -> None:
        """Only for the pictures."""

    now = clock.now()
    for number in range(9):
        refund.using(tenant_id=("acme", "globex")[number % 2]).enqueue(order_id=48101 + number)
    for number in range(4):
        newsletter.enqueue(customer=7001 + number)
        ship.using(tenant_id="acme").enqueue(order_id=48210 + number)
    held = Job.objects.filter(lock_owner__isnull=False).order_by("pk").values_list("pk", flat=True)[:3]
    Job.objects.filter(pk__in=list(held)).update(resource=MAIL)
    for name, key, payload in (
        ("paid", "order-48222", {"amount": 4200, "currency": "EUR"}),
        ("paid", "order-48230", {"amount": 990, "currency": "EUR"}),
        ("parcel returned", "order-47990", {"reason": "address"}),
    ):
        publish_message(name, key=key, payload=payload, ttl=timedelta(hours=2), tenant_id="acme")
    with acting(operator):
        set_resource_limits(MAIL, limit=6)
        hold_resource(PAY)
        release_resource(PAY)
    opened = now - timedelta(minutes=3)
    Resource.objects.update_or_create(
        pk=PAY,
        defaults={
            "breaker_state": BreakerState.OPEN,
            "breaker_time": opened,
            "trial_time": now + timedelta(minutes=2),
            "reason": REASON,
            "promoted": 21_804,
        },
    )
    Incident.objects.create(timestamp=opened, type=BREAKER_OPEN, resource=PAY, message=REASON)
    return {
        "resource": Resource.objects.get(pk=PAY),
        "blockedjob": BlockedJob.objects.filter(resource=PAY).order_by("rank").first(),
        "message": Message.objects.order_by("pk").first(),
        "auditlog": AuditLog.objects.filter(verb__startswith="set").latest("timestamp"),
    }
