"""Metrics for Prometheus, read from the database on each scrape: see ``docs/reference/metrics.md``.

Needs prometheus_client (extra ``metrics``). Gateway processes expose their own counters themselves.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from secrets import compare_digest
from typing import Any

from django.core.exceptions import ImproperlyConfigured
from django.db.models import Max, Min, Q, Sum
from django.http import HttpRequest, HttpResponse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from jobexec import clock
from jobexec.conf import get_settings
from jobexec.models import ExecutorNode, NodeState, Suspension
from jobexec.operations.reports import meters
from jobexec.operations.reports.batches import unfinished
from jobexec.operations.reports.counts import CappedCount, job_counts, open_incidents
from jobexec.operations.reports.messages import message_counts
from jobexec.operations.reports.meter_totals import MeterTotals
from jobexec.operations.reports.resources import open_breakers, totals
from jobexec.operations.reports.unserved_types import external_counts, types_without_worker
from jobexec.operations.reports.worker_table import connected
from jobexec.operations.sql.errors import one_line
from jobexec.operations.sql.place import place
from jobexec.operations.values.histogram import BOUNDS, KEYS
from jobexec.runtime.connections import own_transactions
from jobexec.tenancy import is_restricted

try:
    from prometheus_client import CollectorRegistry
    from prometheus_client.core import (
        CounterMetricFamily,
        GaugeMetricFamily,
        HistogramMetricFamily,
        Metric,
    )
    from prometheus_client.exposition import choose_encoder
    from prometheus_client.registry import Collector
except ImportError as error:  # pragma: no cover
    text = "jobexec.metrics needs prometheus_client: install jobexec with the extra 'metrics'."
    raise ImproperlyConfigured(text) from error

logger = logging.getLogger("jobexec.metrics")

#: The counters: name, whether it has a label for the handler, and its help text.
_COUNTERS = {
    meters.JOB_ACQUISITION_ATTEMPT: ("jobexec_acquisition_attempts", False, "Pages of jobs that nodes requested."),
    meters.JOB_ACQUIRED_SUCCESS: ("jobexec_jobs_acquired", False, "Jobs that nodes locked."),
    meters.JOB_ACQUIRED_FAILURE: ("jobexec_acquisition_lock_failures", False, "Jobs that another node locked first."),
    meters.JOB_LOCKED_EXCLUSIVE: (
        "jobexec_jobs_locked_exclusive",
        False,
        "Jobs that were found while another job of their process instance was locked.",
    ),
    meters.JOB_FOLLOWED_UP: (
        "jobexec_jobs_followed_up",
        False,
        "Jobs that stayed with the node that enqueued or promoted them.",
    ),
    meters.JOB_SUCCESSFUL: ("jobexec_jobs_successful", True, "Runs that succeeded."),
    meters.JOB_FAILED: ("jobexec_jobs_failed", True, "Attempts that failed."),
    meters.JOB_DEAD_LETTERED: ("jobexec_jobs_dead_lettered", True, "Attempts that failed and were the last."),
    meters.JOB_RECOVERED: ("jobexec_jobs_recovered", False, "Jobs that were released because their node died."),
}
_HISTOGRAMS = {
    meters.JOB_WAIT_TIME: (
        "jobexec_job_wait_seconds",
        meters.JOB_WAIT_TIME_SUM,
        "From the time a job was due to the start of its run.",
    ),
    meters.JOB_RUN_TIME: ("jobexec_job_run_seconds", meters.JOB_RUN_TIME_SUM, "How long runs took."),
}
_BOUNDS = [*(str(bound / 1000) for bound in BOUNDS), "+Inf"]
#: Gauges summed over all nodes of one name, from the columns of their rows.
_NODE_GAUGES = {
    "threads": "Worker threads of the nodes of this name.",
    "busy_threads": "Worker threads that run a job, at the last heartbeat.",
    "stuck_threads": "Threads whose job is still running after its timeout.",
    "queued_jobs": "Jobs that are locked and wait for a thread.",
    "queue_size": "The most jobs that may wait for a thread.",
}


class JobExecCollector(Collector):
    """Reads the metrics of these engines (default: all) on each collection.

    ``REGISTRY.register(JobExecCollector())``. One process of the cluster is enough: all nodes write to the same tables.
    Keep the instance, for it stores the sums so far. An engine whose database does not answer has ``jobexec_up`` 0 and
    nothing else.
    """

    def __init__(self, engines: Iterable[str] | None = None) -> None:
        self._engines = None if engines is None else list(engines)
        self._totals: dict[tuple[str, str, str], MeterTotals] = {}

    def describe(self) -> Iterable[Metric]:
        """Nothing: registering a collector must not query a database."""
        return []

    def collect(self) -> Iterator[Metric]:
        families = _Families()
        for using in self._engines or get_settings().engines:
            try:
                read = self._totals.setdefault(place(using), MeterTotals(using)).read
                samples = list(_samples(using, read))
            except Exception as error:
                logger.warning("The metrics of %s could not be read: %s", using, one_line(error))
                samples = [_up(0)]
            for add in samples:
                add(families, using)
        yield from families.all.values()


class _Families:
    """The metric families of one scrape: the samples of all engines belong together."""

    def __init__(self) -> None:
        self.all: dict[str, Metric] = {}

    def of(self, kind: type[Any], name: str, text: str, labels: Iterable[str] = ()) -> Any:
        if name not in self.all:
            self.all[name] = kind(name, text, labels=["engine", *labels])
        return self.all[name]


_Add = Callable[[_Families, str], None]


def _gauge(name: str, text: str, value: float, **labels: str) -> _Add:
    def add(families: _Families, using: str) -> None:
        families.of(GaugeMetricFamily, name, text, labels).add_metric([using, *labels.values()], value)

    return add


def _up(value: int) -> _Add:
    return _gauge("jobexec_up", "1 if the database of the engine answered, otherwise 0.", value)


def _samples(using: str, read: Callable[[], Mapping[tuple[str, str], int]]) -> Iterator[_Add]:
    yield _up(1)
    totals = read()
    yield from (_counter(totals, *each) for each in _COUNTERS.items())
    yield from (_histogram(totals, *each) for each in _HISTOGRAMS.items())
    yield from _queues(using)
    yield from _nodes(using)
    yield from _external(using)
    yield from _resources(using)
    yield from _messages(using)
    yield from _batches(using)


def _counter(totals: Mapping[tuple[str, str], int], meter: str, said: tuple[str, bool, str]) -> _Add:
    name, by_handler, text = said
    values = {key: value for (each, key), value in totals.items() if each == meter}

    def add(families: _Families, using: str) -> None:
        family = families.of(CounterMetricFamily, name, text, ["handler"] if by_handler else [])
        for handler, value in values.items() if by_handler else [("", sum(values.values()))]:
            family.add_metric([using, handler] if by_handler else [using], value)

    return add


def _histogram(totals: Mapping[tuple[str, str], int], meter: str, said: tuple[str, str, str]) -> _Add:
    name, sum_meter, text = said
    buckets, count = [], 0
    for key, bound in zip(KEYS, _BOUNDS, strict=True):
        count += totals.get((meter, key), 0)
        buckets.append((bound, float(count)))
    seconds = totals.get((sum_meter, ""), 0) / 1000

    def add(families: _Families, using: str) -> None:
        families.of(HistogramMetricFamily, name, text).add_metric([using], buckets, seconds)

    return add


def _queues(using: str) -> Iterator[_Add]:
    counts = job_counts(using)
    states = {
        "executable": counts.free,
        "in_progress": counts.in_progress,
        "timer": counts.timers,
        "retry": counts.retries,
        "blocked": counts.blocked,
        "suspended": counts.suspended,
        "dead_letter": counts.dead_letters,
        "history": counts.history,
    }
    for state, count in states.items():
        yield from _capped("jobexec_jobs", "Jobs in a state.", count, state=state)
    now = clock.now(using)
    age = 0.0 if counts.oldest_due is None else max(0.0, (now - counts.oldest_due).total_seconds())
    yield _gauge("jobexec_oldest_due_age_seconds", "How long the job that waits longest has been due.", age)
    yield from _capped("jobexec_incidents", "Open incidents.", open_incidents(using))
    live = Suspension.objects.using(using).filter(Q(suspend_time=None) | Q(suspend_time__lte=now), live=True)
    in_force = CappedCount.of(live.exclude(activate_time__lte=now))
    yield from _capped("jobexec_suspensions", "Suspensions in force.", in_force)


def _external(using: str) -> Iterator[_Add]:
    now, types, alert_after = clock.now(using), external_counts(using), get_settings().external_worker_alert_after
    for each in types:
        states = {"available": each.available, "activated": each.activated, "backing_off": each.backing_off}
        for state, count in states.items():
            text = "Jobs for external workers in a state."
            yield from _capped("jobexec_external_jobs", text, count, state=state, type=each.type)
        since = each.waiting_since
        age = 0.0 if since is None else max(0.0, (now - since).total_seconds())
        text = "How long the job of a type that waits longest for a worker has been available."
        yield _gauge("jobexec_external_oldest_seconds", text, age, type=each.type)
    unserved = len(types_without_worker(using, alert_after, [each.type for each in types]))
    text = "Job types with waiting jobs for which no external worker polls."
    yield _gauge("jobexec_external_types_without_worker", text, unserved)
    for protocol, workers, streams, polls in connected(using):
        yield _gauge(
            "jobexec_external_workers", "External workers that were seen recently.", workers, protocol=protocol
        )
        yield _gauge("jobexec_external_streams", "Open streams of workers.", streams, protocol=protocol)
        yield _gauge("jobexec_external_polls", "Polls of workers that wait for a job.", polls, protocol=protocol)


def _resources(using: str) -> Iterator[_Add]:
    if not get_settings().resources:
        return
    for entry, total in totals(using).items():
        text = "Permits of resources in use, by the entry of RESOURCES that covers them."
        yield from _capped("jobexec_resource_permits_in_use", text, total.in_use, entry=entry)
        text = "Jobs that wait for their resource, by the entry of RESOURCES that covers it."
        yield from _capped("jobexec_resource_jobs_waiting", text, total.waiting, entry=entry)
    for name in open_breakers(using):
        text = "1 for each resource whose breaker is open, or held open by an operator."
        yield _gauge("jobexec_resource_breaker_open", text, 1, resource=name)


def _messages(using: str) -> Iterator[_Add]:
    waiting, kept, pending = message_counts(using)
    yield from _capped("jobexec_jobs_waiting_for_messages", "Jobs that wait for a message.", waiting)
    yield from _capped("jobexec_messages_kept", "Messages that are kept for jobs that wait later.", kept)
    yield from _capped("jobexec_messages_to_deliver", "Messages that are not delivered completely.", pending)


def _batches(using: str) -> Iterator[_Add]:
    going = unfinished(using)
    text = "Batches that have not ended: actions of operators, or jobs of the project."
    yield _gauge("jobexec_batches", text, going.operations, kind="operations")
    yield _gauge("jobexec_batches", text, going.jobs, kind="jobs")
    yield _gauge(
        "jobexec_batch_jobs_open", "Jobs that have not ended, of batches of jobs that have not ended.", going.open
    )


def _capped(name: str, text: str, count: CappedCount, **labels: str) -> Iterator[_Add]:
    yield _gauge(name, f"{text} A lower bound if the companion is 1.", int(count), **labels)
    yield _gauge(f"{name}_capped", f"1 if {name} was not counted completely.", int(count.capped), **labels)


def _nodes(using: str) -> Iterator[_Add]:
    now, sums = clock.now(using), {name: Sum(name) for name in _NODE_GAUGES}
    rows = ExecutorNode.objects.using(using).exclude(state=NodeState.DEAD).values("name")
    # By name: several processes may have the same name, and Prometheus accepts no sample twice.
    found: Any = rows.annotate(beat=Min("heartbeat_time"), lease=Max("lease_expiration_time"), **sums).order_by("name")
    for row in found:
        node = row["name"]
        for name, text in _NODE_GAUGES.items():
            yield _gauge(f"jobexec_node_{name}", text, int(row[name]), node=node)
        age = max(0.0, (now - row["beat"]).total_seconds())
        yield _gauge(
            "jobexec_node_heartbeat_age_seconds",
            "Time since the last heartbeat; the longest of the nodes of this name.",
            age,
            node=node,
        )
        alive = int(row["lease"] > now)
        yield _gauge("jobexec_node_up", "1 if a node of this name has a valid lease.", alive, node=node)


@cache
def _registry() -> CollectorRegistry:
    """The view's registry: jobexec alone, and the same collector for the life of the process."""
    registry = CollectorRegistry()
    registry.register(JobExecCollector())
    return registry


@never_cache
@require_safe
@own_transactions
def view(request: HttpRequest) -> HttpResponse:
    """All metrics, for clients with METRICS_TOKEN, and for staff with permission to view all tenants' meter log."""
    if not (_has_token(request) or _is_staff(request)):
        return HttpResponse("Not allowed.\n", "text/plain", 401, headers={"WWW-Authenticate": "Bearer"})
    encode, content_type = choose_encoder(request.headers.get("Accept", ""))
    return HttpResponse(encode(_registry()), content_type)


def _has_token(request: HttpRequest) -> bool:
    expected = get_settings().metrics_token
    scheme, _, token = request.headers.get("Authorization", "").partition(" ")
    given = token.strip().encode()
    return expected is not None and scheme.lower() == "bearer" and compare_digest(given, expected.encode())


def _is_staff(request: HttpRequest) -> bool:
    user: Any = getattr(request, "user", None)  # a project may have no users
    allowed = user and user.is_active and user.is_staff and user.has_perm("jobexec.view_meterlog")
    return bool(allowed) and not is_restricted(request)
