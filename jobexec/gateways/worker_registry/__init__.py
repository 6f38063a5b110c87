"""Who polls, waits and streams at the gateways of this process, and what they have done.

Told by the gateways on the way of each request, so it only counts in memory: a microsecond or two, from any thread.
A thread of its own (:mod:`.writing`) carries it to :class:`~jobexec.models.ExternalWorker`, and the actuator
(:mod:`jobexec.gateways.actuator`) shows it to Prometheus.

``protocol`` is a short name ("grpc", "rest", "camunda7"), ``client`` who has authenticated, ``worker`` what it calls
itself, ``type`` the type of job that it asks for. Names that are too long for their columns are cut.
"""

from __future__ import annotations

from .counts import ACTIVATED, CANCELED, COMPLETED, CREATED, ERROR_THROWN, FAILED, TIMED_OUT, Counts
from .workers import Registry, Sight, Stream, Streaming, Waiting
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
    "Sight",
    "Stream",
    "Streaming",
    "Waiting",
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

#: A request asks for jobs; it may wait or not. ``polled(protocol, client, worker, type, tenants=())``
polled = registry.polled
#: Around the wait of a poll, as a context manager. ``waiting(protocol, client, worker, type, tenants=())``
waiting = registry.waiting
#: Around the life of a stream, as a context manager that gives its :class:`Stream`.
#: ``streaming(protocol, client, worker, type, tenants=(), *, timeout=None, variables=(), tenant_filter="PROVIDED")``
streaming = registry.streaming
#: Jobs have been given out. ``activated(type, worker, n, *, protocol="", client="")``
activated = registry.activated
#: Jobs have been written to a stream. ``pushed(n=1)``
pushed = registry.pushed
#: A job could not be written to a stream: ``push_failed("BLOCKED")``, ``"CLOSED"``, or what the error says.
push_failed = registry.push_failed
#: Something has become of a job: ``finished(seen.COMPLETED, type, n=1)``. What the operations do in this process is
#: counted by itself (:mod:`.events`), and so is ACTIVATED, by ``activated``.
finished = registry.finished
