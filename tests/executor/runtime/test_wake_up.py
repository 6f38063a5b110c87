"""An event that is waited for together with a descriptor, or with something that has to be asked."""

import socket
import threading

import pytest

from jobexec.runtime import wake_up as bells
from jobexec.runtime.wake_up import WakeUpEvent
from tests.support.waiting import TIMEOUT, until


class Word:
    """Word that comes through a socket, or has to be asked for every ``every`` seconds."""

    def __init__(self, every=None):
        self.every, self.asked, self.rings = every, 0, True
        self.here, self.there = socket.socketpair()

    def fileno(self):
        return None if self.every else self.here.fileno()

    def turn(self):
        return self.every

    def ask(self):
        self.asked += 1
        if not self.every:
            self.here.recv(1)
        if self.rings:
            self.bell.set()


@pytest.fixture(params=["poll", "select"])
def way(request, monkeypatch):
    """Also where the system has no poll()."""
    if request.param == "select":
        monkeypatch.delattr(bells.select, "poll")


def made(word):
    word.bell = WakeUpEvent(word)
    yield word
    word.here.close()
    word.there.close()


@pytest.fixture
def word(way):
    yield from made(Word())


@pytest.fixture
def asked_word(way):
    yield from made(Word(every=0.001))


def wait(bell, timeout=TIMEOUT):
    """Wait in a thread of its own; call the answer to get what it said."""
    answers = []
    thread = threading.Thread(target=lambda: answers.append(bell.wait(timeout)))
    thread.start()

    def answer():
        thread.join(TIMEOUT)
        return answers.pop()

    return answer


def test_rings_through_threads_and_is_kept_until_cleared(way):
    bell = WakeUpEvent()
    assert (bell.is_set(), bell.wait(0), bell.wait(0.01)) == (False, False, False)
    for _ in range(300):
        answer = wait(bell)
        bell.set()
        bell.set()
        assert answer()
        assert (bell.is_set(), bell.wait(TIMEOUT)) == (True, True)
        bell.clear()
        assert not bell.wait(0)


def test_word_from_a_descriptor_ends_the_wait(word):
    answer = wait(word.bell)
    word.there.send(b"1")
    assert answer()
    assert word.asked == 1
    word.bell.clear()
    assert not word.bell.wait(0.01)


def test_word_that_was_there_before_is_heard_without_waiting(word):
    word.there.send(b"1")
    assert word.bell.wait(0)


def test_word_that_does_not_concern_who_waits_is_passed_on_and_the_wait_goes_on(word):
    word.rings = False
    word.there.send(b"123")

    def all_is_passed_on():
        assert not word.bell.wait(0.05)
        return word.asked == 3

    until(all_is_passed_on)


def test_a_source_without_a_descriptor_is_asked_again_and_again(asked_word):
    word = asked_word
    word.rings = False

    def it_is_asked_again():
        assert not word.bell.wait(0.05)
        return word.asked > 3

    until(it_is_asked_again)
    word.rings = True
    assert word.bell.wait(TIMEOUT)


def test_a_ring_ends_a_wait_for_a_source_too(word):
    answer = wait(word.bell)
    word.bell.set()
    assert answer()
    assert word.asked == 0


def test_a_wait_of_years_is_no_error(way, monkeypatch):
    bell = WakeUpEvent()
    answer = wait(bell, 3e9)
    bell.set()
    assert answer()


@pytest.mark.gate
def test_no_more_rings_than_the_pipe_holds(way):
    bell = WakeUpEvent()
    bell._waiting = True  # as if somebody were about to wait, and never came to it
    for _ in range(100_000):
        bell.clear()
        bell.set()
    bell._waiting = False
    bell.clear()
    assert not bell.wait(0.05)
    bell.set()
    assert bell.wait(0)
