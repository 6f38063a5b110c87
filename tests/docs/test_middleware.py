"""The examples of the how-to guide about middleware."""

import logging

import pytest
from django.conf import settings as django_settings
from django.utils import translation

from docs.examples import middleware
from tests.support.executor import all_gone, run_one
from tests.support.factories import make_job

pytestmark = pytest.mark.transactional
HERE = "docs.examples.middleware."


def use(settings, alias, *names):
    settings.JOBEXEC = {
        **django_settings.JOBEXEC,
        "ENGINES": {alias: {}},
        "MIDDLEWARE": [HERE + name for name in names],
    }


def test_language_time_and_filter(alias, handle, settings, caplog):
    use(settings, alias, "in_the_customers_language", "timed", "counted")
    middleware.starts.clear()
    seen = []

    def look():
        record = logging.makeLogRecord({})
        middleware.JobFilter().filter(record)
        seen.append((translation.get_language(), record.job))

    handle(look, name="tests.look")
    job = make_job(alias, handler_type="tests.look", custom_headers={"language": "fr"})
    with caplog.at_level(logging.INFO, "jobexec.job"):
        run_one(alias)
    assert seen == [("fr", str(job.pk))]
    assert "tests.look took 0." in caplog.text
    assert middleware.starts["tests.look"] == 1


def test_outside_of_a_job_there_is_none(alias):
    record = logging.makeLogRecord({})
    middleware.JobFilter().filter(record)
    assert record.job == "-"
    assert all_gone(alias)
