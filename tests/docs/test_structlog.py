"""The example of the how-to guide about structlog, with the real package."""

import asyncio
import json
import logging
import logging.config
from io import StringIO

import pytest
from django.conf import settings as django_settings

from tests.support.executor import run_one
from tests.support.factories import make_job

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


def test_a_line_of_an_async_job_has_its_id_and_handler(alias, handle, lines):
    async def charge():
        structlog.get_logger("shop").info("charged")

    handle(charge, name="shop.charge")
    job = make_job(alias, handler_type="shop.charge", tenant_id="acme")
    run_one(alias)
    line, _ = lines()
    assert line.items() >= {"event": "charged", "job_id": str(job.pk), "tenant_id": "acme"}.items()


def test_async_jobs_beside_each_other_keep_their_own(lines):
    class Context:
        def __init__(self, number):
            self.id, self.handler_type, self.attempt, self.tenant_id = number, f"shop.{number}", 1, ""

    async def work(context):
        await asyncio.sleep(0)
        structlog.get_logger("shop").info("done", number=context.id)

    async def both():
        run = structlog_jobs.bind_job(work)
        await asyncio.gather(*(run(Context(number)) for number in range(3)))

    asyncio.run(both())
    assert sorted((line["number"], line["job_id"], line["handler_type"]) for line in lines()) == [
        (number, str(number), f"shop.{number}") for number in range(3)
    ]
