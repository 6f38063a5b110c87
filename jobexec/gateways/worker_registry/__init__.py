"""The workers that poll, wait and stream at the gateways of this process, and counts of what they have done.

The gateways call it during each request, so it only counts in memory: a microsecond or two, from any thread. A
background thread (:mod:`.writing`) writes the data to :class:`~jobexec.models.ExternalWorker`, and the actuator
(:mod:`jobexec.gateways.actuator`) shows it to Prometheus.

``protocol`` is a short name ("grpc", "rest", "camunda7"), ``client`` the authenticated client, ``worker`` the name that
the worker gives itself, ``type`` the job type that it asks for. Names that are too long for their columns are cut.
"""

from __future__ import annotations

from .counts import ACTIVATED, CANCELED, COMPLETED, CREATED, ERROR_THROWN, FAILED, TIMED_OUT, Counts
from .workers import Registry, Stream, Streaming, Waiting, WorkerRecord
from .writing import registry, start, stop

__all__ = [
    "ACTIVATED",
    "CANCELED",
    "COMPLETED",
    "CREATED",
    "ERROR_THROWN",
    "FAILED",
    "TIMED_OUT",
    "Counts",
    "Registry",
    "Stream",
    "Streaming",
    "Waiting",
    "WorkerRecord",
    "activated",
    "finished",
    "polled",
    "push_failed",
    "pushed",
    "registry",
    "start",
    "stop",
    "streaming",
    "waiting",
]

#: Count a request for jobs, whether it waits or not. ``polled(protocol, client, worker, type, tenants=())``
polled = registry.polled
#: Context manager for the wait of a poll. ``waiting(protocol, client, worker, type, tenants=())``
waiting = registry.waiting
#: Context manager for the life of a stream; it returns its :class:`Stream`.
#: ``streaming(protocol, client, worker, type, tenants=(), *, timeout=None, variables=(), tenant_filter="PROVIDED")``
streaming = registry.streaming
#: Count activated jobs. ``activated(type, worker, n, *, protocol="", client="")``
activated = registry.activated
#: Count jobs written to a stream. ``pushed(n=1)``
pushed = registry.pushed
#: Count a job that could not be written to a stream: ``push_failed("BLOCKED")``, ``"CLOSED"``, or the error's text.
push_failed = registry.push_failed
#: Count a job event: ``finished(worker_registry.COMPLETED, type, n=1)``. Operations in this process are counted
#: automatically (:mod:`.events`), and ``activated`` counts ACTIVATED.
finished = registry.finished
