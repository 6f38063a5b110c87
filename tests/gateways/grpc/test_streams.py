"""StreamActivatedJobs: the backlog and what comes later, shared out, and given back when nobody takes it."""

import time

import grpc
import pytest

from jobexec.gateways import auth, long_polling, worker_registry
from jobexec.gateways.auth import credential_cache
from jobexec.gateways.grpc import stream_dispatch, streams
from jobexec.models import GatewayClient
from jobexec.operations.manage.gateway_clients import create_client
from tests.gateways.grpc.bed import Streamed
from tests.support.waiting import until

pytestmark = pytest.mark.transactional
Code = grpc.StatusCode


def keys_of(jobs):
    return [job.job_key for job in jobs]


def test_a_stream_brings_the_backlog_and_then_what_comes(gateway):
    backlog = gateway.make_many("payment", [{"n": number} for number in range(50)])
    stream = Streamed(gateway.client.stream("payment"))
    until(lambda: len(stream.jobs) == 50)
    later = gateway.make("payment")
    gateway.make("other")
    until(lambda: len(stream.jobs) == 51)
    assert [job.key for job in stream.jobs] == [*keys_of(backlog), later.job_key]
    assert gateway.rows(handler_type="other").get().lock_owner is None


@pytest.mark.databases("sqlite")
def test_a_stream_does_not_fall_silent(gateway, monkeypatch):
    """Whatever goes wrong on the way to its jobs."""
    failures = []

    def failing(self, *arguments, **named):
        if not failures:
            failures.append(1)
            raise RuntimeError("can't start new thread")
        return waiting(self, *arguments, **named)

    waiting = long_polling.Hub.waiting
    monkeypatch.setattr(long_polling.Hub, "waiting", failing)
    monkeypatch.setattr(stream_dispatch, "_PAUSE", 0.01)
    job = gateway.make("payment")
    stream = Streamed(gateway.client.stream("payment"))
    until(lambda: len(stream.jobs) == 1)
    assert (stream.jobs[0].key, failures) == (job.job_key, [1])


@pytest.mark.databases("sqlite")
def test_what_is_urgent_comes_before_an_older_backlog(gateway):
    low = gateway.make("payment")
    high = gateway.make("payment", priority=9)
    stream = Streamed(gateway.client.stream("payment"))
    until(lambda: len(stream.jobs) == 2)
    assert [job.key for job in stream.jobs] == [high.job_key, low.job_key]


@pytest.mark.databases("sqlite", "postgresql")
def test_streams_that_want_the_same_share_it_and_each_job_comes_once(gateway):
    both = [Streamed(gateway.another().stream("payment")) for _ in range(2)]
    until(lambda: gateway.gateway.service.open == 2)
    made = gateway.make_many("payment", [{}] * 60)
    until(lambda: sum(len(each.jobs) for each in both) == 60)
    assert sorted(job.key for each in both for job in each.jobs) == sorted(keys_of(made))
    assert all(len(each.jobs) >= 10 for each in both)
    assert len(gateway.gateway.service._feeds._feeds) == 1


@pytest.mark.gate
@pytest.mark.databases("sqlite")
def test_a_poll_beside_a_stream_loses_nothing(gateway):
    stream = Streamed(gateway.client.stream("payment"))
    until(lambda: gateway.gateway.service.open == 1)
    made, polled = [], []
    for _ in range(10):
        made += gateway.make_many("payment", [{}] * 5)
        polled += gateway.client.activate("payment", 2)
    until(lambda: len(stream.jobs) + len(polled) == 50)
    assert sorted(job.key for job in [*stream.jobs, *polled]) == sorted(keys_of(made))


def test_after_its_client_has_gone_jobs_are_for_others(gateway):
    gone = gateway.client.stream("payment")
    until(lambda: gateway.gateway.service.open == 1)
    gone.cancel()
    until(lambda: gateway.gateway.service.open == 0)
    made = gateway.make("payment")
    got = []
    # Its last look may have been on its way, and gives the job back.
    until(lambda: got.extend(gateway.client.activate("payment")) or got)
    assert [job.key for job in got] == [made.job_key]
    assert gateway.row(made.job_key).attempts == 1


@pytest.mark.gate
@pytest.mark.databases("sqlite", "postgresql")
def test_what_a_client_does_not_take_goes_to_another(gateway, monkeypatch):
    monkeypatch.setattr(streams, "SLOW", 0.1)
    made = gateway.make_many("payment", [{"text": "x" * 500_000}] * 30)
    before = worker_registry.registry.counts().push_failures["BLOCKED"]
    slow = gateway.another().stream("payment", worker="slow")  # nobody reads it
    until(lambda: worker_registry.registry.counts().push_failures["BLOCKED"] > before)
    reader = Streamed(gateway.another().stream("payment", worker="reader"))
    until(lambda: len(reader.jobs) >= 5)
    slow.cancel()
    # Those that it had accepted are its own until their deadline, the one in between is given back.
    accepted = gateway.rows(lock_owner="slow").values_list("job_key", flat=True)
    until(lambda: {job.key for job in reader.jobs} | set(accepted.all()) == set(keys_of(made)))
    assert len({job.key for job in reader.jobs}) == len(reader.jobs)


@pytest.mark.databases("sqlite")
def test_a_stream_ends_with_ok_before_the_deadline_that_its_client_takes_for_an_error(gateway, monkeypatch):
    monkeypatch.setattr(streams, "_BEFORE_THE_END", 59.7)
    began = time.monotonic()
    stream = Streamed(gateway.client.stream("payment", deadline=60))
    assert stream.ended() == Code.OK
    assert time.monotonic() - began < 30


@pytest.mark.databases("sqlite")
def test_an_old_stream_ends_with_ok(gateway, monkeypatch):
    monkeypatch.setattr(streams, "_AGE", 0.1)
    assert Streamed(gateway.client.stream("payment")).ended() == Code.OK


@pytest.mark.databases("sqlite")
def test_at_the_end_streams_end_with_ok(gateway):
    stream = Streamed(gateway.client.stream("payment"))
    until(lambda: gateway.gateway.service.open == 1)
    gateway.gateway.stop()
    assert stream.ended() == Code.OK


@pytest.mark.databases("sqlite")
def test_streams_are_seen(gateway):
    call = gateway.client.stream("payment", worker="seen-worker", fetchVariable=["a"])
    until(
        lambda: [
            each for each in worker_registry.registry.sights() if each.streams and each.key.worker == "seen-worker"
        ]
    )
    call.cancel()
    until(
        lambda: (
            not [
                each for each in worker_registry.registry.sights() if each.streams and each.key.worker == "seen-worker"
            ]
        )
    )


@pytest.mark.databases("postgresql")
def test_a_client_that_may_no_longer_work_is_cut(gateway, monkeypatch, settings):
    monkeypatch.setattr(streams, "LOOK", 0.05)
    monkeypatch.setattr(credential_cache, "SECONDS", 0)
    settings.JOBEXEC = {**settings.JOBEXEC, "GATEWAY_AUTH": "required", "GATEWAY_DATABASE": gateway.alias}
    auth.forget()
    _, secret = create_client(gateway.alias, name="shop")
    stream = Streamed(gateway.another(metadata=(("authorization", f"Bearer {secret}"),)).stream("payment"))
    gateway.waiting(1)
    GatewayClient.objects.using(gateway.alias).update(enabled=False)
    assert stream.ended() == Code.OK  # its client opens another, and is told then
