"""Waiting for jobs, on every database: what wakes, and what becomes of jobs for somebody who has gone."""

import asyncio
import os
import threading
import time
from datetime import timedelta
from types import SimpleNamespace

import pytest
from django.db import connections, transaction

from jobexec import clock, external_job, external_jobs
from jobexec.exceptions import InvalidSettings
from jobexec.gateways import long_polling
from jobexec.gateways.long_polling import polling, wake_up_source, watch
from jobexec.gateways.long_polling.places import Queue, ThreadPlace
from jobexec.models import ExternalWorkerJob
from jobexec.operations.external import fail_external_job
from jobexec.operations.external.types import Fetch
from jobexec.operations.notify import wake_workers
from tests.support.waiting import TIMEOUT, threads, until

pytestmark = [pytest.mark.transactional, pytest.mark.usefixtures("engine")]
LONG = timedelta(seconds=TIMEOUT - 5)
HOUR = timedelta(hours=1)


def fetch(type="pay", **options):
    return Fetch(**{"type": type, "worker": "w", "timeout": HOUR, **options})


class Polling(threading.Thread):
    """A long poll in an event loop of its own."""

    def __init__(self, alias, asked=None, wait=LONG):
        super().__init__(daemon=True)
        self.alias, self.asked, self.wait = alias, asked or fetch(), wait
        self.jobs = None
        self.start()

    def run(self):
        self.jobs = asyncio.run(long_polling.poll(self.alias, self.asked, self.wait))

    def result(self):
        self.join(TIMEOUT)
        assert not self.is_alive()
        return self.jobs


def waiting(alias, count=1):
    """Wait until so many stand in the queue, have looked for jobs once, and wait for word.

    Nobody waits between entering the queue and the end of the look.
    """
    ours = long_polling.of(alias)
    until(lambda: len(places := ours.queue._places()) == count and all(map(_waits, places)))
    until(lambda: not ours.database_threads._line and ours.database_threads._idle == ours.database_threads._threads)


def _waits(place):
    event = place._event
    waiters = event._waiters if isinstance(event, asyncio.Event) else event._cond._waiters
    return bool(waiters) and not place.owed


def create(alias, type="pay", **options):
    return external_job(type, database=alias, **options)


def elsewhere(alias, action):
    """Do it in a way that nobody in this process is told of, as another process would."""
    ours = long_polling.of(alias)
    wake_workers.remove_worker_listener(ours.notify)
    action()


def test_what_is_there_is_found_at_once(alias):
    job = create(alias)
    assert [each.key for each in Polling(alias).result()] == [job.job_key]


def test_without_a_wait_one_look_is_all(alias):
    assert Polling(alias, wait=timedelta(0)).result() == []
    assert Polling(alias, wait=timedelta(seconds=-1)).result() == []


def test_the_answer_comes_when_the_time_is_over(alias):
    began = time.monotonic()
    assert Polling(alias, wait=timedelta(seconds=0.2)).result() == []
    assert time.monotonic() - began >= 0.2


def test_a_job_of_this_process_wakes_who_waits(alias):
    poll = Polling(alias)
    waiting(alias)
    job = create(alias)
    assert [each.key for each in poll.result()] == [job.job_key]


def test_a_job_of_another_process_wakes_who_waits(alias):
    poll = Polling(alias)
    waiting(alias)
    jobs = []
    elsewhere(alias, lambda: jobs.append(create(alias)))
    assert [each.key for each in poll.result()] == [jobs[0].job_key]


def test_each_of_two_who_wait_gets_a_job(alias):
    polls = [Polling(alias), Polling(alias)]
    waiting(alias, 2)
    external_jobs("pay", [{}, {}], database=alias)  # one word for both
    assert sorted(len(each.result()) for each in polls) == [1, 1]


def test_the_end_of_a_deadline_wakes_who_waits(alias):
    job = create(alias)
    held = Polling(alias, fetch(timeout=timedelta(seconds=0.3))).result()
    assert [each.key for each in Polling(alias).result()] == [job.job_key] == [each.key for each in held]


def test_the_end_of_a_back_off_wakes_who_waits(alias):
    job = create(alias)
    Polling(alias).result()
    poll = Polling(alias)
    waiting(alias)
    fail_external_job(alias, job.job_key, retries=2, back_off=timedelta(seconds=0.3))
    assert [each.retries for each in poll.result()] == [2]


@pytest.mark.gate
def test_a_job_that_is_due_soon_reaches_who_waits(alias, monkeypatch):
    monkeypatch.setattr(watch, "PROBE", 3600.0)
    poll = Polling(alias)
    waiting(alias)
    until(lambda: not long_polling.of(alias)._watch._stale)  # it has asked when the next job comes: there is none
    jobs = []
    elsewhere(alias, lambda: jobs.append(external_job("pay", delay=0.3, database=alias)))
    assert [each.key for each in poll.result()] == [jobs[0].job_key]


@pytest.mark.gate
def test_siblings_that_fill_a_page_keep_nobody_from_what_is_behind_them(alias, monkeypatch):
    monkeypatch.setattr(watch, "PROBE", 3600.0)
    polls = [Polling(alias, fetch(max_jobs=3)) for _ in range(2)]
    waiting(alias, 2)
    with transaction.atomic(using=alias):
        for _ in range(6):
            external_job("pay", process_instance_id="p", database=alias)
        external_jobs("pay", [{}, {}, {}], database=alias)
    assert sorted(len(each.result()) for each in polls) == [1, 3]


def test_a_lost_notice_is_repaired_by_a_probe(alias, monkeypatch):
    monkeypatch.setattr(watch, "PROBE", 0.2)
    monkeypatch.setattr(wake_up_source.NotificationSource, "ask", lambda self: self._listener._read())
    monkeypatch.setattr(wake_up_source.CommitCounterSource, "ask", lambda self: None)
    poll = Polling(alias)
    waiting(alias)
    jobs = []
    elsewhere(alias, lambda: jobs.append(create(alias)))
    assert [each.key for each in poll.result()] == [jobs[0].job_key]


def test_a_thread_waits_without_a_connection(alias):
    found, seen = [], []

    def poll():
        look = long_polling.hub.ThreadPlace.wait

        def wait(place, moment):
            seen.append([each.alias for each in connections.all(initialized_only=True) if each.connection is not None])
            return look(place, moment)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(long_polling.hub.ThreadPlace, "wait", wait)
            found.extend(long_polling.poll_in_thread(alias, fetch(), LONG))
        connections.close_all()

    thread = threading.Thread(target=poll)
    thread.start()
    waiting(alias)
    until(lambda: seen)
    job = create(alias)
    thread.join(TIMEOUT)
    assert [each.key for each in found] == [job.job_key]
    assert seen[0] == []


def test_only_some_threads_wait(alias, settings):
    settings.JOBEXEC = {**settings.JOBEXEC, "GATEWAY_MAX_WAITERS_IN_THREADS": 0}
    with pytest.raises(long_polling.TooManyWaiters):
        long_polling.poll_in_thread(alias, fetch(), LONG)
    assert long_polling.poll_in_thread(alias, fetch(), timedelta(0)) == []
    create(alias)
    assert len(long_polling.poll_in_thread(alias, fetch(), LONG)) == 1


def test_one_client_does_not_take_the_places_of_all(alias, settings):
    settings.JOBEXEC = {**settings.JOBEXEC, "GATEWAY_MAX_WAITERS": 4}

    async def story():
        greedy = [asyncio.create_task(long_polling.poll(alias, fetch(), LONG, client="greedy")) for _ in range(5)]
        await asyncio.wait(greedy[3:])
        refused = [task.exception() for task in greedy if task.done()]
        other = asyncio.create_task(long_polling.poll(alias, fetch(), LONG, client="other"))
        await asyncio.to_thread(waiting, alias, 4)
        assert (
            await long_polling.poll(alias, fetch(), timedelta(0), client="greedy") == []
        )  # who does not wait is served
        for task in (*greedy, other):
            task.cancel()
        await asyncio.gather(*greedy, other, return_exceptions=True)
        return refused

    assert list(map(type, asyncio.run(story()))) == [long_polling.TooManyWaiters] * 2


def test_for_who_is_cancelled_while_jobs_are_looked_for_nothing_stays_locked(alias, monkeypatch):
    """The client goes while its jobs are being locked, or when that is committed and not yet told."""
    job = create(alias)
    looked, go = threading.Event(), threading.Event()

    def slow(using, what):
        jobs = activate(using, what)
        looked.set()
        go.wait(TIMEOUT)
        return jobs

    activate = polling.activate_jobs
    monkeypatch.setattr(polling, "activate_jobs", slow)

    async def story():
        task = asyncio.create_task(long_polling.poll(alias, fetch(), LONG))
        await asyncio.to_thread(looked.wait, TIMEOUT)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        go.set()

    asyncio.run(story())
    until(lambda: ExternalWorkerJob.objects.using(alias).get(pk=job.pk).lock_owner is None)
    monkeypatch.undo()
    assert [each.key for each in Polling(alias).result()] == [job.job_key]


def test_nothing_is_locked_for_who_is_cancelled_before_the_commit(alias):
    job = create(alias)
    asked, go = threading.Event(), threading.Event()

    async def story():
        def alive():
            asked.set()
            go.wait(TIMEOUT)
            return True

        task = asyncio.create_task(long_polling.poll(alias, fetch(is_alive=alive), LONG))
        await asyncio.to_thread(asked.wait, TIMEOUT)
        task.cancel()
        go.set()
        await asyncio.gather(task, return_exceptions=True)

    asyncio.run(story())
    assert [each.key for each in Polling(alias).result()] == [job.job_key]
    assert ExternalWorkerJob.objects.using(alias).get(pk=job.pk).attempts <= 2


def test_what_was_locked_for_who_is_cancelled_others_look_for_again(alias):
    """They passed over it while he had it locked, and he was the one who was told of it."""
    table, looked, others, go = [], threading.Event(), [], threading.Event()

    def slow(alive):
        looked.set()
        go.wait(TIMEOUT)
        table.append(SimpleNamespace(type="pay", deadline=clock.now(alias) + HOUR))
        return []  # rolled back

    def quick(alive):
        others.append(len(table))
        return list(table)

    async def story():
        gone = asyncio.create_task(long_polling.search(alias, long_polling.Search(types=["pay"], look=slow), LONG))
        await asyncio.to_thread(looked.wait, TIMEOUT)
        other = asyncio.create_task(long_polling.search(alias, long_polling.Search(types=["pay"], look=quick), LONG))
        await asyncio.to_thread(until, lambda: others)
        gone.cancel()
        await asyncio.gather(gone, return_exceptions=True)
        go.set()
        return await other

    assert asyncio.run(story()) == table
    # Whoever begins to listen wakes all once, in case that something was said before: a look that finds nothing.
    assert (others[0], others[-1], others.count(1)) == (0, 1, 1)
    assert len(others) <= 4


def test_jobs_that_could_not_be_sent_are_given_back_also_in_an_overload(alias, monkeypatch):
    job = create(alias)
    jobs = long_polling.poll_in_thread(alias, fetch(), timedelta(0))
    monkeypatch.setattr("jobexec.runtime.database_threads.LONGEST_LINE", 0)
    long_polling.give_back(alias, jobs)
    until(lambda: ExternalWorkerJob.objects.using(alias).get(pk=job.pk).lock_owner is None)


def test_who_gets_less_than_he_asked_for_since_that_was_too_much_wakes_others(alias, monkeypatch):
    monkeypatch.setattr(polling, "MAX_JOBS", 2)
    monkeypatch.setattr("jobexec.operations.external.fetch.MAX_JOBS", 2)
    monkeypatch.setattr(watch, "PROBE", 2 * TIMEOUT)
    polls = [Polling(alias, fetch(max_jobs=1_000_000)) for _ in range(2)]
    waiting(alias, 2)
    external_jobs("pay", [{}] * 4, database=alias)
    assert [len(each.result()) for each in polls] == [2, 2]


def test_closing_answers_all_who_wait(alias):
    polls = [Polling(alias) for _ in range(3)]
    waiting(alias, 3)
    long_polling.close_all()
    assert [each.result() for each in polls] == [[], [], []]
    assert not threads(f"jobexec-hub-{alias}")


def test_nothing_runs_where_nobody_waits(alias, monkeypatch):
    monkeypatch.setattr(watch, "_IDLE", 0.05)
    monkeypatch.setattr(watch, "PROBE", 0.1)
    assert not threads(f"jobexec-hub-{alias}")
    Polling(alias, wait=timedelta(seconds=0.01)).result()
    until(lambda: not threads(f"jobexec-hub-{alias}"))
    poll = Polling(alias)  # and it begins anew
    waiting(alias)
    create(alias)
    assert len(poll.result()) == 1


def test_an_outage_of_the_database_is_survived(alias, monkeypatch):
    """What the thread asks fails for a while, and its connections with it; then word of jobs comes again."""
    failures = []

    def failing(using, types):
        if len(failures) < 2:
            failures.append(1)
            raise connections[using].Database.OperationalError("the server has gone away")
        return available(using, types)

    available = watch.available_types
    monkeypatch.setattr(watch, "available_types", failing)
    poll = Polling(alias)
    until(lambda: len(failures) == 2)
    jobs = []
    elsewhere(alias, lambda: jobs.append(create(alias)))
    assert [each.key for each in poll.result()] == [jobs[0].job_key]


def test_who_waits_for_a_moment_is_woken_then_even_if_the_first_look_for_it_failed(alias, monkeypatch):
    job = create(alias)
    ExternalWorkerJob.objects.using(alias).filter(pk=job.pk).update(available_at=clock.now(alias) + HOUR)
    asked = watch.Watch(alias, Queue(), lambda each: True)
    with ThreadPlace(asked._queue, ["pay"], None, long_polling.hub.always):
        asked.ask_about(["pay"])
        with monkeypatch.context() as patch:
            patch.setattr(watch, "next_times", lambda using, since: 1 / 0)
            with pytest.raises(ZeroDivisionError):
                asked._ask(asked._queue.types(), 1.0)
        asked._ask(asked._queue.types(), 2.0)
    assert set(asked._times) == {"pay"}


@pytest.mark.databases("postgresql")
def test_a_listener_that_is_cut_off_connects_again(alias):
    poll = Polling(alias)
    waiting(alias)
    thread_of = long_polling.of(alias)._watch
    until(lambda: thread_of._source.listening)
    pid = thread_of._source._listener._connection.info.backend_pid
    with connections[alias].cursor() as cursor:
        cursor.execute("SELECT pg_terminate_backend(%s)", [pid])
    until(lambda: thread_of._source.listening and thread_of._source._listener._connection.info.backend_pid != pid)
    waiting(alias)
    jobs = []
    elsewhere(alias, lambda: jobs.append(create(alias)))
    assert [each.key for each in poll.result()] == [jobs[0].job_key]


@pytest.mark.databases("postgresql")
def test_who_waits_is_not_woken_twice_for_one_job(alias, monkeypatch):
    """What this process commits comes back as a notification; it is not told directly, too, while that is heard."""
    poll = Polling(alias)
    ours = long_polling.of(alias)
    until(lambda: ours._watch is not None and ours._watch._probed_at > 0)
    waiting(alias)
    told = []
    monkeypatch.setattr(ours._watch, "_notice", told.append)
    ours.notify(alias, ["pay"])
    assert ["pay"] not in told
    monkeypatch.setattr(wake_up_source.NotificationSource, "hears_this_process", False)
    ours.notify(alias, ["pay"])
    ours.notify("another", ["pay"])
    assert [types for types in told if types] == [["pay"]]
    monkeypatch.undo()
    create(alias)
    assert len(poll.result()) == 1


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
@pytest.mark.databases("sqlite")
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_forked_process_has_no_hub_of_its_parent(alias):
    Polling(alias, wait=timedelta(seconds=0.01)).result()
    ours = long_polling.of(alias)
    child = os.fork()
    if not child:
        os._exit(0 if long_polling.of(alias) is not ours and not long_polling.of(alias).queue.types() else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


@pytest.mark.databases("sqlite")
def test_the_hub_of_a_database_without_an_engine_is_refused(alias):
    with pytest.raises(InvalidSettings):
        long_polling.of("nowhere")
