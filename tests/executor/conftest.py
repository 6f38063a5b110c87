"""What the tests of the executor share: settings with one engine, handlers for one test, executors that are stopped."""

import pytest
from django.db import connections
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from jobexec import clock
from jobexec.conf import get_settings
from jobexec.executor.job_executor import JobExecutor
from jobexec.executor.loops import settlement
from jobexec.executor.loops.settlement import Settlement
from jobexec.executor.nodes.node import Node
from jobexec.operations.values.failure_log import failure_log
from tests.support.factories import acquire, make_job
from tests.support.waiting import TIMEOUT, threads, until

QUICK = {"GRACE_PERIOD": 10, "THREADS": 4, "QUEUE_SIZE": 20, "SETTLE_WITHIN": 0.005, "NODE_NAME": "here"}


@pytest.fixture
def spans(monkeypatch):
    """What was exported; a provider is set up as a project would."""
    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    monkeypatch.setattr(trace, "_TRACER_PROVIDER", provider)
    yield exporter.get_finished_spans


@pytest.fixture(autouse=True)
def configure(request, settings):
    """A function that changes JOBEXEC; `engine` holds keys for the test's engine, which is the only one."""
    alias = request.getfixturevalue("alias") if "alias" in request.fixturenames else None

    def change(engine=None, **keys):
        engines = {alias: dict(engine or {})} if alias else {name: dict(engine or {}) for name in connections}
        settings.JOBEXEC = {"ENGINES": engines, **QUICK, **keys}

    change()
    return change


@pytest.fixture(autouse=True)
def own_time():
    """Nodes set the clock by their database, and count what they log; the next test starts anew."""
    failure_log.forget()
    yield
    clock.forget()


@pytest.fixture
def make_executor(configure):
    """A function that makes an executor from settings; all are stopped at the end, and leave no thread behind."""
    made = []

    def make(engine=None, **keys):
        configure(engine, **keys)
        made.append(JobExecutor())
        return made[-1]

    yield make
    for executor in made:
        executor.stop(5)
    until(lambda: not threads())


@pytest.fixture
def service(alias, monkeypatch):
    """A settlement with a registered node; not started."""
    monkeypatch.setattr(settlement, "_FIRST_PAUSE", 0.01)
    settings = get_settings()
    node = Node(settings, settings.engine(alias), dict)
    node.register()
    service = Settlement(node, lambda: None)
    service.node = node
    yield service
    service.stop(TIMEOUT)
    until(lambda: not threads("jobexec-settlement"))


@pytest.fixture
def jobs(alias, service):
    """A function that makes jobs and acquires them for the service's node."""

    def make(count, **columns):
        for _ in range(count):
            make_job(alias, **columns)
        return acquire(alias, service.node.owner)

    return make
