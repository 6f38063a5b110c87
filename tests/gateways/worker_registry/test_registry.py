"""Who polls, waits and streams, in memory."""

import threading
from datetime import timedelta

import pytest

from jobexec.clock import FrozenClock
from jobexec.gateways.worker_registry import workers as workers_module
from jobexec.gateways.worker_registry.counts import OTHERS, Counts
from jobexec.gateways.worker_registry.workers import Registry

ME = ("grpc", "shop", "worker-1", "payment")


@pytest.fixture
def seen():
    return Registry()


def only(seen):
    (sight,) = seen.sights()
    return sight


def test_a_poll_is_seen_and_counted(seen):
    with FrozenClock() as clock:
        seen.polled(*ME, tenants=["acme"])
        clock.tick(5)
        seen.polled(*ME, tenants=["acme"])
        sight = only(seen)
        assert (sight.last_seen, sight.last_seen - sight.first_seen) == (clock.monotonic, 5)
    assert tuple(sight.key) == ME
    assert sight.tenants == ("acme",)
    assert (sight.polls, sight.streams, sight.activated) == (0, {}, 0)
    assert seen.counts().polls == {"grpc": 2}


def test_a_poll_that_waits_is_there_until_it_ends(seen):
    with seen.waiting(*ME), seen.waiting(*ME):
        assert only(seen).polls == 2
        assert only(seen).present
    assert only(seen).polls == 0
    assert not only(seen).present


def test_a_wait_that_breaks_off_is_over(seen):
    with pytest.raises(RuntimeError), seen.waiting(*ME):
        raise RuntimeError
    assert only(seen).polls == 0


def test_a_stream_is_there_until_it_ends(seen):
    with seen.streaming(*ME, ["acme"], timeout=timedelta(seconds=90), variables=["a", "b"]) as stream:
        assert only(seen).streams == {stream.id: stream}
        assert stream.as_dict() == {
            "id": stream.id,
            "timeout": "PT90S",
            "fetchVariables": ["a", "b"],
            "tenantIds": ["acme"],
            "tenantFilter": "PROVIDED",
        }
    assert only(seen).streams == {}


def test_jobs_that_are_given_out(seen):
    seen.polled(*ME)
    seen.activated("payment", "worker-1", 3, protocol="grpc", client="shop")
    seen.activated("payment", "worker-1", 0, protocol="grpc", client="shop")
    assert only(seen).activated == 3
    assert seen.counts().events == {("activated", "payment"): 3}


def test_what_becomes_of_jobs(seen):
    seen.finished("completed", "payment")
    seen.finished("completed", "payment", 2)
    seen.finished("failed", "mail")
    assert seen.counts().events == {("completed", "payment"): 3, ("failed", "mail"): 1}
    assert seen.sights() == []


def test_an_action_that_is_none_is_refused(seen):
    with pytest.raises(ValueError, match="action: expected one of activated, canceled, completed"):
        seen.finished("done", "payment")


def test_pushes(seen):
    seen.pushed()
    seen.pushed(2)
    seen.push_failed("BLOCKED")
    counts = seen.counts()
    assert (counts.pushed, counts.push_failures) == (3, {"BLOCKED": 1})


def test_labels_do_not_grow_without_end(monkeypatch):
    monkeypatch.setattr("jobexec.gateways.worker_registry.counts.MOST_LABELS", 2)
    counts = Counts()
    for number in range(5):
        counts.event("completed", f"type {number}", 1)
        counts.push_failure(f"code {number}")
    counts.event("completed", "type 0", 1)
    assert counts.events == {("completed", "type 0"): 2, ("completed", "type 1"): 1, ("completed", OTHERS): 3}
    assert counts.push_failures[OTHERS] == 3


def test_workers_are_not_remembered_without_end(seen, monkeypatch):
    monkeypatch.setattr(workers_module, "MOST_WORKERS", 10)
    with FrozenClock() as clock, seen.waiting("rest", "", "waits", "t"):
        for number in range(50):
            clock.tick(1)
            seen.polled("rest", "", f"worker {number}", "t")
        names = {sight.key.worker for sight in seen.sights()}
    assert len(names) <= 10
    assert {"waits", "worker 49", "worker 48"} <= names
    assert "worker 0" not in names


def test_long_names_forget_nobody(seen, monkeypatch):
    """A name that is cut is not found as it came, and is no new one for that."""
    monkeypatch.setattr("jobexec.gateways.worker_registry.workers.MOST_WORKERS", 2)
    for _ in range(3):
        seen.polled("rest", "", "w" * 300, "pay")
        seen.polled(*ME)
    assert len(seen.sights()) == 2


def test_names_fit_their_columns(seen):
    long = "x" * 1000
    seen.polled(long, long, long, long)
    seen.polled(long, long, long + "y", long)
    seen.polled("rest", "", "a\0b", "t")
    lengths = [[len(name) for name in sight.key] for sight in seen.sights()]
    assert lengths == [[16, 150, 200, 255], [4, 0, 2, 1]]


def test_what_has_not_changed_is_not_told_again(seen):
    seen.polled("rest", "", "a", "t")
    seen.polled("rest", "", "b", "t")
    version = max(sight.version for sight in seen.sights())
    seen.polled("rest", "", "b", "t")
    with seen.waiting("rest", "", "c", "t"):
        assert sorted(sight.key.worker for sight in seen.sights(version)) == ["b", "c"]
        version = max(sight.version for sight in seen.sights())
        assert [sight.key.worker for sight in seen.sights(version)] == ["c"], "it is here"
    assert [sight.key.worker for sight in seen.sights(version)] == ["c"], "it has gone"


def test_who_has_gone_for_long_is_forgotten(seen):
    with FrozenClock() as clock:
        seen.polled("rest", "", "gone", "t")
        with seen.waiting("rest", "", "waits", "t"):
            clock.tick(10)
            seen.polled("rest", "", "new", "t")
            seen.forget(clock.monotonic - 5)
            assert sorted(sight.key.worker for sight in seen.sights()) == ["new", "waits"]


def test_a_snapshot_stays_as_it_is(seen):
    with seen.streaming(*ME):
        sight, counts = only(seen), seen.counts()
        seen.activated("payment", "worker-1", 3, protocol="grpc", client="shop")
    assert len(sight.streams) == 1
    assert sight.activated == 0
    assert not counts.events


def test_threads_lose_nothing(seen):
    def work():
        for _ in range(500):
            with seen.waiting(*ME):
                seen.activated("payment", "worker-1", 1, protocol="grpc", client="shop")

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (only(seen).polls, only(seen).activated) == (0, 2000)
    assert seen.counts().events == {("activated", "payment"): 2000}
