"""Who is woken, among those who wait."""

import asyncio
import threading
import time

from jobexec.gateways.long_polling.async_places import AsyncPlace
from jobexec.gateways.long_polling.places import Queue, ThreadPlace
from jobexec.runtime.database_threads import DatabaseThreads, Overloaded
from tests.support.waiting import threads, until

SOON, NOW = 30.0, 0.0


def place(queue, *types, kind=None, alive=lambda: True):
    made = ThreadPlace(queue, types, kind, alive)
    queue.enter(made)
    return made


def woken(*places):
    return [each.heard() for each in places]


def test_word_of_a_job_wakes_the_first_who_waits_for_its_type():
    queue = Queue()
    other, first, second = place(queue, "mail"), place(queue, "pay"), place(queue, "pay")
    assert queue.wake(["pay"]) == 1
    assert woken(other, first, second) == [False, True, False]


def test_each_word_wakes_one_more():
    queue = Queue()
    places = [place(queue, "pay") for _ in range(3)]
    queue.wake(["pay"])
    queue.wake(["pay"])
    assert woken(*places) == [True, True, False]


def test_word_of_any_type_wakes_somebody_for_each():
    queue = Queue()
    places = place(queue, "mail"), place(queue, "pay"), place(queue, "pay")
    assert queue.wake() == 2
    assert woken(*places) == [True, True, False]


def test_of_each_kind_somebody_is_woken():
    queue = Queue()
    acme, also_acme, other = place(queue, "pay", kind="acme"), place(queue, "pay", kind="acme"), place(queue, "pay")
    assert queue.wake(["pay"]) == 2
    assert woken(acme, also_acme, other) == [True, False, True]


def test_who_found_more_than_he_takes_wakes_others_of_his_kind():
    queue = Queue()
    places = [place(queue, "pay") for _ in range(4)]
    stranger = place(queue, "pay", kind="acme")
    places[0].pass_on()
    assert woken(*places, stranger) == [False, True, True, False, False]


def test_who_leaves_without_having_heard_passes_it_on():
    queue = Queue()
    first, second, stranger = place(queue, "pay"), place(queue, "pay"), place(queue, "pay", kind="acme")
    queue.wake(["pay"], kind=None)
    first.leave()
    assert woken(second, stranger) == [True, False]


def test_who_has_heard_passes_nothing_on():
    queue = Queue()
    first, second = place(queue, "pay"), place(queue, "pay")
    queue.wake(["pay"])
    assert first.heard()
    first.leave()
    assert woken(second) == [False]


def test_who_has_gone_is_passed_over():
    queue = Queue()
    gone, here = place(queue, "pay", alive=lambda: False), place(queue, "pay")
    assert queue.wake(["pay"]) == 1
    assert woken(gone, here) == [False, True]


def test_nobody_is_left_in_the_queue():
    queue = Queue()
    with ThreadPlace(queue, ["pay", "mail"], None, lambda: True):
        assert queue.types() == {"pay", "mail"}
        assert queue.counts() == {"pay": 1, "mail": 1}
        assert queue.count() == 1
    assert queue.types() == frozenset()
    assert queue._rows == {}


def test_a_thread_waits_until_there_is_word_or_the_time_is_over():
    queue = Queue()
    waiting = place(queue, "pay")
    began = time.monotonic()
    assert waiting.wait(began + 0.02) is False
    assert time.monotonic() >= began + 0.02
    heard = []
    thread = threading.Thread(target=lambda: heard.append(waiting.wait(time.monotonic() + SOON)))
    thread.start()
    queue.wake(["pay"])
    thread.join(SOON)
    assert heard == [True]


def test_word_that_comes_before_the_wait_is_kept():
    queue = Queue()
    waiting = place(queue, "pay")
    queue.wake(["pay"])
    assert waiting.wait(NOW) is True
    assert waiting.wait(NOW) is False


def test_closing_answers_all_and_whoever_comes_later():
    queue = Queue()
    waiting = place(queue, "pay")
    heard = []
    thread = threading.Thread(target=lambda: heard.append(waiting.wait(time.monotonic() + SOON)))
    thread.start()
    queue.close()
    thread.join(SOON)
    assert heard == [False]
    assert place(queue, "pay").wait(time.monotonic() + SOON) is False


def test_a_coroutine_is_woken_from_another_thread():
    queue = Queue()

    async def wait():
        with AsyncPlace(queue, ["pay"], None, lambda: True) as waiting:
            threading.Thread(target=queue.wake, args=(["pay"],)).start()
            return await waiting.wait(time.monotonic() + SOON)

    assert asyncio.run(wait()) is True


def test_a_coroutine_that_is_cancelled_passes_on_what_it_has_not_heard():
    queue = Queue()

    async def wait():
        with AsyncPlace(queue, ["pay"], None, lambda: True) as waiting:
            await waiting.wait(time.monotonic() + SOON)

    async def story():
        first = asyncio.create_task(wait())
        await asyncio.sleep(0)
        behind = place(queue, "pay")
        queue.wake(["pay"])
        first.cancel()  # before it could run
        await asyncio.gather(first, return_exceptions=True)
        return behind.heard()

    assert asyncio.run(story()) is True


def test_a_coroutine_that_is_cancelled_before_it_has_looked_passes_on_what_it_has_heard():
    queue = Queue()

    async def wait():
        with AsyncPlace(queue, ["pay"], None, lambda: True) as waiting:
            await waiting.wait(time.monotonic() + SOON)
            await asyncio.Event().wait()

    async def story():
        first = asyncio.create_task(wait())
        await asyncio.sleep(0)
        queue.wake(["pay"])
        behind = place(queue, "pay")
        for _ in range(3):
            await asyncio.sleep(0)
        first.cancel()
        await asyncio.gather(first, return_exceptions=True)
        return behind.heard()

    assert asyncio.run(story()) is True


def test_a_loop_that_has_ended_is_passed_over():
    queue = Queue()

    async def leave_behind():
        queue.enter(AsyncPlace(queue, ["pay"], None, lambda: True))

    asyncio.run(leave_behind())
    here = place(queue, "pay")
    assert queue.wake(["pay"]) == 1
    assert woken(here) == [True]


def test_hands_do_the_work_and_go(monkeypatch):
    monkeypatch.setattr("jobexec.runtime.database_threads._IDLE", 2 * SOON)
    hands = DatabaseThreads("jobexec-test-hands", most=2)
    both = threading.Barrier(2)
    futures = [hands.submit(lambda: both.wait(SOON)) for _ in range(2)]
    assert sorted(each.result(SOON) for each in futures) == [0, 1]
    assert len(threads("jobexec-test-hands")) == 2
    failing = hands.submit(lambda: 1 // 0)
    assert isinstance(failing.exception(SOON), ZeroDivisionError)
    assert hands.submit(lambda: "again").result(SOON) == "again"
    assert hands.close(SOON)


def test_hands_that_are_woken_for_nothing_stay(monkeypatch):
    """A busy thread took the work; who ended now would have to connect again for the next piece."""
    monkeypatch.setattr("jobexec.runtime.database_threads._IDLE", 2 * SOON)
    hands = DatabaseThreads("jobexec-test-woken")
    hands.submit(int).result(SOON)
    until(lambda: hands._idle == 1)
    with hands._changed:
        hands._changed.notify_all()
        assert not hands._changed.wait_for(lambda: not hands._threads, 0.2)
    assert hands.close(SOON)


def test_idle_hands_end(monkeypatch):
    monkeypatch.setattr("jobexec.runtime.database_threads._IDLE", 0.01)
    hands = DatabaseThreads("jobexec-test-idle")
    assert hands.submit(lambda: 1).result(SOON) == 1
    until(lambda: not threads("jobexec-test-idle"))
    assert hands.submit(lambda: 2).result(SOON) == 2


def test_more_than_can_be_done_in_time_is_refused(monkeypatch):
    monkeypatch.setattr("jobexec.runtime.database_threads.LONGEST_LINE", 1)
    monkeypatch.setattr("jobexec.runtime.database_threads._IDLE", 0.1)
    hands = DatabaseThreads("jobexec-test-overload", most=1)
    busy, go = threading.Event(), threading.Event()

    def work():
        busy.set()
        go.wait(SOON)

    hands.submit(work)
    assert busy.wait(SOON)
    waiting = hands.submit(lambda: "done")
    try:
        hands.submit(lambda: None)
    except Overloaded:
        refused = True
    go.set()
    assert refused
    assert waiting.result(SOON) == "done"
