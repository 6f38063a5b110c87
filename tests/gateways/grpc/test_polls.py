"""ActivateJobs waits for jobs, is woken, and swallows none."""

import asyncio
import threading
import time
from concurrent.futures import CancelledError
from types import SimpleNamespace

import grpc
import pytest
from django.db import OperationalError

from jobexec.gateways import auth, long_polling
from jobexec.gateways.grpc import call_context, polls
from jobexec.gateways.long_polling import watch
from jobexec.gateways.long_polling.async_places import AsyncPlace
from jobexec.operations import external
from jobexec.runtime import database_threads
from tests.support.waiting import TIMEOUT, passed, until

pytestmark = pytest.mark.transactional
Code = grpc.StatusCode


class Waiting:
    """A poll that is read in a thread."""

    def __init__(self, call):
        self.call, self.jobs, self.code = call, [], None
        self.thread = threading.Thread(target=self._read, daemon=True)
        self.thread.start()

    def _read(self):
        try:
            self.jobs = [job for answer in self.call for job in answer.jobs]
            self.code = Code.OK
        except grpc.RpcError as error:
            self.code = error.code()

    def ended(self):
        until(lambda: self.code is not None)
        return self


@pytest.mark.databases("sqlite")
@pytest.mark.parametrize("keys", [{"GATEWAY_LONG_POLL_TIME": 50}])
def test_without_a_job_the_answer_is_nothing_and_ok_when_the_time_is_over(gateway):
    began = time.monotonic()
    waited = Waiting(gateway.client.poll("payment", wait=300)).ended()
    assert (waited.code, waited.jobs) == (Code.OK, [])
    assert time.monotonic() - began >= 0.3


@pytest.mark.databases("sqlite")
def test_who_has_waited_in_vain_looks_no_more(gateway, monkeypatch):
    async def over(self, end):
        return False

    looks, activate = [], external.activate_jobs
    monkeypatch.setattr(AsyncPlace, "wait", over)
    monkeypatch.setattr(external, "activate_jobs", lambda *args: looks.append(args) or activate(*args))
    waited = Waiting(gateway.client.poll("payment", wait=300)).ended()
    assert (waited.code, waited.jobs, len(looks)) == (Code.OK, [], 1)


@pytest.mark.databases("sqlite")
def test_who_does_not_want_to_wait_is_answered_at_once(gateway, monkeypatch):
    async def waits(self, waiting):
        waiting.close()
        raise AssertionError("It waits.")

    monkeypatch.setattr(call_context.CallContext, "unless_stopping", waits)
    waited = Waiting(gateway.client.poll("payment", wait=-1)).ended()
    assert (waited.code, waited.jobs) == (Code.OK, [])


@pytest.mark.gate
@pytest.mark.databases("sqlite")
@pytest.mark.parametrize("keys", [{"GATEWAY_LONG_POLL_TIME": 0.4}])
def test_a_request_timeout_of_0_is_the_time_of_the_settings(gateway):
    began = time.monotonic()
    waited = Waiting(gateway.client.poll("payment", wait=0)).ended()
    assert waited.code == Code.OK
    assert time.monotonic() - began >= 0.4


@pytest.mark.gate
@pytest.mark.databases("sqlite")
def test_a_client_that_gives_up_earlier_than_it_says_is_answered_before(gateway, monkeypatch):
    monkeypatch.setattr(polls, "_BEFORE_THE_END", 29.5)
    waited = Waiting(gateway.client.poll("payment", wait=60_000, deadline=30)).ended()
    assert (waited.code, waited.jobs) == (Code.OK, [])


def test_a_job_wakes_who_waits_within_a_moment(gateway, monkeypatch):
    monkeypatch.setattr(watch, "PROBE", 600.0)
    waiting = Waiting(gateway.client.poll("payment", most=5, wait=55_000, deadline=60))
    gateway.waiting(1)
    gateway.make("other")
    made = gateway.make("payment")
    before = time.monotonic()
    assert [job.key for job in waiting.ended().jobs] == [made.job_key]
    assert time.monotonic() - before < 20  # in a moment; how long exactly is measured with real clients


@pytest.mark.gate
def test_each_of_many_who_wait_gets_its_job(gateway):
    waiting = [Waiting(gateway.client.poll("payment", wait=30_000, deadline=60)) for _ in range(10)]
    gateway.waiting(10)
    made = gateway.make_many("payment", [{"n": number} for number in range(10)])
    got = [job.key for each in waiting for job in each.ended().jobs]
    assert sorted(got) == sorted(job.job_key for job in made)


def test_a_client_that_has_gone_gets_nothing(gateway):
    gone = gateway.client.poll("payment", wait=30_000, deadline=60)
    other = Waiting(gateway.another().poll("payment", wait=30_000, deadline=60))
    gateway.waiting(2)
    gone.cancel()
    until(lambda: gateway.gateway.service.open == 1)
    made = gateway.make("payment")
    assert [job.key for job in other.ended().jobs] == [made.job_key]
    assert gateway.row(made.job_key).attempts == 1


def _all_wait(hub, number):
    """Wait until so many have looked for jobs and wait to be woken."""
    until(lambda: len(places := hub.queue._places()) == number and all(map(_waits, places)))


def _waits(place):
    return bool(place._event._waiters) and not place.owed


@pytest.mark.databases("postgresql")
@pytest.mark.parametrize("streams", [False, True])
def test_a_client_that_goes_while_it_is_verified_again_passes_its_word_on(gateway, monkeypatch, streams):
    for probe in ("PROBE", "PROBE_WHEN_DEAF"):
        monkeypatch.setattr(watch, probe, 600.0)
    lets_in, inside, slow = call_context.CallContext.lets_in, threading.Event(), threading.Event()

    async def verify(self, *args):
        if slow.is_set() and not inside.is_set():
            inside.set()
            await asyncio.Event().wait()
        return await lets_in(self, *args)

    monkeypatch.setattr(call_context.CallContext, "lets_in", verify)
    hub, client, long = long_polling.of(gateway.alias), gateway.client, {"wait": 300_000, "deadline": 300}
    gone = client.stream("payment") if streams else client.poll("payment", **long)
    reading = Waiting(gone)
    # It has begun to listen, which wakes the only one that waits, and has probed after that.
    until(lambda: hub._watch is not None and hub._watch._source.listening and hub._watch._probed_at > 0)
    _all_wait(hub, 1)
    other = Waiting(gateway.another().poll("payment", **long))
    _all_wait(hub, 2)
    slow.set()
    made = gateway.make("payment")
    passed(inside)
    gone.cancel()
    assert [job.key for job in other.ended().jobs] == [made.job_key]
    assert reading.ended().code is Code.CANCELLED


def test_a_client_that_goes_while_its_jobs_are_fetched_gets_nothing(gateway, monkeypatch):
    inside, go = threading.Event(), threading.Event()
    fetch = external.activate_jobs

    def slow(using, asked):
        inside.set()
        passed(go)
        return fetch(using, asked)

    monkeypatch.setattr(external, "activate_jobs", slow)
    made = gateway.make("payment")
    call = gateway.client.poll("payment", wait=30_000, deadline=60)
    passed(inside)
    call.cancel()
    until(lambda: gateway.gateway.service.open == 0)
    go.set()
    monkeypatch.setattr(external, "activate_jobs", fetch)
    (got,) = gateway.another().activate("payment", wait=50_000)  # at first it may still be locked
    assert got.key == made.job_key
    assert gateway.row(made.job_key).attempts == 1


def test_jobs_that_were_fetched_for_a_client_that_has_gone_are_given_back(gateway, monkeypatch):
    inside, go = threading.Event(), threading.Event()
    fetch = call_context._fetch

    def slow(using, asked):
        jobs = fetch(using, asked)
        inside.set()
        passed(go)
        return jobs

    monkeypatch.setattr(call_context, "_fetch", slow)
    made = gateway.make("payment")
    call = gateway.client.poll("payment", wait=30_000, deadline=60)
    passed(inside)
    assert gateway.held() == 1
    call.cancel()
    until(lambda: gateway.gateway.service.open == 0)
    go.set()
    until(lambda: gateway.held() == 0)
    row = gateway.row(made.job_key)
    assert (row.attempts, row.lock_owner) == (0, None)


@pytest.mark.databases("sqlite")
def test_what_could_not_be_written_is_given_back(gateway, monkeypatch):
    monkeypatch.setattr(polls, "split", lambda parcels: ([each] for each in parcels))
    sent = []

    async def write(answer):
        if sent:
            raise RuntimeError("the client has gone")
        sent.append(answer)

    def context():
        return SimpleNamespace(
            write=write, invocation_metadata=tuple, auth_context=dict, time_remaining=lambda: None, peer=str
        )

    first, second, third = (gateway.make("payment") for _ in range(3))
    request = polls.pb.ActivateJobsRequest(type="payment", worker="w", timeout=600_000, maxJobsToActivate=3)
    work = gateway.gateway.service._polls.activate(request, context(), auth.ANYBODY)
    future = asyncio.run_coroutine_threadsafe(work, gateway.gateway._loop)
    with pytest.raises(CancelledError):
        future.result(TIMEOUT)
    until(lambda: gateway.held() == 1)
    assert gateway.row(first.job_key).lock_owner == "w"
    assert [job.key for job in gateway.client.activate("payment", 5)] == [second.job_key, third.job_key]


@pytest.mark.gate
@pytest.mark.databases("sqlite")
def test_large_jobs_come_in_several_messages_that_every_client_takes(gateway):
    made = gateway.make_many("payment", [{"text": "x" * 1_900_000}] * 5)
    answers = list(gateway.client.poll("payment", most=5))
    assert [len(answer.jobs) for answer in answers] == [2, 2, 1]
    assert [job.key for answer in answers for job in answer.jobs] == [job.job_key for job in made]


@pytest.mark.gate
@pytest.mark.databases("sqlite")
def test_while_the_database_is_away_who_waits_waits(gateway, monkeypatch):
    fetch, failures = external.activate_jobs, []

    def away(using, asked):
        if not failures:
            failures.append(1)
            raise OperationalError("the server closed the connection unexpectedly")
        return fetch(using, asked)

    monkeypatch.setattr(external, "activate_jobs", away)
    made = gateway.make("payment")
    (got,) = gateway.client.activate("payment", wait=50_000)
    assert got.key == made.job_key


@pytest.mark.databases("sqlite")
def test_who_does_not_wait_is_told_to_try_again_later(gateway, monkeypatch):
    def away(using, *args, **kwargs):
        raise OperationalError("the server closed the connection unexpectedly")

    for name in ("activate_jobs", "complete_external_job"):
        monkeypatch.setattr(external, name, away)
    with pytest.raises(grpc.RpcError) as caught:
        gateway.client.activate("payment")
    assert caught.value.code() == Code.RESOURCE_EXHAUSTED
    assert "connection" not in caught.value.details()
    with pytest.raises(grpc.RpcError) as caught:
        gateway.client.CompleteJob(jobKey=1)
    assert caught.value.code() == Code.RESOURCE_EXHAUSTED


@pytest.mark.databases("sqlite")
def test_an_overload_is_over_when_it_is_over(gateway, monkeypatch):
    gateway.make("payment")
    with monkeypatch.context() as patch:
        patch.setattr(database_threads, "LONGEST_LINE", 0)
        with pytest.raises(grpc.RpcError) as caught:
            gateway.client.activate("payment", wait=1000)
        assert caught.value.code() == Code.RESOURCE_EXHAUSTED
    assert len(gateway.client.activate("payment", wait=1000)) == 1


@pytest.mark.databases("sqlite")
@pytest.mark.parametrize("options", [{"max_streams": 1}])
def test_only_so_many_wait_at_a_time(gateway):
    first = Waiting(gateway.client.poll("payment", wait=30_000, deadline=60))
    gateway.waiting(1)
    with pytest.raises(grpc.RpcError) as caught:
        gateway.client.activate("other", wait=1000)
    assert caught.value.code() == Code.RESOURCE_EXHAUSTED
    gateway.make("payment")
    assert len(first.ended().jobs) == 1
    assert gateway.client.activate("other", wait=50) == []


@pytest.mark.databases("sqlite")
def test_at_the_end_who_waits_is_answered_with_nothing_and_ok(gateway):
    waiting = [Waiting(gateway.client.poll("payment", wait=60_000, deadline=90)) for _ in range(3)]
    gateway.waiting(3)
    gateway.gateway.stop()
    assert [(each.ended().code, each.jobs) for each in waiting] == [(Code.OK, [])] * 3
