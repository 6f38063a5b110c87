"""Fixtures of the tests with real brokers: one broker each, nodes that are told by it, and who looks at the table."""

import pytest

from jobexec import clock
from jobexec.broker.publisher import close_publishers
from jobexec.executor.job_executor import JobExecutor
from jobexec.executor.loops import acquisition
from tests.support.machines import brokers
from tests.support.waiting import threads, until

__all__ = ["broker", "looks", "start"]


@pytest.fixture(params=brokers.parameters())
def broker(request, alias, configure, monkeypatch):
    """Each broker that answers here, with queues of its own; jobs are announced on it."""
    if request.param == "redis":  # who stops need not wait for a second until Redis has said that there is nothing
        monkeypatch.setattr("kombu.transport.redis.Transport.brpop_timeout", 0.1)
    broker = brokers.Broker(request.param, brokers.URLS[request.param])
    configure(**broker.settings(CATEGORIES=["default", "mail"]))
    yield broker
    close_publishers()
    broker.remove(alias)


@pytest.fixture
def start(alias, broker, configure):
    """A function that starts a node that is told by the broker; it returns when the node listens and has looked."""
    made = []

    def make(engine=None, wait=True, **keys):
        keys.setdefault("QUEUE_SIZE", 200)
        configure(engine, **broker.settings(**{"CATEGORIES": ["default", "mail"], **keys}))
        executor = JobExecutor(from_broker=True)
        made.append(executor)
        executor.start()
        if wait:
            listens(executor, alias)
        return executor

    yield make
    for executor in made:
        executor.stop(5)
    until(lambda: not threads("jobexec-broker") and not threads("jobexec-acq"))


def listens(executor, alias):
    engine = executor.engines[alias]
    acquisition = engine.acquisitions[alias]
    until(lambda: engine.consumer._consumer is not None and not acquisition._asked)
    until(lambda: acquisition.round_began is None)  # that look has ended, too
    until(lambda: acquisition._look_at > clock.monotonic() + 1)


@pytest.fixture
def looks(monkeypatch):
    """Counts how often a node asks the table for whatever there is, and the jobs that it has found there."""

    class Looks:
        count = found = 0

    real = acquisition.acquire_jobs

    def acquire_jobs(*args, **kwargs):
        Looks.count += 1
        result = real(*args, **kwargs)
        Looks.found += len(result.jobs)
        return result

    monkeypatch.setattr(acquisition, "acquire_jobs", acquire_jobs)
    return Looks
