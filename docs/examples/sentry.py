"""The code in docs/how-to/operate/report-to-sentry.md."""

from contextlib import contextmanager
from inspect import iscoroutinefunction

import sentry_sdk
from asgiref.sync import sync_to_async
from django.utils.decorators import sync_and_async_middleware


@sync_and_async_middleware
def with_sentry(call):
    if iscoroutinefunction(call):

        async def run_async(context):
            job = await sync_to_async(lambda: context.job)()
            with _transaction(context, job):
                return await call(context)

        return run_async

    def run(context):
        with _transaction(context, context.job):
            return call(context)

    return run


@contextmanager
def _transaction(context, job):
    with sentry_sdk.isolation_scope() as scope:  # the tags end with the job, also in an event loop
        scope.set_tags({"job.handler": context.handler_type, "job.id": str(context.id)})
        transaction = sentry_sdk.continue_trace(job.custom_headers, op="queue.process", name=context.handler_type)
        with sentry_sdk.start_transaction(transaction):
            yield


def trace():
    """Return the headers with which a job continues the current trace."""
    headers = {"sentry-trace": sentry_sdk.get_traceparent(), "baggage": sentry_sdk.get_baggage()}
    return {name: value for name, value in headers.items() if value}


def report(sender, using, job, error, **kwargs):
    with sentry_sdk.new_scope() as scope:
        scope.fingerprint = ["jobexec", job.fingerprint]  # one issue for each group of failures
        scope.set_tags({"job.handler": job.handler_type, "job.tenant": job.tenant_id or "-", "job.engine": using})
        scope.set_context("job", {"id": str(job.pk), "attempts": job.attempts, "correlation": job.correlation_id})
        sentry_sdk.capture_exception(error)
