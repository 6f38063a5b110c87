"""The inbox: which job is tried next, and when a message is acknowledged or given back. No broker, no threads."""

from datetime import UTC, datetime
from uuid import UUID

import pytest

from jobexec.broker.message import HIGH, LOW, NORMAL
from jobexec.clock import FrozenClock
from jobexec.executor.loops.broker_inbox import TRIES, Inbox

IDS = [UUID(int=number) for number in range(9)]


@pytest.fixture
def inbox():
    return Inbox()


@pytest.fixture
def frozen():
    with FrozenClock(datetime(2026, 3, 1, 12, tzinfo=UTC)) as clock:
        yield clock


def answers(inbox):
    return [(delivery.message, "back" if delivery.given_back else "ack") for delivery in inbox.settled()]


def test_important_jobs_first_then_as_they_came(inbox):
    inbox.add("low", IDS[:1], LOW)
    inbox.add("normal", IDS[1:3], NORMAL)
    inbox.add("high", IDS[3:4], HIGH)
    assert len(inbox) == inbox.ready == 4
    assert [entry.id for entry in inbox.take(2)] == [IDS[3], IDS[1]]
    assert [entry.id for entry in inbox.take(9)] == [IDS[2], IDS[0]]
    assert inbox.take(9) == []


def test_a_message_is_acknowledged_with_the_last_of_its_jobs(inbox):
    inbox.add("one", IDS[:2], NORMAL)
    first, second = inbox.take(2)
    inbox.done([first])
    assert answers(inbox) == [] and inbox.unsettled == 1
    inbox.done([second])
    assert answers(inbox) == [("one", "ack")] and inbox.unsettled == 0
    inbox.add("empty", [], NORMAL)
    assert answers(inbox) == [("empty", "ack")]


def test_what_cannot_be_had_is_tried_again_and_at_last_left_to_the_poll(inbox, frozen):
    inbox.add("one", IDS[:1], NORMAL)
    pauses = []
    for _ in range(TRIES):
        inbox.again(inbox.take(1), costs=True)
        if (pause := inbox.pause()) is not None:
            assert inbox.take(1) == [] and inbox.ready == 0
            pauses.append(round(pause, 3))
            frozen.tick(pause + 0.001)
    assert pauses == [0.1, 0.2, 0.4, 0.8, 1.6]
    assert answers(inbox) == [("one", "ack")] and inbox.pause() is None


def test_what_a_page_had_no_room_for_is_next_and_costs_no_try(inbox):
    inbox.add("one", IDS[:1], NORMAL)
    for _ in range(TRIES + 1):
        inbox.again(inbox.take(1), costs=False)
    assert inbox.pause() == 0.0 and answers(inbox) == []


def test_a_message_goes_back_unless_all_its_jobs_are_settled(inbox):
    inbox.add("waits", IDS[:1], NORMAL)
    inbox.add("half", IDS[1:3], NORMAL)
    inbox.add("done", IDS[3:4], HIGH)
    (done,) = inbox.take(1)
    inbox.done([done])
    inbox.done(inbox.take(1))
    (in_hand,) = inbox.take(1)
    inbox.give_back()
    assert answers(inbox) == [("done", "ack"), ("waits", "ack")] and len(inbox) == 0
    inbox.done([in_hand])
    assert answers(inbox) == [("half", "back")]


def test_a_connection_that_is_gone_takes_its_messages_along(inbox):
    inbox.add("old", IDS[:2], NORMAL)
    (in_hand,) = inbox.take(1)
    inbox.forget()
    assert len(inbox) == inbox.unsettled == 0
    inbox.done([in_hand])
    inbox.add("new", IDS[2:3], NORMAL)
    inbox.done(inbox.take(1))
    assert answers(inbox) == [("new", "ack")] and inbox.unsettled == 0
