"""UUIDs of version 7: their form, their order, threads, a clock that steps back, and forks."""

import os
import threading
import time
import uuid
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace

import pytest

from jobexec import identifiers
from jobexec.identifiers import least_uuid7, uuid7, uuid7s


def milliseconds(value: uuid.UUID) -> int:
    return value.int >> 80


@pytest.fixture
def wall_clock(monkeypatch):
    """A wall clock that stands where the test puts it; afterwards the state is as before."""
    monkeypatch.setattr(identifiers, "_last_ms", 0)
    monkeypatch.setattr(identifiers, "_counter", identifiers._COUNTER_MAX)

    def put(ms: int) -> None:
        monkeypatch.setattr(identifiers, "time", SimpleNamespace(time_ns=lambda: ms * 1_000_000))

    return put


def test_the_form_is_that_of_rfc_9562():
    before = time.time_ns() // 1_000_000
    value = uuid7()
    assert value.version == 7
    assert value.variant == uuid.RFC_4122
    # Ids may run ahead of the clock only when a millisecond's counter is used up.
    assert before <= milliseconds(value) <= time.time_ns() // 1_000_000 + 1


def test_within_a_millisecond_they_ascend(wall_clock):
    wall_clock(1_000)
    made = [uuid7() for _ in range(1000)]
    assert made == sorted(set(made))
    assert {milliseconds(value) for value in made} == {1_000}


def test_many_at_once_ascend_between_those_before_and_after(wall_clock):
    wall_clock(1_000)
    made = [uuid7(), *uuid7s(1000), uuid7(), *uuid7s(0), *uuid7s(2), uuid7()]
    assert made == sorted(set(made)) and len(made) == 1005
    assert {(value.version, value.variant, milliseconds(value)) for value in made} == {(7, uuid.RFC_4122, 1_000)}
    assert len({value.int & 0xFFFF_FFFF for value in made}) > 1000, "the last 32 bits are random"


def test_many_at_once_borrow_together(wall_clock, monkeypatch):
    wall_clock(1_000)
    first = uuid7()
    monkeypatch.setattr(identifiers, "_counter", identifiers._COUNTER_MAX - 2)
    made = [first, *uuid7s(2), *uuid7s(3)]
    assert made == sorted(set(made))
    assert [milliseconds(value) for value in made] == [1_000, 1_000, 1_000, 1_001, 1_001, 1_001]


def test_they_ascend_when_the_clock_steps_back(wall_clock):
    wall_clock(5_000)
    first = uuid7()
    wall_clock(4_000)
    second = uuid7()
    wall_clock(5_001)
    assert first < second < uuid7()


def test_a_used_up_counter_borrows_from_the_next_millisecond(wall_clock, monkeypatch):
    wall_clock(1_000)
    first = uuid7()
    monkeypatch.setattr(identifiers, "_counter", identifiers._COUNTER_MAX)
    second = uuid7()
    assert first < second
    assert milliseconds(second) == 1_001


def test_a_seed_leaves_room_to_count(monkeypatch):
    monkeypatch.setattr(identifiers, "os", SimpleNamespace(urandom=lambda size: b"\xff" * size))
    assert identifiers._COUNTER_MAX - identifiers._seed() >= 2**41


def test_threads_never_get_the_same_and_each_sees_an_ascent():
    made: list[list[uuid.UUID]] = [[] for _ in range(8)]
    barrier = threading.Barrier(len(made))

    def make(mine: list[uuid.UUID]) -> None:
        barrier.wait()
        mine.extend(uuid7() for _ in range(2000))

    threads = [threading.Thread(target=make, args=(mine,)) for mine in made]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(mine == sorted(mine) for mine in made)
    assert len({value for mine in made for value in mine}) == 16_000


def test_what_one_thread_made_is_less_than_what_another_makes_afterwards():
    first = uuid7()
    later: list[uuid.UUID] = []
    thread = threading.Thread(target=lambda: later.append(uuid7()))
    thread.start()
    thread.join()
    assert first < later[0]


@pytest.mark.skipif(not hasattr(os, "register_at_fork"), reason="this system has no fork")
def test_a_fork_goes_on_with_a_free_lock_and_other_numbers(wall_clock):
    wall_clock(1_000)
    parent = uuid7()
    held = identifiers._lock
    held.acquire()  # as by a thread that the child does not have
    try:
        identifiers._after_fork()
        child = uuid7()
    finally:
        held.release()
    assert parent < child
    assert child.int >> 32 != (parent.int >> 32) + 1


def test_the_least_id_of_a_moment():
    moment = datetime(2026, 3, 1, 12, 0, 0, 999, tzinfo=UTC)
    least = least_uuid7(moment)
    assert (least.version, least.variant, milliseconds(least)) == (7, uuid.RFC_4122, 1_772_366_400_000)
    before = datetime.now(UTC)
    assert least_uuid7(before) <= uuid7()
    assert uuid7() < least_uuid7(before + timedelta(minutes=1))
