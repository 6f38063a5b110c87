"""What gateways have seen comes into the table of workers."""

import os
from datetime import timedelta

import pytest
from django.db import OperationalError, connections
from django.test.utils import CaptureQueriesContext

from jobexec import signals
from jobexec.clock import FrozenClock
from jobexec.gateways.worker_registry import writing as writing_module
from jobexec.gateways.worker_registry.workers import Registry
from jobexec.gateways.worker_registry.writing import Writing
from jobexec.models import ExternalWorker
from jobexec.operations.notify import external_observers
from jobexec.operations.reports import worker_table
from jobexec.operations.reports.worker_table import connected

ME = ("grpc", "shop", "worker-1", "payment")


@pytest.fixture(autouse=True)
def frozen():
    with FrozenClock() as clock:
        yield clock


@pytest.fixture
def seen():
    return Registry()


@pytest.fixture
def writing(seen, alias):
    return Writing(seen, alias, "host:1")


def rows(alias):
    return list(ExternalWorker.objects.using(alias).order_by("gateway", "worker", "type"))


def test_a_worker_has_a_row(alias, seen, writing, frozen):
    began = frozen.now
    with seen.streaming(*ME, ["acme"], timeout=timedelta(minutes=1)) as stream, seen.waiting(*ME, ["acme"]):
        frozen.tick(3)
        seen.activated("payment", "worker-1", 7, protocol="grpc", client="shop")
        writing.write()
        (row,) = rows(alias)
    assert (row.gateway, row.protocol, row.client, row.worker, row.type) == ("host:1", *ME)
    assert (row.tenants, row.streams, row.polls, row.activated) == (["acme"], 1, 1, 7)
    assert row.open_streams == [stream.as_dict()]
    assert (row.first_seen, row.last_seen) == (began, frozen.now)


def test_a_row_is_replaced(alias, seen, writing, frozen):
    began = frozen.now
    with seen.waiting(*ME):
        writing.write()
    frozen.tick(5)
    seen.polled(*ME)
    frozen.tick(5)
    writing.write()
    (row,) = rows(alias)
    assert row.polls == 0
    assert (row.first_seen, row.last_seen) == (began, began + timedelta(seconds=5))


def test_gateways_write_rows_of_their_own(alias, seen, writing):
    seen.polled(*ME)
    writing.write()
    Writing(seen, alias, "host:2").write()
    assert [row.gateway for row in rows(alias)] == ["host:1", "host:2"]


def test_who_does_nothing_is_not_written_again(alias, seen, writing):
    seen.polled(*ME)
    writing.write()
    with CaptureQueriesContext(connections[alias]) as captured:
        writing.write()
    assert len(captured) == 0


def test_who_waits_is_seen_all_the_time(alias, seen, writing, frozen):
    with seen.waiting(*ME):
        writing.write()
        frozen.tick(60)
        writing.write()
    assert rows(alias)[0].last_seen == frozen.now


def test_who_only_waits_is_written_every_twenty_seconds_and_who_does_something_at_once(alias, seen, writing, frozen):
    with seen.waiting(*ME), seen.waiting("grpc", "shop", "worker-2", "payment"):
        writing.write()
        began = frozen.now
        frozen.tick(15)
        seen.polled(*ME)
        writing.write()
        assert [row.last_seen for row in rows(alias)] == [began + timedelta(seconds=15), began]
        frozen.tick(5)
        writing.write()
        assert [row.last_seen for row in rows(alias)] == [began + timedelta(seconds=20)] * 2


def test_many_workers_take_few_statements(alias, seen, writing, monkeypatch):
    monkeypatch.setattr(worker_table, "_PAGE", 20)
    for number in range(50):
        seen.polled("rest", "", f"worker {number:02}", "t")
    with CaptureQueriesContext(connections[alias]) as captured:
        writing.write()
    assert len([query for query in captured if "INSERT" in query["sql"]]) == 3
    assert len(rows(alias)) == 50


def test_names_are_told_apart_exactly(alias, seen, writing):
    for worker in ("a", "A", "ä", "a'"):
        seen.polled("rest", "", worker, "t")
    writing.write()
    assert {row.worker for row in rows(alias)} == {"a", "A", "ä", "a'"}


def test_what_cannot_be_written_keeps_nobody_else_from_it(alias, seen, writing):
    """Names are a client's own."""
    odd = "a\0\ud800b"
    seen.polled("grpc", odd, odd, odd, [odd])
    seen.polled("rest", "shop", "w" * 1000, "pay", [str(number) * 1000 for number in range(1000)])
    with seen.streaming("grpc", "shop", "worker", "pay", [odd], variables=[odd] * 1000):
        seen.polled(*ME)
        writing.write()
    found = {row.worker: row for row in rows(alias)}
    assert set(found) == {"a?b", "w" * 200, "worker", "worker-1"}
    assert found["a?b"].tenants == ["a?b"]
    assert (len(found["w" * 200].tenants), max(map(len, found["w" * 200].tenants))) == (100, 255)
    assert found["worker"].open_streams[0]["fetchVariables"] == ["a?b"] * 100


def test_old_rows_are_removed(alias, seen, writing, frozen):
    seen.polled("rest", "", "old", "t")
    writing.run_once()
    frozen.tick(timedelta(days=1, seconds=1))
    seen.polled("rest", "", "new", "t")
    writing.run_once()
    assert [row.worker for row in rows(alias)] == ["new"]
    assert [sight.key.worker for sight in seen.sights()] == ["new"]


def test_nobody_waits_at_a_gateway_that_was_killed(alias, seen, frozen):
    with seen.waiting(*ME):
        Writing(seen, alias, "killed").write()
    other = Registry()
    with other.waiting(*ME):
        frozen.tick(61)
        Writing(other, alias, "lives").run_once()
    assert [(row.gateway, row.polls) for row in rows(alias)] == [("killed", 0), ("lives", 1)]


def test_a_gateway_that_ends_says_so(alias, seen, writing):
    with seen.streaming(*ME), seen.waiting(*ME):
        writing.write()
        writing.leave()
    (row,) = rows(alias)
    assert (row.streams, row.polls, row.open_streams) == (0, 0, [])


def test_without_the_database_nothing_is_lost(alias, seen, writing, monkeypatch):
    def away(*args):
        raise OperationalError("away")

    seen.activated("payment", "worker-1", 2, protocol="grpc", client="shop")
    with monkeypatch.context() as broken:
        broken.setattr(writing_module, "write_workers", away)
        with pytest.raises(OperationalError):
            writing.write()
    writing.write()
    assert rows(alias)[0].activated == 2


def test_who_is_connected(alias, seen, writing, frozen):
    with seen.streaming("grpc", "", "a", "t"), seen.waiting("grpc", "", "b", "t"):
        seen.polled("rest", "", "gone", "t")
        frozen.tick(61)
        seen.polled("rest", "", "c", "t")
        writing.write()
        assert connected(alias) == [("grpc", 2, 1, 1), ("rest", 1, 0, 0)]


@pytest.fixture
def started(monkeypatch):
    """The gateways of this process whose thread would have started; the first sight of a worker is enough."""
    names = []
    monkeypatch.setattr(writing_module, "starts_by_itself", True)
    monkeypatch.setattr(writing_module, "_writing", None)
    monkeypatch.setattr(Writing, "start", lambda self: names.append(self.gateway))
    monkeypatch.setattr(Writing, "leave", lambda self: None)
    yield names
    writing_module.stop()


def test_the_thread_starts_with_the_first_sight(started):
    own = Registry(writing_module._on_use)
    assert started == []
    own.polled(*ME)
    own.polled(*ME)
    assert started == [writing_module.gateway_name()]


def listening():
    """How many listen to what becomes of external jobs."""
    told = (signals.job_created, signals.job_cancelled, signals.job_failed, signals.job_dead_lettered)
    return sum(len(signal.receivers) for signal in told) + len(external_observers._listeners)


def test_a_gateway_that_has_ended_counts_nothing_more(started):
    before = listening()
    writing_module.start()
    assert listening() > before
    writing_module.stop()
    assert listening() == before


@pytest.mark.skipif(not hasattr(os, "register_at_fork"), reason="this system has no fork")
def test_a_child_begins_anew(monkeypatch):
    monkeypatch.setattr(writing_module, "_writing", object())
    writing_module.registry.polled(*ME)
    with writing_module.registry._lock:  # a thread of the parent, which the child does not have, holds it
        writing_module._after_fork()
        assert writing_module.registry.sights() == []
    assert writing_module._writing is None
