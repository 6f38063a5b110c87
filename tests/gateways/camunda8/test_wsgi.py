"""The REST API under WSGI, where a request that waits keeps its thread."""

import threading

import pytest
from django.db import connections

from jobexec import external_job
from jobexec.gateways import long_polling
from jobexec.gateways.rest.camunda8 import activation
from jobexec.operations.manage.gateway_clients import create_client
from tests.gateways.v2 import V2
from tests.support.waiting import TIMEOUT, until

pytestmark = pytest.mark.transactional

MINUTES = 5 * 60_000


class Asking(threading.Thread):
    """A request that is held, in a thread as a server would have it."""

    def __init__(self, authorization=None):
        super().__init__(daemon=True)
        self.v2, self.jobs = V2(authorization), None
        self.start()

    def run(self):
        try:
            self.jobs = self.v2.activate(requestTimeout=MINUTES)
        finally:
            connections.close_all()

    def answer(self):
        self.join(TIMEOUT)
        assert not self.is_alive()
        return self.jobs


def test_a_held_request_is_woken(alias, v2):
    asking = Asking()
    until(lambda: long_polling.of(alias).queue.count() == 1)
    job = external_job("pay", database=alias)
    assert [each["jobKey"] for each in asking.answer()] == [str(job.job_key)]


def test_one_more_than_may_wait_is_refused_at_once(alias, v2, settings):
    settings.JOBEXEC = {**settings.JOBEXEC, "GATEWAY_MAX_WAITERS_IN_THREADS": 1}
    asking = Asking()
    until(lambda: long_polling.of(alias).queue.count() == 1)
    v2.activate(requestTimeout=MINUTES)
    v2.refused(503, "RESOURCE_EXHAUSTED")
    assert v2.activate(requestTimeout=-1) == []  # who does not wait is served
    long_polling.close_all()
    assert asking.answer() == []


def test_one_client_does_not_take_the_places_of_all(alias, v2, settings):
    settings.JOBEXEC = {**settings.JOBEXEC, "GATEWAY_MAX_WAITERS_IN_THREADS": 2, "GATEWAY_AUTH": "required"}
    greedy, other = (f"Bearer {create_client(alias, name=name)[1]}" for name in ("greedy", "other"))
    asking = [Asking(greedy)]
    until(lambda: long_polling.of(alias).queue.count() == 1)
    more = V2(greedy)
    more.activate(requestTimeout=MINUTES)
    more.refused(503, "RESOURCE_EXHAUSTED")
    asking.append(Asking(other))
    until(lambda: long_polling.of(alias).queue.count() == 2)
    long_polling.close_all()
    assert [each.answer() for each in asking] == [[], []]


def test_jobs_whose_answer_cannot_be_built_are_given_back(alias, v2, monkeypatch):
    def fails(*args):
        raise RuntimeError("this job cannot be shown")

    external_job("pay", database=alias)
    with monkeypatch.context() as patch:
        patch.setattr(activation, "_activated", fails)
        v2.activate()
        v2.refused(500, "INTERNAL")
    until(lambda: v2.activate())


def test_closing_ends_the_wait(alias, v2):
    asking = Asking()
    until(lambda: long_polling.of(alias).queue.count() == 1)
    long_polling.close_all()
    assert asking.answer() == []


@pytest.mark.databases("sqlite")
def test_who_may_do_what(alias, v2, settings):
    settings.JOBEXEC = {**settings.JOBEXEC, "GATEWAY_AUTH": "required"}
    v2.activate()
    v2.refused(401, "UNAUTHORIZED")
    v2.call("GET", "/topology")
    v2.refused(401, "UNAUTHORIZED")
    _, secret = create_client(alias, name="payments", types=["pay"], tenants=["north"])
    client = V2(f"Bearer {secret}")
    mine = external_job("pay", tenant_id="north", database=alias)
    others = external_job("pay", tenant_id="south", database=alias)
    assert [job["jobKey"] for job in client.activate()] == [str(mine.job_key)]
    client.activate("mail")
    client.refused(403, "FORBIDDEN", "mail")
    client.activate(tenantIds=["south"])
    client.refused(403, "FORBIDDEN", "south")
    client.post(f"/jobs/{others.job_key}/completion")
    client.refused(404, "NOT_FOUND")
    client.post("/jobs/search")
    client.refused(403, "FORBIDDEN", "search")
    _, secret = create_client(alias, name="ops", tenants=["south"], permissions=["search"])
    ops = V2(f"Bearer {secret}")
    assert [item["jobKey"] for item in ops.post("/jobs/search")["items"]] == [str(others.job_key)]
    ops.call("PATCH", f"/jobs/{others.job_key}", {"changeset": {"retries": 1}})
    ops.refused(403, "FORBIDDEN", "update")
    ops.activate()
    ops.refused(403, "FORBIDDEN", "work")
