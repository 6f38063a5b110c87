"""A broker that is away, is restarted or cannot keep up costs time and no job, and no caller waits for it."""

import shutil
import socket
import subprocess
import threading

import pytest

from jobexec.broker import publisher as module
from jobexec.broker.message import Announcement
from jobexec.broker.publisher import Publisher, close_publishers, publisher
from jobexec.conf import get_settings
from jobexec.executor.job_executor import JobExecutor
from jobexec.identifiers import uuid7s
from tests.executor.broker.broker_bed import *  # noqa: F403
from tests.executor.broker.broker_bed import listens
from tests.support.executor import all_gone
from tests.support.factories import make_job
from tests.support.machines import brokers
from tests.support.machines.proxy import Proxy
from tests.support.waiting import TIMEOUT, passed, threads, until

pytestmark = [pytest.mark.transactional, pytest.mark.databases("postgresql")]

OFTEN = {"MAX_WAIT": 0.1}


@pytest.fixture
def ran(handle):
    done = []
    handle(done.append, name="tests.note")
    return done


def note(alias, number):
    make_job(alias, handler_type="tests.note", handler_configuration={"args": [number], "kwargs": {}})


@pytest.fixture
def proxy(broker):
    """The broker, reached by way of something that can be cut."""
    direct = broker.url
    proxy = Proxy(brokers.address(direct, broker.name))
    broker.url = brokers.moved(direct, proxy.port)
    yield proxy
    close_publishers(0)
    proxy.close()
    broker.url = direct


@pytest.mark.gate
def test_a_connection_that_is_cut(alias, proxy, start, looks, ran):
    executor = start(OFTEN)
    consumer = executor.engines[alias].consumer
    note(alias, 1)
    until(lambda: all_gone(alias))
    proxy.cut()
    until(lambda: consumer.away)
    note(alias, 2)  # as long as the broker is away, the node polls
    until(lambda: all_gone(alias))
    proxy.repair()
    until(lambda: not consumer.away)
    listens(executor, alias)
    until(lambda: publisher().flush(0.1))
    before = looks.found
    note(alias, 3)
    until(lambda: all_gone(alias))
    assert ran == [1, 2, 3] and looks.found == before


def closed_port():
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


def test_nobody_waits_for_a_broker_that_is_away(alias, configure, handle, ran, monkeypatch):
    configure(OFTEN, DISPATCH="broker", BROKER_URL=f"redis://127.0.0.1:{closed_port()}/0")
    go, in_time, send = threading.Event(), [], Publisher._send

    def hang(self, left):
        in_time.append(go.wait(TIMEOUT))
        return send(self, left)

    monkeypatch.setattr(Publisher, "_send", hang)
    for number in range(20):
        note(alias, number)
    go.set()
    until(lambda: in_time)
    assert in_time[0], "whoever enqueues has waited for the broker"
    until(lambda: publisher().failures)
    executor = JobExecutor(from_broker=True)
    executor.start()  # nor does a node that starts
    try:
        until(lambda: all_gone(alias))
        assert sorted(ran) == list(range(20))
    finally:
        executor.stop(5)
        close_publishers(0)
        until(lambda: not threads("jobexec-broker"))


def test_what_the_broker_is_too_slow_for_is_dropped_and_counted(alias, configure, monkeypatch):
    monkeypatch.setattr(module, "MOST_WAITING", 10)
    configure(DISPATCH="broker", BROKER_URL="memory://")
    slow, go = Publisher(get_settings()), threading.Event()
    monkeypatch.setattr(slow, "_send", lambda left: passed(go) or left.clear())
    ids = uuid7s(8)
    for _ in range(3):
        slow.announce([Announcement(alias, "default", "", 1, ids)])
    assert slow.dropped == 16
    go.set()
    assert slow.close(TIMEOUT)
    slow.announce([Announcement(alias, "default", "", 1, ids)])
    assert slow.dropped == 24  # who comes after the end is not heard either, and sees no error


class Redis:
    """A server of one test, without a memory of what it was told."""

    def __init__(self, folder):
        self.port, self._folder = closed_port(), folder
        self.start()

    def start(self):
        command = [shutil.which("redis-server"), "--port", str(self.port), "--save", "", "--bind", "127.0.0.1"]
        self._process = subprocess.Popen(command, cwd=self._folder, stdout=subprocess.DEVNULL)
        until(self._answers)

    def _answers(self):
        try:
            socket.create_connection(("127.0.0.1", self.port), timeout=5).close()
        except OSError:
            return False
        return True

    def kill(self):
        self._process.kill()
        self._process.wait(TIMEOUT)


@pytest.mark.gate
@pytest.mark.skipif(shutil.which("redis-server") is None, reason="redis-server is not installed")
def test_a_broker_that_is_killed_forgets_and_the_node_looks_when_it_is_back(alias, configure, handle, ran, tmp_path):
    redis = Redis(tmp_path)
    keys = {"DISPATCH": "broker", "BROKER_URL": f"redis://127.0.0.1:{redis.port}/0"}
    configure({"MAX_WAIT": 60, "MAX_WAIT_WHEN_LISTENING": 60}, **keys)
    executor = JobExecutor(from_broker=True)
    try:
        executor.start()
        listens(executor, alias)
        consumer = executor.engines[alias].consumer
        redis.kill()
        until(lambda: consumer.away)
        note(alias, 1)
        publisher().close(0)  # what it had to say is lost, too
        redis.start()
        until(lambda: all_gone(alias))  # long before a minute has passed: by a look, because nobody told it
        until(lambda: not consumer.away)
    finally:
        executor.stop(5)
        close_publishers(0)
        redis.kill()
    assert ran == [1]
