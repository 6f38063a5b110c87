"""The worker of the demo's orders: a program that knows nothing of Django, only the REST API of Camunda 8.

    DEMO_WORKER=name:secret python -m demo_project.worker --gateway http://127.0.0.1:8000/camunda

It takes the payment, fetches the items and ships the parcel. A front-row seat is always out of stock, and what costs
more than a thousand is paid later, by a bank transfer of which somebody else tells.
"""

import argparse
import base64
import json
import os
import time
from collections.abc import Callable
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.request import Request, urlopen

Variables = dict[str, Any]
PAID_AT_ONCE = 1000
SOLD_OUT = "front-row seat"
TURN = 0.5  # seconds between two looks at an empty queue


class OutOfStock(Exception):
    """The error of the business that the process catches."""


class Worker:
    """Polls the three types of jobs in turn."""

    def __init__(self, gateway: str, credentials: str, takes: float) -> None:
        self._gateway, self._takes = gateway, takes
        self._headers = {
            "Authorization": f"Basic {base64.b64encode(credentials.encode()).decode()}",
            "Content-Type": "application/json",
        }
        self._tasks: dict[str, Callable[[Variables], Variables]] = {
            "process-payment": self._pay,
            "fetch-items": self._fetch,
            "ship-parcel": self._ship,
        }

    def run(self) -> None:
        while True:
            if not sum(self._round(type) for type in self._tasks):
                time.sleep(TURN)

    def _round(self, type: str) -> int:
        """Work on the jobs of a type; returns how many there were. The gateway may be away for a while."""
        request = {"type": type, "worker": "demo", "timeout": 30_000, "maxJobsToActivate": 5, "requestTimeout": -1}
        try:
            jobs = self._call("jobs/activation", request)["jobs"]
            for job in jobs:
                self._work(job)
        except HTTPError as error:
            if error.code < 500:
                raise  # not allowed, or not understood: nothing that time would mend
            return 0
        except (URLError, OSError):
            return 0
        return len(jobs)

    def _work(self, job: dict[str, Any]) -> None:
        key = job["jobKey"]
        time.sleep(self._takes)
        try:
            result = self._tasks[job["type"]](job["variables"])
        except OutOfStock as error:
            self._call(f"jobs/{key}/error", {"errorCode": "OUT_OF_STOCK", "errorMessage": str(error)})
        else:
            self._call(f"jobs/{key}/completion", {"variables": result})

    def _pay(self, variables: Variables) -> Variables:
        if variables["amount"] <= PAID_AT_ONCE:  # before the job is completed: the message waits for its process
            message = {"name": "payment-received", "correlationKey": variables["order"], "timeToLive": 3_600_000}
            self._call("messages/publication", message | {"variables": {"paid_by": "card"}})
        return {"receipt": f"R-{variables['order']}"}

    def _fetch(self, variables: Variables) -> Variables:
        if variables["item"] == SOLD_OUT:
            raise OutOfStock(f"{SOLD_OUT}: none is left")
        return {"shelf": len(variables["item"])}

    def _ship(self, variables: Variables) -> Variables:
        return {"parcel": f"P-{variables['order']}"}

    def _call(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        request = Request(f"{self._gateway}/v2/{path}", json.dumps(body).encode(), self._headers)
        try:
            with urlopen(request, timeout=20) as answer:
                return dict(json.loads(answer.read() or b"{}"))
        except HTTPError as error:
            if error.code == 404 and path.startswith("jobs/"):  # another worker was faster, or it was cancelled
                return {}
            raise


def main() -> None:
    parser = argparse.ArgumentParser(description="Work on the orders of the demo, over the REST gateway.")
    parser.add_argument("--gateway", required=True)
    parser.add_argument("--takes", type=float, default=0.3, help="seconds that each piece of work takes")
    options = parser.parse_args()
    print(f"Works for {options.gateway}", flush=True)
    Worker(options.gateway, os.environ["DEMO_WORKER"], options.takes).run()


if __name__ == "__main__":
    main()
