"""Several nodes at one broker: a full one keeps nothing from the others, one that stops or dies loses nothing."""

import json
import threading
from collections import Counter

import pytest

from jobexec.broker.publisher import publisher
from jobexec.executor.loops.broker_consumer import BrokerConsumer
from jobexec.models import Job
from jobexec.operations import create_jobs
from tests.executor.broker.broker_bed import *  # noqa: F403
from tests.support.executor import all_gone
from tests.support.factories import make_job
from tests.support.waiting import TIMEOUT, until

pytestmark = [pytest.mark.transactional, pytest.mark.databases("postgresql")]


@pytest.fixture
def gate(handle):
    """`tests.wait` runs until the gate opens."""
    gate = threading.Event()
    gate.entered = []

    def wait(context):
        gate.entered.append(context.work.lock_owner.partition(":")[0])
        assert gate.wait(TIMEOUT)

    handle(wait, name="tests.wait", takes_context=True)
    yield gate
    gate.set()


def announced(broker, alias):
    return Counter(id for body in broker.messages(alias) for id in json.loads(body)["ids"])


def one_by_one(alias, count):
    ids = []
    for _ in range(count):
        ids.append(make_job(alias, handler_type="tests.wait").pk)
        assert publisher().flush(TIMEOUT)
    return ids


SMALL = {"THREADS": 1, "QUEUE_SIZE": 2, "ASYNC_JOBS": 0}


@pytest.mark.gate
def test_a_full_node_gives_back_what_it_cannot_take(alias, broker, start, gate):
    executor = start(**SMALL)
    consumer = executor.engines[alias].consumer
    ids = one_by_one(alias, 12)
    until(lambda: consumer.paused and not consumer.inbox.unsettled)
    held = set(Job.objects.using(alias).exclude(lock_owner=None).values_list("pk", flat=True))
    assert 1 <= len(held) <= 3  # threads and queue, and nothing beside
    other = start(**{**SMALL, "THREADS": 20, "NODE_NAME": "there"})
    until(lambda: gate.entered.count("there") + len(held) == len(ids))
    gate.set()
    until(lambda: all_gone(alias))
    assert not other.engines[alias].consumer.paused
    until(lambda: not consumer.paused)  # a message would wake it, if there were one; it asks the pool
    assert len(gate.entered) == 12


@pytest.mark.gate
def test_a_node_that_stops_gives_prefetched_messages_back(alias, broker, start, gate, monkeypatch):
    monkeypatch.setattr("jobexec.executor.loops.broker_consumer.PATIENCE", 3600)
    executor = start(**SMALL)
    inbox = executor.engines[alias].consumer.inbox
    ids = one_by_one(alias, 8)
    until(lambda: inbox.unsettled + Job.objects.using(alias).exclude(lock_owner=None).count() >= len(ids))
    assert inbox.unsettled
    stopping = threading.Thread(target=executor.stop, args=(TIMEOUT,))
    stopping.start()
    until(lambda: executor.shutting_down and not inbox.unsettled)
    gate.set()
    stopping.join(TIMEOUT)
    left = set(Job.objects.using(alias).values_list("pk", flat=True))
    assert left and not Job.objects.using(alias).exclude(lock_owner=None).exists()
    assert publisher().flush(TIMEOUT)
    assert {id.hex for id in left} <= announced(broker, alias).keys()


@pytest.mark.gate
def test_a_node_that_dies_before_it_acknowledges_leaves_a_duplicate(alias, broker, start, gate, monkeypatch):
    """Between the lock and the acknowledgement: the broker delivers the message anew, and the row says no."""
    answer = BrokerConsumer._answer
    monkeypatch.setattr(BrokerConsumer, "_answer", lambda self: None)
    executor = start(THREADS=1, ASYNC_JOBS=0)
    consumer = executor.engines[alias].consumer
    one_by_one(alias, 1)
    until(lambda: gate.entered)
    assert consumer.inbox.unsettled == 1
    monkeypatch.setattr(BrokerConsumer, "_answer", answer)
    consumer.stop(TIMEOUT)  # its connection goes, and with it what was not acknowledged
    consumer.inbox.forget()
    there = start(NODE_NAME="there")
    make_job(alias, handler_type="tests.wait")
    until(lambda: len(gate.entered) == 2)
    gate.set()
    until(lambda: all_gone(alias))
    until(lambda: not there.engines[alias].consumer.inbox.unsettled)
    assert len(gate.entered) == 2


@pytest.mark.slow
def test_each_of_many_jobs_runs_once_on_several_nodes(alias, start, handle, looks):
    ran = []
    handle(ran.append, name="tests.note")
    nodes = [start(NODE_NAME=f"node-{number}", THREADS=4) for number in range(3)]
    rows = [{"handler_type": "tests.note", "handler_configuration": {"args": [n], "kwargs": {}}} for n in range(2000)]
    for first in range(0, 2000, 400):
        create_jobs(alias, rows[first : first + 400])
    until(lambda: all_gone(alias))
    assert sorted(ran) == list(range(2000))
    assert looks.found == 0
    assert sum(node.pool.done for node in nodes) == 2000
