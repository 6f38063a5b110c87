"""OpenTelemetry: the trace goes with the job, each run is a span in it."""

import asyncio

import pytest
from opentelemetry import trace
from opentelemetry.trace import SpanKind, StatusCode

from jobexec import tracing
from jobexec.exceptions import JobCancelled
from jobexec.executor.execute_now import execute_now
from jobexec.models import Job, TimerJob
from jobexec.operations import acquire_jobs
from jobexec.operations.enqueue.create import create_jobs
from jobexec.operations.external.create import create_external_jobs
from jobexec.operations.values.acquired_job import ServedJobs
from tests.support.executor import Host, all_gone, run_one
from tests.support.factories import LOCK_TIME, make_job
from tests.support.gate import Gate
from tests.support.waiting import TIMEOUT, until

HEADER = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


def shop():
    return trace.get_tracer("shop").start_as_current_span("order")


def runs(spans):
    return [span for span in spans() if span.name.startswith("process ")]


def of(span):
    context = span.get_span_context()
    return f"00-{context.trace_id:032x}-{context.span_id:016x}-{context.trace_flags:02x}"


def run_all(alias, host=None):
    """As an executor that traces: its scope is wide."""
    from jobexec.executor.run.execution import execute_batch
    from jobexec.runtime.threads import call_in_thread

    jobs = acquire_jobs(alias, "one", 99, ServedJobs(wide=True), lock_time=LOCK_TIME).jobs
    host = host or Host()
    for job in jobs:
        call_in_thread("jobexec-one", lambda job=job: execute_batch([job], host), 60)


# -- enqueueing ------------------------------------------------------------------------------------------------


def test_the_current_span_goes_with_every_way_to_enqueue(alias, spans, handle):
    handler = handle(lambda number=0: None, name="tests.fine").using(database=alias)
    with shop() as order:
        handler.enqueue()
        handler.using(delay=60).enqueue()
        handler.enqueue_many([(1,), (2,)])
        create_jobs(alias, [{"handler_type": "tests.fine"}])
    handler.enqueue()
    found = [*Job.objects.using(alias).order_by("id"), *TimerJob.objects.using(alias).all()]
    assert [row.traceparent for row in found] == [of(order)] * 4 + [""] + [of(order)]


def test_the_row_that_enqueue_returns_says_the_same(alias, spans, handle):
    handler = handle(lambda: None, name="tests.fine").using(database=alias)
    with shop() as order:
        assert handler.enqueue().traceparent == handler.enqueue_many([()])[0].traceparent == of(order)


@pytest.mark.parametrize("headers", [{}, {"traceparent": HEADER}])
def test_a_job_for_workers_that_a_step_gives_a_trace_keeps_it(alias, spans, headers):
    given = HEADER.replace("b7", "c8")
    with shop():
        columns = {"handler_type": "pay", "custom_headers": headers, "traceparent": headers.get("traceparent") or given}
        (row,) = create_external_jobs(alias, columns, [{"variables": {}}])
    assert row.traceparent == (HEADER if headers else given)


@pytest.mark.parametrize("name", ["traceparent", "Traceparent"])
def test_a_header_of_the_callers_own_wins(alias, spans, handle, name):
    handler = handle(lambda: None, name="tests.fine").using(database=alias, headers={name: HEADER})
    with shop():
        assert handler.enqueue().traceparent == HEADER


@pytest.mark.parametrize(
    "header", ["", "x", HEADER.upper(), HEADER + "-1", "ff" + HEADER[2:], f"00-{'0' * 32}-b7ad6b7169203331-01", 5, None]
)
def test_a_header_that_is_no_trace_context_is_not_taken_for_one(alias, spans, handle, header):
    handler = handle(lambda: None, name="tests.fine").using(database=alias, headers={"traceparent": header})
    assert handler.enqueue().traceparent == ""
    with shop() as order:
        assert handler.enqueue().traceparent == of(order)


@pytest.mark.transactional
def test_without_the_package_nobody_asks_for_a_span(alias, handle, monkeypatch):
    monkeypatch.setattr(tracing, "AVAILABLE", False)
    monkeypatch.setattr(tracing, "trace", None)
    handler = handle(lambda: None, name="tests.fine").using(database=alias)
    assert handler.enqueue().traceparent == ""
    assert handler.using(headers={"traceparent": HEADER}).enqueue().traceparent == HEADER
    assert not tracing.enabled()
    run_all(alias)
    assert all_gone(alias)


# -- running ---------------------------------------------------------------------------------------------------


@pytest.mark.transactional
@pytest.mark.parametrize("atomic", [False, True])
def test_a_run_is_a_span_in_the_trace_of_whoever_enqueued(alias, spans, handle, atomic):
    seen = []
    handler = handle(lambda: seen.append(trace.get_current_span()), name="tests.fine", atomic=atomic)
    with shop() as order:
        row = handler.using(database=alias, tenant_id="acme", process_instance_id="order-1", exclusive=False).enqueue()
    run_all(alias)
    (run,) = runs(spans)
    assert (run.name, run.kind) == ("process tests.fine", SpanKind.CONSUMER)
    assert run.parent.span_id == order.get_span_context().span_id
    assert run.context.trace_id == order.get_span_context().trace_id
    assert run.parent.is_remote
    assert seen[0].get_span_context() == run.context, "what the handler does is below it"
    assert dict(run.attributes) == {
        "messaging.system": "jobexec",
        "messaging.operation.name": "process",
        "messaging.operation.type": "process",
        "messaging.destination.name": "default",
        "messaging.message.id": str(row.pk),
        "messaging.client.id": "test host",
        "jobexec.handler_type": "tests.fine",
        "jobexec.attempt": 1,
        "jobexec.engine": alias,
        "jobexec.tenant_id": "acme",
        "jobexec.process_instance_id": "order-1",
        "jobexec.outcome": "successful",
    }
    assert run.status.status_code is StatusCode.UNSET
    assert not trace.get_current_span().get_span_context().is_valid


@pytest.mark.transactional
def test_a_job_that_a_job_enqueues_is_in_the_same_trace(alias, spans, handle):
    second = handle(lambda: None, name="tests.second").using(database=alias)
    first = handle(lambda: second.enqueue(), name="tests.first").using(database=alias)
    with shop():
        first.enqueue()
    run_all(alias)
    run_all(alias)
    one, two = runs(spans)
    assert (one.name, two.name) == ("process tests.first", "process tests.second")
    assert two.parent.span_id == one.context.span_id


@pytest.mark.transactional
def test_a_failure_is_recorded_without_what_is_sensitive(alias, spans, handle):
    def charge(card_number):
        raise ValueError(f"declined: {card_number}")

    handle(charge, sensitive=("card_number",)).using(database=alias).enqueue("4111-1111")
    run_all(alias)
    (run,) = runs(spans)
    (event,) = run.events
    assert (run.status.status_code, run.status.description) == (StatusCode.ERROR, "declined: ●●●")
    assert (event.name, event.attributes["exception.type"]) == ("exception", "ValueError")
    assert event.attributes["exception.message"] == "declined: ●●●"
    assert "raise ValueError" in event.attributes["exception.stacktrace"]
    assert "4111" not in run.to_json()
    assert run.attributes["error.type"] == "ValueError"
    assert run.attributes["jobexec.outcome"] == "failed"
    assert run.parent is None


@pytest.mark.transactional
def test_a_cancelled_job_has_not_failed(alias, spans, handle):
    def stop():
        raise JobCancelled("enough")

    handle(stop).using(database=alias).enqueue()
    run_all(alias)
    (run,) = runs(spans)
    assert (run.status.status_code, run.attributes["jobexec.outcome"]) == (StatusCode.UNSET, "cancelled")


@pytest.mark.transactional
def test_an_executor_traces_threads_and_the_lane(alias, spans, handle, make_executor):
    seen = []

    async def later():
        await asyncio.sleep(0)
        seen.append(trace.get_current_span().get_span_context().span_id)

    handlers = [handle(lambda: None, name="tests.now"), handle(later, name="tests.later")]
    with shop() as order:
        for handler in handlers:
            handler.using(database=alias).enqueue_many([()] * 3)
    executor = make_executor()
    executor.start()
    until(lambda: all_gone(alias) and len(runs(spans)) == 6)
    assert {run.parent.span_id for run in runs(spans)} == {order.get_span_context().span_id}
    assert {run.context.span_id for run in runs(spans) if run.name == "process tests.later"} == set(seen)
    assert {run.attributes["messaging.client.id"] for run in runs(spans)} == {"here"}


@pytest.mark.gate
@pytest.mark.transactional
def test_an_async_job_that_is_given_back_ends_its_span(alias, spans, handle, make_executor, monkeypatch):
    monkeypatch.setattr("jobexec.executor.pool.pool._CANCEL_STOP", TIMEOUT)
    gate = Gate()
    handle(gate.passed, name="tests.wait").using(database=alias).enqueue()
    executor = make_executor(GRACE_PERIOD=0)
    executor.start()
    until(lambda: gate.now == 1)
    executor.stop(0)
    assert [run.attributes["jobexec.outcome"] for run in runs(spans)] == ["returned"]


@pytest.mark.transactional
def test_execute_now_is_in_both_traces(alias, spans, handle):
    handler = handle(lambda: "result", name="tests.fine").using(database=alias)
    with shop() as order:
        row = handler.enqueue()
    with trace.get_tracer("admin").start_as_current_span("request") as request:
        assert execute_now(row.pk, using=alias) == "result"
        assert trace.get_current_span() is request
    (run,) = runs(spans)
    assert run.parent.span_id == order.get_span_context().span_id
    assert [link.context.span_id for link in run.links] == [request.get_span_context().span_id]


@pytest.mark.transactional
def test_execute_now_tells_of_a_failure(alias, spans, handle):
    def fail():
        raise ValueError("no")

    row = handle(fail).using(database=alias).enqueue()
    with pytest.raises(ValueError, match="no"):
        execute_now(row.pk, using=alias)
    assert [run.status.status_code for run in runs(spans)] == [StatusCode.ERROR]


@pytest.mark.transactional
def test_a_sampler_that_fails_costs_no_job(alias, spans, handle, monkeypatch):
    handle(lambda: None, name="tests.fine").using(database=alias).enqueue()
    monkeypatch.setattr(trace, "get_tracer", lambda name: 1 / 0)
    run_all(alias)
    assert all_gone(alias)


@pytest.mark.transactional
def test_without_a_provider_no_page_brings_what_nobody_reads(alias, handle, make_executor):
    executor = make_executor()
    executor.start()
    assert not executor.engines[alias].node.scope.wide


@pytest.mark.transactional
def test_a_narrow_page_has_no_spans(alias, spans, handle):
    make_job(alias, handler_type="tests.fine")
    handle(lambda: None, name="tests.fine")
    run_one(alias)
    assert runs(spans) == []
