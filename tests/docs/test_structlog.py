"""The example of the how-to guide about structlog, with the real package."""

import asyncio
import json
import logging
import logging.config
from io import StringIO

import pytest
from django.conf import settings as django_settings

from jobexec.handlers.context import JobContext
from tests.support.executor import Host, run_one
from tests.support.factories import acquire, make_job

structlog = pytest.importorskip("structlog", reason="structlog is not installed (extra test)")

from docs.examples import structlog_jobs  # noqa: E402 - imports it

pytestmark = pytest.mark.transactional
BOUND = {"job_id", "handler_type", "attempt", "tenant_id"}


@pytest.fixture
def lines(settings, alias):
    """A function that returns the lines that were written, as a program reads them."""
    settings.JOBEXEC = {
        **django_settings.JOBEXEC,
        "ENGINES": {alias: {}},
        "MIDDLEWARE": [f"{structlog_jobs.__name__}.bind_job"],
    }
    written = StringIO()
    made = logging.config.DictConfigurator(structlog_jobs.LOGGING)
    handler = logging.StreamHandler(written)
    handler.setFormatter(made.configure_formatter({**structlog_jobs.LOGGING["formatters"]["json"]}))
    loggers = [logging.getLogger(name) for name in ("shop", "jobexec.execution")]
    before = [logger.level for logger in loggers]
    for logger in loggers:
        logger.addHandler(handler)
        logger.setLevel(logging.INFO)
    yield lambda: [json.loads(line) for line in written.getvalue().splitlines()]
    for logger, level in zip(loggers, before, strict=True):
        logger.removeHandler(handler)
        logger.setLevel(level)


def test_each_line_of_a_job_has_its_id_and_handler(alias, handle, lines):
    def charge():
        structlog.get_logger("shop").info("charged", order=4711)
        logging.getLogger("shop").info("by the standard library")

    handle(charge, name="shop.charge")
    job = make_job(alias, handler_type="shop.charge", tenant_id="acme")
    run_one(alias)
    structlog.get_logger("shop").info("afterwards")
    first, second, own, afterwards = lines()
    bound = {"job_id": str(job.pk), "handler_type": "shop.charge", "attempt": 1}
    assert first.items() >= {**bound, "tenant_id": "acme", "event": "charged", "order": 4711, "level": "info"}.items()
    assert second.items() >= {**bound, "event": "by the standard library", "logger": "shop"}.items()
    assert own.items() >= {**bound, "logger": "jobexec.execution", "outcome": "successful"}.items()
    assert not BOUND & afterwards.keys()


def test_async_jobs_beside_each_other_keep_their_own(alias, lines):
    async def work(context):
        await asyncio.sleep(0)
        structlog.get_logger("shop").info("done", number=context.handler_type)

    async def all_of(contexts):
        await asyncio.gather(*map(structlog_jobs.bind_job(work), contexts))

    jobs = [make_job(alias, handler_type=f"shop.{number}", tenant_id="acme") for number in range(3)]
    asyncio.run(all_of([JobContext(acquired, Host()) for acquired in acquire(alias)]))
    assert sorted((line["number"], line["job_id"], line["handler_type"], line["tenant_id"]) for line in lines()) == [
        (job.handler_type, str(job.pk), job.handler_type, "acme") for job in jobs
    ]
