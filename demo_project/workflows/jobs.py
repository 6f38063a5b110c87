"""What the processes call. jobexec finds this module by its name; the files in `processes/` name the functions."""

import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from django.conf import settings

from jobexec import DoNotRetry, job
from jobexec.processes import service_task
from jobexec.processes.handlers.context import TaskContext

# Travel: each of the three is a job, for the file says asyncBefore, and the services are far away, so the file puts
# them outside of the step: no transaction and no lock is held meanwhile. Their results are variables.


@service_task("travel.hotel")
def book_hotel(context: TaskContext) -> dict[str, Any]:
    return {"hotel": _booked(context)}


@service_task("travel.flight")
def book_flight(context: TaskContext) -> dict[str, Any]:
    return {"flight": _booked(context)}


@service_task("travel.concert")
def book_concert_tickets(context: TaskContext) -> dict[str, Any]:
    return {"concert": _booked(context)}


# Runs in the step of the last of the three: at the join nobody fails and nobody comes twice.
@service_task("travel.bill")
def write_bill(context: TaskContext) -> dict[str, Any]:
    return {"bill": sum(len(calls(context.instance_id, each)) for each in ("hotel", "flight", "concert"))}


def _booked(context: TaskContext) -> dict[str, str]:
    """Takes a while, and keeps a record outside of the database, which no rollback would remove."""
    begin = datetime.now(UTC)
    path = _calls_of(context.instance_id, context.element_id)
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a", encoding="utf-8") as file:
        file.write(f"{begin.isoformat()}\n")
    time.sleep(settings.TRAVEL_SERVICE_TAKES)
    return {"from": begin.isoformat(), "to": datetime.now(UTC).isoformat()}


def calls(instance: Any, element: str) -> list[str]:
    """When the service of an element has been called, one entry for each call."""
    path = _calls_of(instance, element)
    return path.read_text(encoding="utf-8").splitlines() if path.exists() else []


def _calls_of(instance: Any, element: str) -> Path:
    return Path(settings.MEDIA_ROOT) / "travel" / f"{instance}-{element}.txt"


# Approval: a job with R5/PT5M. A bank that is closed would be asked again; an account that does not exist would not.
@service_task("approval.transfer")
def transfer(context: TaskContext) -> dict[str, Any]:
    account = context.variables["account"]
    if not account.startswith("NL"):
        raise DoNotRetry(f"There is no account {account}. Set the variable account, then requeue.")
    return {"transferred": f"{context.variables['amount']} to {account}"}


# Offer: the steps of a flow are ordinary jobs.

HOTELS = ("Excelsior", "Bellevue", "Station Hotel", "Miramar")


@job(category="default")
def list_hotels(city: str) -> list[str]:
    return [f"{hotel} {city}" for hotel in HOTELS]


@job(retries="R3/PT2S")
def ask_price(hotel: str, nights: int) -> dict[str, Any]:
    return {"hotel": hotel, "price": nights * (60 + 7 * len(hotel))}


@job
def choose_cheapest(prices: list[dict[str, Any]]) -> dict[str, Any]:
    return min(prices, key=lambda each: each["price"])


@job
def reserve_rooms(hotel: str, accepted_by: str) -> str:
    return f"{hotel}, accepted by {accepted_by}"


@job
def withdraw_offer(hotel: str) -> str:
    return f"{hotel} was not booked"
