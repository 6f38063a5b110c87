"""The processes of the shop in the pictures: orders of a BPMN file, and a flow."""

from __future__ import annotations

import random
from datetime import timedelta
from pathlib import Path
from typing import Any

from jobexec import clock, job
from jobexec.models import ExternalWorkerJob
from jobexec.operations.external.settle import complete_external_job
from jobexec.processes import claim, complete, correlate, deploy, flow, service_task, start
from jobexec.processes.models import ProcessDefinition, ProcessInstance, UserTask
from jobexec.processes.operations.suspend import suspend as suspend_instance
from jobexec.testing import ManualExecutor, controlled_clock

FILE = Path(__file__).parent / "examples" / "order.bpmn"
_FAILING: set[str] = {"order-4715"}


class WarehouseTimeout(Exception):
    pass


@service_task("warehouse.reserve")
def reserve(context: Any) -> None:
    if context.business_key in _FAILING:
        raise WarehouseTimeout("the warehouse does not answer")


@job(name="shop.jobs.read_catalogue")
def read_catalogue(url: str) -> list[str]:
    return ["shoes", "hats", "coats"]


@job(name="shop.jobs.import_rows")
def import_rows(part: str) -> int:
    if part == "hats":
        raise ValueError("line 311: the price is not a number")
    return len(part)


@job(name="shop.jobs.tell_the_search")
def tell_the_search(rows: list[int]) -> None: ...


def fill() -> dict[str, Any]:
    """Start and drive instances over some hours; returns the rows with a page of their own."""
    dice, now = random.Random(7), clock.now()
    run = ManualExecutor("default", reraise=False).run_until_empty
    with controlled_clock(now - timedelta(hours=14)) as time:
        deploy(FILE, user="maria")
        for number in range(4700, 4716):
            _order(number, dice)
            run()
            time.advance(timedelta(minutes=dice.randint(1, 4)))
            run()  # the retry
            _work(number, dice, time)
            run()
            time.advance(timedelta(minutes=dice.randint(3, 20)))
            _ship(number)
            run()
        time.move_to(now - timedelta(minutes=9))
        with flow("catalogue", business_key="spring") as catalogue:
            read = catalogue.step(read_catalogue, "https://supplier.example/spring.csv", name="read")
            rows = catalogue.map(import_rows, over=read.result, after=read, name="rows")
            catalogue.wait("released", key="spring", timeout="P1D", after=read, name="release")
            catalogue.step(tell_the_search, rows.result, after=rows, name="index")
        for _ in range(3):
            run()
            time.advance(timedelta(minutes=2))
    order = ProcessInstance.objects.get(business_key="order-4715")
    suspended = ProcessInstance.objects.get(business_key="order-4714")
    suspend_instance(suspended.pk, until=now + timedelta(days=3))
    task = UserTask.objects.get(instance_id=order.pk, element_id="approve")
    definition = ProcessDefinition.objects.get(key="order")
    imported = ProcessInstance.objects.get(business_key="spring")
    return {
        "processdefinition": definition,
        "processinstance": order,
        "usertask": task,
        "flow": imported,
        "suspended": suspended,
        "ended": ProcessInstance.objects.filter(definition_key="order", end_time__isnull=False).latest("pk"),
    }


def _order(number: int, dice: random.Random) -> None:
    amount = dice.choice((40, 120, 700, 2400))
    start("order", business_key=f"order-{number}", variables={"amount": amount, "customer": "globex"}, user="shop")


def _ship(number: int) -> None:
    """The workers of the carrier are on strike since order 4710; and parts are carried by people."""
    instance = ProcessInstance.objects.get(business_key=f"order-{number}")
    parcel = ExternalWorkerJob.objects.filter(process_instance_id=str(instance.pk)).first()
    if parcel is not None and parcel.job_key is not None and number < 4710:
        complete_external_job("default", parcel.job_key, {"parcel": f"P-{number}"})
    if (task := UserTask.objects.filter(root_id=instance.pk, element_id="carry").first()) and number < 4708:
        complete(task, user="maria")


def _work(number: int, dice: random.Random, time: Any) -> None:
    """People, customers and workers do their part; of some orders not all."""
    instance = ProcessInstance.objects.get(business_key=f"order-{number}")
    task = UserTask.objects.get(instance_id=instance.pk, element_id="approve")
    if number >= 4713:
        if number == 4714:
            claim(task, "maria")
        return
    time.advance(timedelta(minutes=dice.randint(2, 30)))
    complete(task, {"approved": True, "comment": "fine", "way": "road"}, user="maria")
    if number % 5:
        time.advance(timedelta(minutes=dice.randint(1, 50)))
        correlate("paid", instance=instance.pk, variables={"paid": True})
