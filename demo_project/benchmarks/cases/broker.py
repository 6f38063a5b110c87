"""A broker as dispatcher, beside polling: how many jobs a second, and how soon a single one begins."""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any, ClassVar

from django.db import transaction

from jobexec.broker import connection as broker
from jobexec.broker.message import queue_name
from jobexec.broker.publisher import close_publishers
from jobexec.conf import Settings
from jobexec.executor.job_executor import JobExecutor
from jobexec.handlers.function import JobFunction
from jobexec.operations.notify import wake

from .. import ours
from ..case import Case
from ..measure import BenchError, Sample, Stopwatch
from ..noop import CATEGORY, fill, registered, wait_for
from ..report import Shown
from ..sandbox import overridden, tidy

_SINGLE = 50  # jobs, one at a time on an idle node
_WARM_UP = 3
_LONGEST_PAUSE = 0.03

Noop = JobFunction[[int], None]
Produce = Callable[[Noop, int], None]


class BrokerCase(Case):
    """An idle node is told of jobs as from another process: ``ours`` by the broker, ``raw`` by the database.

    First single jobs with pauses between them, from whose commits to the starts of their handlers the latencies are
    taken; then all others, in a transaction each (or by ``enqueue_many``: ``many``), while the node runs them, timed
    from the first to the outcome of the last.
    """

    name: ClassVar[str] = "broker"
    summary: ClassVar[str] = "jobs announced on a broker (BROKER_URL) and run, against polling and NOTIFY (raw)"
    default_jobs: ClassVar[int] = 5_000
    ratios = (("ours, many", "raw, many"),)
    shown: ClassVar[Shown] = Shown(figures={"single_p50": "ms", "single_p99": "ms"})

    def contenders(self) -> Mapping[str, Callable[[], Sample]]:
        told, polls = self._told, self._polls
        return {
            "ours": lambda: told(_one_by_one),
            "raw": lambda: polls(_one_by_one),
            "ours, many": lambda: told(fill),
            "raw, many": lambda: polls(fill),
        }

    def facts(self) -> Mapping[str, str]:
        return {"broker": broker.broker_name(self._settings)}

    @property
    def _settings(self) -> Settings:
        plan = self.plan
        url = plan.options.get("broker_url") or plan.settings.broker_url
        if not url:
            raise BenchError("--broker-url: the case broker needs the address of a broker, or the setting BROKER_URL.")
        prefix = f"jobbench-{os.getpid()}"
        return plan.settings.replace(dispatch="broker", broker_url=url, broker_queue_prefix=prefix)

    def _told(self, produce: Produce) -> Sample:
        settings = self._settings
        with _queue(settings, self.plan.alias), overridden(settings):
            return self._run(produce, JobExecutor(settings, from_broker=True))

    def _polls(self, produce: Produce) -> Sample:
        settings = self.plan.settings.replace(dispatch="database")
        with overridden(settings):
            return self._run(produce, JobExecutor(settings))

    def _run(self, produce: Produce, executor: JobExecutor) -> Sample:
        alias, singles = self.plan.alias, _Singles(self.plan.alias)
        ledger = self.ledger()
        tidy(alias)
        try:
            with registered(alias, singles.start) as handler:
                executor.start()
                wake.remove_listener(executor.engines[alias].hear)
                singles.run(handler, executor)
            with registered(alias, ledger.note) as handler, Stopwatch(alias) as watch:
                produce(handler, self.plan.jobs)
                ledger.wait()
                wait_for(lambda: executor.idle, "the executor settles what it has run")
        finally:
            executor.stop()
        ledger.check()
        ours.check_nothing_left(alias)
        return watch.sample(ledger.wanted, figures=singles.figures())


class _Singles:
    """One job after the other on an idle node, and how long each took to begin."""

    def __init__(self, alias: str) -> None:
        self._alias = alias
        self._committed: dict[int, float] = {}
        self._began: dict[int, float] = {}

    def start(self, number: int) -> None:
        self._began[number] = time.perf_counter()

    def run(self, handler: Noop, executor: JobExecutor) -> None:
        for number in range(_SINGLE + _WARM_UP):
            time.sleep(random.uniform(0.01, _LONGEST_PAUSE))
            with transaction.atomic(using=self._alias):
                transaction.on_commit(partial(self._commit, number), using=self._alias)
                handler.enqueue(number)
            wait_for(partial(self._began.__contains__, number), "a job begins")
            wait_for(lambda: executor.idle, "a job is settled")

    def _commit(self, number: int) -> None:
        self._committed[number] = time.perf_counter()

    def figures(self) -> dict[str, float]:
        """Milliseconds."""
        times = sorted(
            1000 * max(0.0, self._began[number] - self._committed[number])
            for number in range(_WARM_UP, _WARM_UP + _SINGLE)
        )
        return {"single_p50": times[len(times) // 2], "single_p99": times[round(0.99 * len(times)) - 1]}


def _one_by_one(handler: Noop, jobs: int) -> None:
    for number in range(jobs):
        handler.enqueue(number)


@contextmanager
def _queue(settings: Settings, alias: str) -> Iterator[None]:
    """The benchmark's own queue, which is deleted afterwards. Raises BenchError if the broker does not answer."""
    queue: Any = broker.queue(queue_name(settings.broker_queue_prefix, alias, CATEGORY))
    try:
        connection = broker.connect(settings)
    except Exception as error:
        raise BenchError(f"The broker {broker.broker_name(settings)} does not answer: {error}") from error
    try:
        yield
    finally:
        close_publishers()
        bound = queue(connection.channel())
        bound.declare()
        bound.delete()
        connection.release()
