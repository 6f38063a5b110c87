"""The middleware in docs/how-to/jobs/run-code-around-jobs.md."""

import logging
import time
from collections import Counter
from inspect import iscoroutinefunction

from django.utils import translation
from django.utils.decorators import sync_and_async_middleware

import jobexec

starts: Counter[str] = Counter()


def timed(call):
    def run(context):
        begin = time.monotonic()
        try:
            return call(context)
        finally:
            context.logger.info("%s took %.3f s", context.handler_type, time.monotonic() - begin)

    return run


def in_the_customers_language(call):
    def run(context):
        with translation.override(context.job.custom_headers.get("language", "en")):
            return call(context)

    return run


@sync_and_async_middleware
def counted(call):
    if iscoroutinefunction(call):

        async def run_async(context):
            starts[context.handler_type] += 1
            return await call(context)

        return run_async

    def run(context):
        starts[context.handler_type] += 1
        return call(context)

    return run


class JobFilter(logging.Filter):
    def filter(self, record):
        job = jobexec.current_job()
        record.job = str(job.id) if job else "-"
        return True
