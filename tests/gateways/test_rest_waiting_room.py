"""An answer that knows whether it was sent."""

import asyncio

import pytest

from jobexec.gateways.rest.waiting_room import Parcel

#: Django looks after its connections, whichever tests have opened them, when an answer is closed.
pytestmark = pytest.mark.django_db


def test_what_was_sent_is_not_given_back():
    lost = []

    async def read(parcel):
        return b"".join([part async for part in parcel])

    parcel = Parcel(b"{}", lambda: lost.append(1))
    assert asyncio.run(read(parcel)) == b"{}"
    parcel.close()
    assert (lost, parcel["Content-Length"]) == ([], "2")


def test_what_was_not_sent_is_given_back_once():
    lost = []
    parcel = Parcel(b"{}", lambda: lost.append(1))
    parcel.close()
    parcel.close()
    assert lost == [1]
    forgotten = Parcel(b"{}", lambda: lost.append(2))
    del forgotten
    assert lost == [1, 2]
