"""The contract of loops: wake-ups are kept, errors do not end them, start and stop may be called twice."""

import threading

import pytest
from django.db import connections

from jobexec.runtime import threads as runtime_threads
from jobexec.runtime.connections import close_connections, discard_broken_connections
from jobexec.runtime.threads import Loop, call_in_thread
from tests.support.waiting import TIMEOUT, passed, threads, until


class Counting(Loop):
    def __init__(self, wait=TIMEOUT):
        super().__init__("jobexec-counting")
        self.rounds, self.wait, self.error = 0, wait, None
        self.entered, self.gate = threading.Event(), threading.Event()
        self.gate.set()

    def run_once(self):
        self.entered.set()
        assert self.gate.wait(TIMEOUT)
        self.rounds += 1
        if self.error:
            raise self.error
        return self.wait


@pytest.fixture
def loop():
    loop = Counting()
    yield loop
    loop.gate.set()
    loop.stop(TIMEOUT)
    until(lambda: not threads())


def test_waits_as_long_as_the_round_says_unless_woken(loop):
    loop.start()
    until(lambda: loop.rounds == 1)
    loop.wake()
    until(lambda: loop.rounds == 2)
    assert loop.stop(TIMEOUT)
    assert loop.rounds == 2


def test_a_wake_up_during_a_round_is_kept_for_the_next(loop):
    loop.gate.clear()
    loop.start()
    passed(loop.entered)
    loop.wake()
    loop.gate.set()
    until(lambda: loop.rounds == 2)


def test_a_logging_filter_that_fails_ends_no_loop(loop, monkeypatch):
    def fail(record):
        raise RuntimeError("a filter of the project's")

    monkeypatch.setattr(runtime_threads, "_FIRST_PAUSE", 0.001)
    monkeypatch.setattr(runtime_threads.logger, "filters", [fail])
    loop.error, loop.wait = ValueError("no"), 0
    loop.start()
    until(lambda: loop.rounds > 2)
    assert loop.alive


@pytest.mark.parametrize("error", [ValueError("no"), SystemExit(1), KeyboardInterrupt()])
def test_no_error_ends_a_loop_and_the_first_one_is_said(loop, error, monkeypatch, caplog):
    monkeypatch.setattr(runtime_threads, "_FIRST_PAUSE", 0.001)
    loop.error, loop.wait = error, 0
    loop.start()
    until(lambda: loop.rounds >= 3)
    loop.error, loop.wait = None, TIMEOUT
    rounds = loop.rounds
    until(lambda: loop.rounds > rounds)
    warnings = [record for record in caplog.records if "failed, next try in" in record.getMessage()]
    assert len(warnings) == 1
    assert threads() == ["jobexec-counting"]


def test_stopping_does_not_wait_for_the_pause_after_an_error(loop, monkeypatch):
    monkeypatch.setattr(runtime_threads, "_FIRST_PAUSE", TIMEOUT)
    loop.error = ValueError("no")
    loop.start()
    until(lambda: loop.rounds == 1)
    assert loop.stop(TIMEOUT / 2)


def test_start_and_stop_may_be_called_twice_and_stop_before_start(loop):
    assert loop.stop(0)
    assert loop.stop(0)
    loop.start()
    loop.start()
    assert threads() == ["jobexec-counting"]
    assert loop.stop(TIMEOUT)
    assert loop.stop(TIMEOUT)
    rounds = loop.rounds
    loop.start()
    until(lambda: loop.rounds > rounds)


def test_a_thread_that_did_not_end_in_time_does_not_come_to_life_again(loop):
    loop.gate.clear()
    loop.start()
    passed(loop.entered)
    old = next(thread for thread in threading.enumerate() if thread.name == "jobexec-counting")
    assert loop.stop(0) is False
    loop.start()
    loop.gate.set()
    old.join(TIMEOUT)
    assert not old.is_alive()
    until(lambda: loop.rounds >= 2)
    assert threads() == ["jobexec-counting"]


def test_errors_of_a_call_in_a_thread_of_its_own_are_the_callers():
    with pytest.raises(ZeroDivisionError):
        call_in_thread("jobexec-call", lambda: 1 / 0, TIMEOUT)
    never = threading.Event()
    with pytest.raises(TimeoutError, match="no answer within 0 s"):
        call_in_thread("jobexec-call", lambda: never.wait(TIMEOUT), 0)
    never.set()
    until(lambda: not threads())


@pytest.mark.transactional
def test_a_connection_that_cannot_even_be_closed_is_forgotten(alias, monkeypatch):
    def check():
        broken = connections[alias]
        broken.ensure_connection()
        raw = broken.connection
        monkeypatch.setattr(broken, "_close", lambda: 1 / 0)
        broken.errors_occurred = True
        discard_broken_connections()
        assert connections[alias] is not broken
        connections[alias].ensure_connection()
        close_connections()
        assert connections[alias].connection is None
        raw.close()

    call_in_thread("jobexec-call", check, TIMEOUT)
