"""Jobs that are announced on a real broker run without a look at the table; what is lost is found by one."""

import json
import threading

import pytest
from django.db import transaction

from jobexec import clock
from jobexec.broker.publisher import publisher
from jobexec.models import Job
from jobexec.operations import create_jobs
from tests.executor.broker.broker_bed import *  # noqa: F403
from tests.support.executor import all_gone
from tests.support.factories import make_job
from tests.support.waiting import TIMEOUT, passed, until

pytestmark = [pytest.mark.transactional, pytest.mark.databases("postgresql")]


def note(alias, number=0, **columns):
    columns.setdefault("handler_configuration", {"args": [number], "kwargs": {}})
    return make_job(alias, handler_type="tests.note", **columns)


@pytest.fixture
def ran(handle):
    """What was run, in order."""
    done = []
    handle(done.append, name="tests.note")
    return done


def test_runs_what_is_enqueued_and_does_not_look_at_the_table(alias, start, looks, ran):
    start()
    before = looks.count
    for number in range(20):
        note(alias, number)
    until(lambda: all_gone(alias))
    assert sorted(ran) == list(range(20))
    assert looks.found == 0
    assert looks.count <= before + 2, "one that nothing is found by is allowed"


def test_many_in_one_transaction_are_few_messages(alias, broker, start, ran):
    rows = [{"handler_type": "tests.note", "handler_configuration": {"args": [n], "kwargs": {}}} for n in range(120)]
    with transaction.atomic(using=alias):
        create_jobs(alias, rows[:60])
        create_jobs(alias, rows[60:])
    assert publisher().flush(TIMEOUT)
    messages = [json.loads(body) for body in broker.messages(alias)]
    assert [len(each["ids"]) for each in messages] == [50, 50, 20]
    assert {(each["v"], each["engine"], each["category"], each["deployment"]) for each in messages} == {
        (1, alias, "default", "")
    }
    assert publisher().published == 120


def test_what_is_rolled_back_is_not_announced(alias, broker, start):
    with transaction.atomic(using=alias):
        note(alias)
        transaction.set_rollback(True, using=alias)
    with transaction.atomic(using=alias):
        kept = note(alias)
        with pytest.raises(ValueError), transaction.atomic(using=alias):
            note(alias)
            raise ValueError
    assert publisher().flush(TIMEOUT)
    announced = [id for body in broker.messages(alias) for id in json.loads(body)["ids"]]
    # One of a savepoint that was rolled back may be among them: nobody finds it.
    assert kept.pk.hex in announced and len(announced) <= 2


@pytest.mark.gate
def test_a_job_that_waited_before_the_node_came_is_found_at_its_start(alias, broker, start, looks, ran):
    note(alias, 1)
    assert publisher().flush(TIMEOUT) and broker.purge(alias) == 1
    start()
    until(lambda: all_gone(alias))
    assert ran == [1] and looks.count >= 1


@pytest.mark.gate
def test_a_lost_message_is_found_by_the_slow_poll(alias, broker, start, looks, ran, monkeypatch):
    executor = start()
    loop, before = executor.engines[alias].acquisitions[alias], looks.count
    monkeypatch.setattr(publisher(), "announce", lambda announcements: list(announcements))
    note(alias, 1)
    assert Job.objects.using(alias).get().lock_owner is None
    assert 50 < loop._look_at - clock.monotonic() <= 60  # BROKER_POLL_INTERVAL
    loop._look_at -= 60  # as if it had passed
    loop.wake()
    until(lambda: all_gone(alias))
    assert ran == [1] and looks.found == 1
    assert before < looks.count <= before + 2


@pytest.mark.gate
def test_a_duplicate_message_is_harmless(alias, broker, start, ran):
    note(alias, 1)
    assert publisher().flush(TIMEOUT)
    (body,) = broker.messages(alias)
    for _ in range(5):
        broker.say(alias, body)
    executor = start()
    for _ in range(5):
        broker.say(alias, body)
    until(lambda: all_gone(alias) and not executor.engines[alias].consumer.inbox.unsettled)
    note(alias, 2)
    until(lambda: all_gone(alias))
    assert ran == [1, 2]
    until(lambda: broker.messages(alias) == [])


@pytest.mark.gate
@pytest.mark.parametrize("body", ["nothing", '{"v":2,"engine":"x"}', '{"v":1,"engine":"other","ids":[]}', "[]"])
def test_a_message_of_another_release_is_a_reason_to_look(alias, broker, start, looks, body):
    start()
    before = looks.count
    broker.say(alias, body)
    until(lambda: looks.count > before)
    until(lambda: broker.messages(alias) == [])


@pytest.mark.gate
def test_a_category_and_a_priority_of_its_own(alias, broker, start, ran):
    for number, priority in enumerate((-5, 0, 5)):
        note(alias, number, priority=priority)
    note(alias, 3, category="mail")
    assert publisher().flush(TIMEOUT)
    start(THREADS=1, ASYNC_JOBS=0)
    until(lambda: all_gone(alias))
    assert sorted(ran) == [0, 1, 2, 3]


@pytest.mark.gate
def test_exclusive_siblings_are_announced_when_their_instance_is_free(alias, start, looks, handle):
    busy, overlaps, done = [], [], []
    entered, go = threading.Event(), threading.Event()

    def one_at_a_time(number):
        overlaps.append(len(busy))
        busy.append(number)
        entered.set()
        passed(go)
        busy.remove(number)
        done.append(number)

    handle(one_at_a_time, name="tests.note")
    start()
    note(alias, 0, process_instance_id="p", exclusive=True)
    passed(entered)
    for number in (1, 2, 3):  # their messages come while the instance is locked
        note(alias, number, process_instance_id="p", exclusive=True)
    assert publisher().flush(TIMEOUT)
    note(alias, 9, process_instance_id="q", exclusive=True)
    until(lambda: len(busy) == 2)  # so the others were heard, too
    go.set()
    until(lambda: all_gone(alias))
    assert sorted(done) == [0, 1, 2, 3, 9]
    assert looks.found == 0


@pytest.mark.gate
def test_a_retry_is_announced_when_it_is_due(alias, start, looks, handle):
    tries = []

    def fail_once():
        tries.append(1)
        if len(tries) == 1:
            raise ValueError("once")

    handle(fail_once, name="tests.note", retries="R3/PT0.05S")
    start()
    make_job(alias, handler_type="tests.note", retry_plan="R3/PT0.05S")
    until(lambda: all_gone(alias))
    assert len(tries) == 2 and looks.found == 0
