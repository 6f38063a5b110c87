"""Prometheus metrics of this gateway process: its counters, and the workers connected to it.

Needs the extra ``metrics``; ``jobexec.metrics`` has the metrics from the database. The zeebe_* names are
those of Zeebe, so that its dashboards and alerts keep working; the values are those of this process only.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric, SummaryMetricFamily
from prometheus_client.registry import Collector

from jobexec.gateways.worker_registry import Registry, registry
from jobexec.gateways.worker_registry.counts import Counts
from jobexec.gateways.worker_registry.workers import WorkerRecord


class GatewayCollector(Collector):
    """Collects from a worker registry in memory (default: that of this process), without queries."""

    def __init__(self, seen: Registry = registry) -> None:
        self._seen = seen

    def describe(self) -> Iterable[Metric]:
        return []

    def collect(self) -> Iterator[Metric]:
        yield from _counters(self._seen.counts())
        yield from _streams(self._seen.sights(newer_than=2**63))


def gateway_registry() -> CollectorRegistry:
    """A registry that contains only this process's collector."""
    made = CollectorRegistry()
    made.register(GatewayCollector())
    return made


def _counters(counts: Counts) -> Iterator[Metric]:
    events = _counter("zeebe_job_events", "Job events.", ["action", "type"])
    for (action, type), number in sorted(counts.events.items()):
        events.add_metric([action, type], number)
    yield events
    failed = sum(counts.push_failures.values())
    pushes = _counter("zeebe_gateway_job_stream_push", "Attempts to write a job to a stream.", ["status"])
    pushes.add_metric(["success"], counts.pushed)
    pushes.add_metric(["failure"], failed)
    yield pushes
    for name in ("zeebe_gateway_job_stream_push_fail_try", "zeebe_broker_jobs_push_fail_try_count"):
        tries = _counter(name, "Jobs that could not be written to a stream, by reason.", ["code"])
        for code, number in sorted(counts.push_failures.items()):
            tries.add_metric([code], number)
        yield tries
    yield _plain(CounterMetricFamily, "zeebe_broker_jobs_pushed_count", "Jobs written to streams.", counts.pushed)
    polls = _counter("jobexec_gateway_polls", "Requests for jobs.", ["protocol"])
    for protocol, number in sorted(counts.polls.items()):
        polls.add_metric([protocol], number)
    yield polls


def _streams(present: list[WorkerRecord]) -> Iterator[Metric]:
    streams = [stream for sight in present for stream in sight.streams.values()]
    # A Zeebe broker counts equal streams as one.
    together = Counter((each.key.type, each.key.worker, each.timeout, each.variables, each.tenants) for each in streams)
    clients = len(streams)
    yield _gauge("zeebe_gateway_job_stream_clients", "Open worker streams.", clients)
    yield _gauge("zeebe_gateway_job_stream_streams", "Open streams, equal ones counted once.", len(together))
    yield _gauge("zeebe_gateway_job_stream_servers", "Databases that the gateway serves.", 1)
    yield _gauge("zeebe_broker_open_job_stream_count", "Open streams, equal ones counted once.", len(together))
    text = "The number of workers that share a stream."
    yield SummaryMetricFamily(
        "zeebe_gateway_job_stream_aggregated_stream_clients", text, count_value=len(together), sum_value=clients
    )
    waiting = sum(sight.polls for sight in present)
    yield _gauge("zeebe_long_polling_queued_current", "Polls waiting for a job.", waiting)
    workers = GaugeMetricFamily(
        "jobexec_gateway_workers", "Workers that poll or stream at this process.", labels=["protocol"]
    )
    for protocol, number in sorted(Counter(sight.key.protocol for sight in present).items()):
        workers.add_metric([protocol], number)
    yield workers


def _counter(name: str, text: str, labels: list[str]) -> Any:
    return CounterMetricFamily(name, text, labels=labels)


def _gauge(name: str, text: str, value: float) -> Metric:
    return _plain(GaugeMetricFamily, name, text, value)


def _plain(kind: Any, name: str, text: str, value: float) -> Metric:
    family: Metric = kind(name, text, value=value)
    return family
