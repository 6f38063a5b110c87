"""The example of the how-to guide about tracing: what a collector receives, over HTTP."""

from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest
from django.conf import settings as django_settings
from opentelemetry import trace

from jobexec.executor.run.execution import execute_batch
from jobexec.models import Job
from jobexec.operations import acquire_jobs
from jobexec.operations.values.acquired_job import ServedJobs
from jobexec.runtime.threads import call_in_thread, spawn
from tests.support.executor import Host
from tests.support.factories import LOCK_TIME

reason = "opentelemetry-exporter-otlp-proto-http is not installed (extra test)"
pytest.importorskip("opentelemetry.exporter.otlp.proto.http", reason=reason)

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest  # noqa: E402

from docs.examples import otlp  # noqa: E402 - imports it

pytestmark = pytest.mark.transactional


@pytest.fixture
def collector():
    """A server that takes traces as a collector does; `received` are its requests."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            body = self.rfile.read(int(self.headers["Content-Length"]))
            server.received.append((self.path, ExportTraceServiceRequest.FromString(body)))
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *args):
            """Be quiet."""

    server = HTTPServer(("127.0.0.1", 0), Handler)
    server.received = []
    thread = spawn("collector", server.serve_forever)
    yield server
    server.shutdown()
    thread.join(5)
    server.server_close()


@pytest.fixture
def provider(collector, monkeypatch):
    """What the example sets up, for this test only."""
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", f"http://127.0.0.1:{collector.server_port}")
    monkeypatch.setattr(trace, "set_tracer_provider", lambda made: monkeypatch.setattr(trace, "_TRACER_PROVIDER", made))
    otlp.send_traces("shop")
    yield trace.get_tracer_provider()
    trace.get_tracer_provider().shutdown()


def attributes(span):
    return {each.key: each.value.string_value or each.value.int_value for each in span.attributes}


@pytest.mark.gate
def test_a_collector_receives_the_order_and_its_jobs_as_one_trace(alias, handle, settings, collector, provider):
    settings.JOBEXEC = {**django_settings.JOBEXEC, "ENGINES": {alias: {}}}

    def charge():
        raise ConnectionError("no answer")

    handler = handle(charge, name="shop.charge", retries="R2/PT1H").using(database=alias)
    with trace.get_tracer("shop").start_as_current_span("order"):
        handler.enqueue()
    job = Job.objects.using(alias).get()
    acquired = acquire_jobs(alias, "one", 99, ServedJobs(wide=True), lock_time=LOCK_TIME).jobs
    call_in_thread("jobexec-one", lambda: execute_batch(acquired, Host()), 60)
    assert provider.force_flush()
    ((path, request),) = collector.received
    assert path == "/v1/traces"
    (resource,) = request.resource_spans
    assert {each.key: each.value.string_value for each in resource.resource.attributes}["service.name"] == "shop"
    spans = {span.name: span for scope in resource.scope_spans for span in scope.spans}
    order, run = spans["order"], spans["process shop.charge"]
    assert (run.trace_id, run.parent_span_id) == (order.trace_id, order.span_id)
    expected = {"messaging.system": "jobexec", "messaging.message.id": str(job.pk), "jobexec.outcome": "failed"}
    assert attributes(run).items() >= {**expected, "jobexec.attempt": 1}.items()
    assert [event.name for event in run.events] == ["exception"]
