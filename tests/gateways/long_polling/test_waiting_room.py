"""An answer that knows whether it was sent."""

import asyncio
import gc

import pytest

from jobexec.gateways.rest import waiting_room
from jobexec.gateways.rest.waiting_room import TrackedResponse
from tests.support.waiting import TIMEOUT

#: Django looks after its connections, whichever tests have opened them, when an answer is closed.
pytestmark = pytest.mark.django_db


def test_what_was_sent_is_not_given_back():
    lost = []

    async def story():
        parcel = TrackedResponse(b"{}", lambda: lost.append(1))
        assert b"".join([part async for part in parcel]) == b"{}"
        parcel.close()
        return parcel["Content-Length"]

    assert (asyncio.run(story()), lost) == ("2", [])


def test_what_was_not_sent_is_given_back_once():
    lost = []

    async def story():
        parcel = TrackedResponse(b"{}", lambda: lost.append(1))
        parcel.close()
        parcel.close()
        assert lost == [1]
        forgotten = TrackedResponse(b"{}", lambda: lost.append(2))
        del forgotten
        assert lost == [1, 2]

    asyncio.run(story())


@pytest.mark.gate
def test_what_is_garbage_in_a_cycle_is_given_back(monkeypatch):
    monkeypatch.setattr(waiting_room, "_COLLECT", 0.001)
    lost = []

    async def story():
        held = TrackedResponse(b"{}", lambda: lost.append("held"))
        garbage = TrackedResponse(b"{}", lambda: lost.append("garbage"))
        garbage.itself = garbage
        del garbage
        while not lost:
            await asyncio.sleep(0.001)
        held.close()

    gc.disable()
    try:
        asyncio.run(asyncio.wait_for(story(), TIMEOUT))
    finally:
        gc.enable()
    assert lost == ["garbage", "held"]
