"""The code of "Log with structlog"."""

from inspect import iscoroutinefunction

import structlog
from django.utils.decorators import sync_and_async_middleware

SHARED: list[structlog.typing.Processor] = [
    structlog.contextvars.merge_contextvars,
    structlog.stdlib.add_logger_name,
    structlog.stdlib.add_log_level,
    structlog.processors.TimeStamper(fmt="iso"),
    structlog.processors.format_exc_info,
]

LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {
        "json": {
            "()": structlog.stdlib.ProcessorFormatter,
            "foreign_pre_chain": [*SHARED, structlog.stdlib.ExtraAdder()],
            "processors": [
                structlog.stdlib.ProcessorFormatter.remove_processors_meta,
                structlog.processors.JSONRenderer(default=str),
            ],
        }
    },
    "handlers": {"json": {"class": "logging.StreamHandler", "formatter": "json"}},
    "root": {"handlers": ["json"], "level": "INFO"},
}

structlog.configure(
    processors=[*SHARED, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
    logger_factory=structlog.stdlib.LoggerFactory(),
    wrapper_class=structlog.stdlib.BoundLogger,
)


@sync_and_async_middleware
def bind_job(call):
    if iscoroutinefunction(call):

        async def run_async(context):
            with bound(context):
                return await call(context)

        return run_async

    def run(context):
        with bound(context):
            return call(context)

    return run


def bound(context):
    return structlog.contextvars.bound_contextvars(
        job_id=str(context.id),
        handler_type=context.handler_type,
        attempt=context.attempt,
        tenant_id=context.tenant_id,
    )
