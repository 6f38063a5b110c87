"""OpenTelemetry: the enqueueing code's trace goes with the job, and each run is a span in it.

Needs the package ``opentelemetry-api`` (extra ``otel``), and a tracer provider that the project has set up before the
executor starts. Without the package nothing here has any effect, which is decided once, at import. (Semantic
conventions for messaging; the enqueueing context is the *parent* of the run, because users look for an order and
everything that it caused as one trace. The conventions allow that where a span processes one message, and a job is
one.)
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any

trace: Any
attach: Any
detach: Any
try:
    from opentelemetry import trace
    from opentelemetry.context import attach, detach
except ImportError:
    trace = None

logger = logging.getLogger("jobexec.tracing")

#: Whether the package is installed.
AVAILABLE = trace is not None

_FORM = re.compile(r"(?!ff)[0-9a-f]{2}-(?!0{32})([0-9a-f]{32})-(?!0{16})([0-9a-f]{16})-([0-9a-f]{2})")


def enabled() -> bool:
    """Whether spans are recorded: the package is installed, and the project has set up a tracer provider."""
    return AVAILABLE and not isinstance(trace.get_tracer_provider(), trace.ProxyTracerProvider)


def current() -> str:
    """The ``traceparent`` (W3C Trace Context) of the current span; '' without one. Call it only if AVAILABLE."""
    context = trace.get_current_span().get_span_context()
    if not context.is_valid:
        return ""
    return f"00-{context.trace_id:032x}-{context.span_id:016x}-{context.trace_flags:02x}"


def of_headers(headers: Mapping[str, Any] | None) -> str:
    """The ``traceparent`` among the headers of a job; '' if it is missing or invalid, as the standard requires."""
    given = next((value for name, value in (headers or {}).items() if name.lower() == "traceparent"), None)
    return given if isinstance(given, str) and _FORM.fullmatch(given) else ""


def start(name: str, traceparent: str, attributes: Mapping[str, Any]) -> Any:
    """Start a span of kind CONSUMER; None if tracing is not enabled. Never raises.

    Its parent is the span of ``traceparent``, and the current one a link; without a traceparent the current one is the
    parent.
    """
    if not enabled():
        return None
    try:
        parent, here = _parent(traceparent), trace.get_current_span().get_span_context()
        links = [trace.Link(here)] if parent is not None and here.is_valid else []
        tracer = trace.get_tracer("jobexec")
        return tracer.start_span(name, parent, trace.SpanKind.CONSUMER, attributes=attributes, links=links)
    except Exception:  # raised by a sampler or a processor of the project: it must not fail the job
        logger.exception("A span could not be started")
        return None


def _parent(traceparent: str) -> Any:
    found = _FORM.fullmatch(traceparent)
    if found is None:
        return None
    ids, flags = [int(text, 16) for text in found.groups()[:2]], trace.TraceFlags(int(found[3], 16))
    span = trace.NonRecordingSpan(trace.SpanContext(*ids, is_remote=True, trace_flags=flags))
    return trace.set_span_in_context(span)


@contextmanager
def within(traceparent: str) -> Iterator[None]:
    """Let the jobs that are created meanwhile belong to this trace; '' changes nothing."""
    parent = _parent(traceparent) if AVAILABLE else None
    token = attach(parent) if parent is not None else None
    try:
        yield
    finally:
        if token is not None:
            detach(token)


def enter(span: Any) -> None:
    """Make this the current span of the ``contextvars`` context in which this is called; it ends with the context."""
    attach(trace.set_span_in_context(span))


def finish(span: Any, exception: Mapping[str, str] | None, attributes: Mapping[str, Any]) -> None:
    """End a span; with an ``exception``, given as attributes of the event, it has failed. Never raises."""
    with suppress(Exception):
        span.set_attributes(attributes)
        if exception is not None:
            span.set_attribute("error.type", exception["exception.type"])
            span.add_event("exception", exception)
            span.set_status(trace.StatusCode.ERROR, exception["exception.message"])
    with suppress(Exception):
        span.end()
