"""The verbs of the processes, as views and commands use them. Each is a part of its caller's transaction."""

from __future__ import annotations

from pathlib import Path
from uuid import uuid4

import jobexec
from jobexec.processes import complete, deploy, flow, item, start
from jobexec.processes.models import ProcessDefinition, ProcessInstance, ProcessResource, UserTask

from .jobs import ask_price, choose_cheapest, list_hotels, reserve_rooms, withdraw_offer

FILES = Path(__file__).parent / "processes"
ACCEPTED, PAID = "offer-accepted", "payment-received"
_ASYNC, _BESIDE = 'camunda:asyncBefore="true"', 'camunda:asyncBefore="true" camunda:exclusive="false"'


def deploy_all() -> None:
    """Deploy the three files; those that have not changed make no version."""
    deploy(*sorted(FILES.glob("*.bpmn")))


def travel(city: str) -> ProcessInstance:
    """The fork of hotel, flight and concert, and its join."""
    return start("travel", business_key=_key("trip"), variables={"city": city})


def is_side_by_side() -> bool:
    """Whether the latest version of Travel lets its jobs run beside each other."""
    latest = ProcessDefinition.objects.filter(key="travel", version__isnull=False).order_by("-version").first()
    if latest is None or latest.resource_id is None:
        return False
    return _BESIDE in ProcessResource.objects.get(pk=latest.resource_id).text


def switch_side_by_side() -> None:
    """Deploy another version of Travel. Instances that run keep theirs."""
    text = (FILES / "travel.bpmn").read_text()
    if not is_side_by_side():
        text = text.replace(_ASYNC, _BESIDE)
    deploy(("travel.bpmn", text.encode()))


def order(item: str, amount: int) -> ProcessInstance:
    """An order whose work is done by a program outside: `demo_project/worker.py`."""
    key = _key("order")
    return start("order", business_key=key, variables={"order": key, "item": item, "amount": amount})


def receive_payment(key: str) -> None:
    """What the bank would tell, for orders that the worker does not pay."""
    jobexec.publish_message(PAID, key=key, payload={"paid_by": "bank transfer"}, ttl="PT1H")


def ask_for_money(visitor: str, amount: int, account: str) -> ProcessInstance:
    """A refund that a manager approves within ten seconds, or a rule decides."""
    return start(
        "approval", business_key=_key("refund"), variables={"amount": amount, "account": account}, user=visitor
    )


def answer(task: UserTask, approved: bool, user: str) -> None:
    """Complete the task of a manager."""
    complete(task, {"approved": approved}, user=user)


def make_offer(city: str, nights: int) -> ProcessInstance:
    """A flow in Python: ask all hotels beside each other, offer the cheapest, and wait for the answer."""
    key = _key("offer")
    with flow("offer", business_key=key) as f:
        hotels = f.step(list_hotels, city)
        prices = f.map(ask_price, item, nights, over=hotels.result, after=hotels)
        best = f.step(choose_cheapest, prices.result, after=prices)
        accepted = f.wait(ACCEPTED, key=key, timeout="P1D", after=best)
        f.step(reserve_rooms, best.result["hotel"], accepted.result["by"], after=accepted)
        f.step(withdraw_offer, best.result["hotel"], after=accepted.timed_out)
    assert f.instance is not None
    return f.instance


def accept_offer(key: str, user: str) -> None:
    """The message that the flow waits for."""
    jobexec.publish_message(ACCEPTED, key=key, payload={"by": user})


def _key(kind: str) -> str:
    return f"{kind}-{uuid4().hex[:6]}"
