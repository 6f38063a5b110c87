"""The only "now": wall clock, database time carried on by the monotonic clock, and the frozen clock of tests."""

import threading
import time
from datetime import UTC, datetime, timedelta, timezone
from types import SimpleNamespace

import pytest

from jobexec import clock
from jobexec.clock import FrozenClock

START = datetime(2026, 3, 1, 12, tzinfo=UTC)


@pytest.fixture(autouse=True)
def nothing_synchronised():
    clock.forget()
    yield
    clock.forget()


@pytest.fixture
def monotonic(monkeypatch):
    """The operating system's monotonic clock, standing where the test puts it."""

    def put(seconds: float) -> None:
        monkeypatch.setattr(clock, "time", SimpleNamespace(monotonic=lambda: seconds))

    return put


def test_before_synchronisation_it_is_the_wall_clock():
    before = datetime.now(UTC)
    now = clock.now()
    assert before <= now <= datetime.now(UTC)
    assert now.tzinfo is UTC


def test_monotonic_is_that_of_the_system():
    before = time.monotonic()
    assert before <= clock.monotonic() <= time.monotonic()


def test_after_synchronisation_it_is_the_databases_time_carried_on(monotonic):
    clock.synchronise("default", START, at=100.0)
    monotonic(107.5)
    assert clock.now() == START + timedelta(seconds=7.5)


def test_a_step_of_the_wall_clock_moves_nothing(monotonic):
    clock.synchronise("default", START, at=100.0)
    monotonic(100.0)
    assert clock.now() == START  # years away from the wall clock


def test_each_alias_has_its_own_time(monotonic):
    clock.synchronise("default", START, at=0.0)
    clock.synchronise("other", START + timedelta(hours=1), at=0.0)
    monotonic(0.0)
    assert clock.now("other") - clock.now("default") == timedelta(hours=1)


def test_a_new_synchronisation_replaces_the_old_one(monotonic):
    clock.synchronise("default", START, at=0.0)
    clock.synchronise("default", START - timedelta(seconds=2), at=10.0)
    monotonic(10.0)
    assert clock.now() == START - timedelta(seconds=2)


def test_the_time_is_given_in_utc(monotonic):
    clock.synchronise("default", START.astimezone(timezone(timedelta(hours=5))), at=0.0)
    monotonic(0.0)
    assert clock.now().tzinfo is UTC


def test_a_naive_database_time_is_refused():
    with pytest.raises(ValueError, match="aware"):
        clock.synchronise("default", datetime(2026, 1, 1), at=0.0)


@pytest.mark.parametrize(("using", "left"), [(None, []), ("default", ["other"])])
def test_forget_goes_back_to_the_wall_clock(using, left):
    for alias in ("default", "other"):
        clock.synchronise(alias, START, at=clock.monotonic())
    clock.forget(using)
    wall = datetime.now(UTC)
    stayed = [alias for alias in ("default", "other") if abs(clock.now(alias) - wall) > timedelta(hours=1)]
    assert stayed == left


def test_forgetting_an_unknown_alias_is_no_error():
    clock.forget("nobody")
    assert clock._readings == {}


def test_a_frozen_clock_stands_still_for_all_aliases_and_threads():
    seen: list[datetime] = []
    clock.synchronise("other", START, at=0.0)
    with FrozenClock(START):
        thread = threading.Thread(target=lambda: seen.extend([clock.now(), clock.now("other")]))
        thread.start()
        thread.join()
        assert clock.monotonic() == clock.monotonic()
    assert seen == [START, START]


def test_ticking_moves_both_clocks():
    with FrozenClock(START) as frozen:
        before = clock.monotonic()
        assert frozen.tick(90) == START + timedelta(seconds=90)
        frozen.tick(timedelta(minutes=1))
        frozen.tick()
        assert clock.now() == frozen.now == START + timedelta(seconds=151)
        assert clock.monotonic() - before == pytest.approx(151)


def test_ticks_of_many_threads_all_count():
    with FrozenClock(START) as frozen:
        threads = [threading.Thread(target=lambda: [frozen.tick(1) for _ in range(500)]) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert clock.now() == START + timedelta(seconds=4000)


def test_it_does_not_tick_backwards():
    with FrozenClock(START) as frozen, pytest.raises(ValueError, match="backwards"):
        frozen.tick(-1)


def test_frozen_clocks_nest_and_end():
    with FrozenClock(START):
        with FrozenClock(START + timedelta(days=1)):
            assert clock.now() == START + timedelta(days=1)
        assert clock.now() == START
    assert abs(clock.now() - datetime.now(UTC)) < timedelta(minutes=1)


def test_without_a_start_it_begins_now():
    before = datetime.now(UTC)
    with FrozenClock() as frozen:
        assert before <= frozen.now <= datetime.now(UTC)


def test_a_naive_start_is_refused():
    with pytest.raises(ValueError, match="aware"):
        FrozenClock(datetime(2026, 1, 1))


def test_a_synchronisation_while_frozen_leaves_no_trace():
    with FrozenClock(START):
        clock.synchronise("default", START + timedelta(days=9), at=clock.monotonic())
        assert clock.now() == START
    assert abs(clock.now() - datetime.now(UTC)) < timedelta(minutes=1)


@pytest.mark.parametrize("start", [1027.7, 2047.9, 4011.3])
def test_a_frozen_clock_is_exact(monkeypatch, start):
    """Floats near a power of two round each sum, so 30 s would not be over after three ticks of 10."""
    monkeypatch.setattr("time.monotonic", lambda: start)
    with FrozenClock() as frozen:
        passed = []
        for _ in range(200):
            before = clock.monotonic()
            for _ in range(3):
                frozen.tick(10)
            passed.append(clock.monotonic() - before)
        assert set(passed) == {30.0}
