"""A secret goes through the whole life of encrypted jobs, and is found nowhere: no table, page, log, command, answer.

The only place where it may appear is asked for, by a user with a permission of its own.
"""

import base64
import json
import logging
import os

import pytest
from django.apps import apps
from django.test import override_settings

import jobexec
from jobexec.metrics import JobExecCollector
from jobexec.models import (
    AuditLog,
    DeadLetterJob,
    ExternalWorkerJob,
    Job,
    JobLog,
    TaskResult,
    TimerJob,
)
from jobexec.operations import reencrypt, requeue, retry_now, set_retries, start_batch
from jobexec.operations.external import fail_external_job
from jobexec.operations.tasks.return_values import encode_return_value
from tests.gateways.v2 import URLS, V2
from tests.support.executor import run_one
from tests.support.jobs_command import jobs
from tests.support.outside import fetch

from .conftest import TABLES, list_url, page_url
from .dashboard.test_dashboard import PAGE as DASHBOARD

SECRET = "Marker-4111-1111-XyZ"
USING = "default"


@pytest.fixture(autouse=True)
def keys(settings):
    settings.JOBEXEC = {
        "ENGINES": {USING: {}},
        "HISTORY_LEVEL": "full",
        "GATEWAY_AUTH": "none",
        "ENCRYPTION_KEYS": {"2026": base64.urlsafe_b64encode(os.urandom(32)).decode()},
    }


def charge(card, fail=True, **more):
    if fail:
        raise ValueError(f"declined: {card}, {card[::-1]}, {card.swapcase()}")
    return {"paid by": card}


@pytest.fixture
def handler(handle):
    handler = handle(charge, name="shop.charge", encrypted=True, retries="R2/PT1H").using(database=USING)
    kept = handle(charge, name="shop.charge_task", encrypted=True)
    kept.keeps_result, kept.encode_result, kept.finished = True, encode_return_value, lambda *args: None
    return handler


def spellings():
    return {SECRET, SECRET[::-1], SECRET.swapcase(), *_encoded(SECRET)}


def _encoded(text):
    for shift in range(3):
        whole = base64.b64encode(b"x" * shift + text.encode()).decode()
        yield whole[4:-4]


def assert_nowhere(text, place):
    for spelled in spellings():
        assert spelled not in text, f"{place} shows the secret"


def assert_no_table_has_it():
    for model in apps.get_models():
        for row in model._base_manager.using(USING).values():
            assert_nowhere(json.dumps(row, default=str), model.__name__)


def assert_no_page_has_it(client):
    for url in (DASHBOARD, *map(list_url, TABLES)):
        response = client.get(url)
        assert response.status_code == 200, url
        assert_nowhere(response.content.decode(), url)
    count = 0
    for table in TABLES:
        for row in table._base_manager.using(USING).all()[:20]:
            url, count = page_url(row), count + 1
            assert_nowhere(client.get(url).content.decode(), url)
    assert count


def assert_no_command_has_it():
    named = [each.pk for table in (Job, TimerJob, DeadLetterJob) for each in table.objects.using(USING)]
    for arguments in (["list"], ["list", "--json"], ["incidents"], ["stats"], ["stats", "--json"], ["batches"]):
        code, text = jobs(*arguments, alias=USING)
        assert code in (0, 1), text
        assert_nowhere(text, arguments)
    for pk in named:
        for arguments in (["show", pk], ["show", "--json", pk], ["why", pk]):
            assert_nowhere(jobs(*arguments, alias=USING)[1], arguments)


def assert_no_answer_has_it():
    with override_settings(ROOT_URLCONF=URLS):
        v2 = V2()
        for path in ("/jobs/search", "/incidents/search", "/jobs/statistics/by-types"):
            assert_nowhere(json.dumps(v2.post(path, {})), path)
    assert_nowhere(repr(list(JobExecCollector().collect())), "the metrics")


@pytest.mark.slow
def test_it_is_found_nowhere(transactional_db, admin, handler, caplog):
    caplog.set_level(logging.DEBUG)
    first = handler.using(unique=True).enqueue(SECRET, note={"deep": [SECRET]})
    handler.using(unique=lambda card, **more: card).enqueue(SECRET)
    handler.enqueue_many([[SECRET], {"card": SECRET}])
    handler.enqueue_on_commit(SECRET)
    task = jobexec.handlers.registry.get_handler("shop.charge_task").using(database=USING).enqueue(SECRET, fail=False)
    Job.objects.using(USING).filter(pk=task.pk).update(task_backend="default")
    jobexec.external_job("pay", variables={"card": SECRET}, encrypted=True, database=USING)
    everywhere = (
        assert_no_table_has_it,
        lambda: assert_no_page_has_it(admin),
        assert_no_command_has_it,
        assert_no_answer_has_it,
        lambda: assert_nowhere(caplog.text, "the log"),
    )

    def look():
        for place in everywhere:
            place()

    look()
    while Job.objects.using(USING).exists():
        run_one(USING)
    assert TaskResult.objects.using(USING).get().status == "SUCCESSFUL"
    (outside,) = fetch(USING, "pay")
    assert outside.variables == {"card": SECRET}
    fail_external_job(USING, outside.key, retries=1, message=SECRET, details=SECRET, variables={"again": SECRET})
    assert TimerJob.objects.using(USING).count() == 5
    look()
    retry_now(TimerJob.objects.using(USING).all())
    while Job.objects.using(USING).exists():
        run_one(USING)
    assert DeadLetterJob.objects.using(USING).count() == 5
    (outside,) = fetch(USING, "pay")
    fail_external_job(USING, outside.key, retries=0, message=SECRET, details=SECRET)
    look()
    reencrypt(DeadLetterJob.objects.using(USING).all())
    set_retries(first.pk, 2, using=USING)
    start_batch("requeue", DeadLetterJob.objects.using(USING).filter(handler_type="shop.charge"))
    requeue(first.pk, using=USING)
    look()
    for _ in range(20):
        if not Job.objects.using(USING).exists():
            break
        run_one(USING)
    look()
    assert JobLog.objects.using(USING).filter(handler_type="shop.charge").count() >= 10
    assert "declined" not in caplog.text
    assert "ValueError" in caplog.text


def test_its_page_says_that_it_is_encrypted(admin, handler):
    row = handler.enqueue(SECRET)
    page = admin.get(page_url(row)).content.decode()
    assert "encrypted" in page
    assert "2026" in page


@pytest.mark.gate
def test_who_may_see_it_has_to_ask_and_is_recorded(staff, handler):
    row = handler.enqueue(SECRET)
    ordinary, trusted = staff(), staff("reveal_job")
    assert_nowhere(ordinary.get(f"{page_url(row)}?reveal=1").content.decode(), "a page without the permission")
    assert "reveal=1" not in ordinary.get(page_url(row)).content.decode()
    page = trusted.get(page_url(row)).content.decode()
    assert_nowhere(page, "a page that was not asked")
    assert "?reveal=1" in page
    assert not AuditLog.objects.using(USING).exists()
    assert SECRET in trusted.get(f"{page_url(row)}?reveal=1").content.decode()
    entry = AuditLog.objects.using(USING).get()
    assert (entry.verb, entry.object_id) == ("reveal", str(row.pk))
    assert_no_table_has_it()


def test_what_cannot_be_shown_says_why(staff, handler, settings):
    row = handler.enqueue(SECRET)
    settings.JOBEXEC = {**settings.JOBEXEC, "ENCRYPTION_KEYS": {}}
    page = staff("reveal_job").get(f"{page_url(row)}?reveal=1").content.decode()
    assert "not in ENCRYPTION_KEYS" in page


def test_sensitive_arguments_stay_hidden_even_then(staff, handle):
    handler = handle(charge, name="shop.pay", encrypted=True, sensitive=("card",)).using(database=USING)
    page = staff("reveal_job").get(f"{page_url(handler.enqueue(SECRET, fail=False))}?reveal=1").content.decode()
    assert "●●●" in page
    assert SECRET not in page


def test_an_external_job_is_revealed_too(staff, handler):
    row = jobexec.external_job("pay", variables={"note": SECRET}, encrypted=True, database=USING)
    assert isinstance(row, ExternalWorkerJob)
    assert SECRET in staff("reveal_job").get(f"{page_url(row)}?reveal=1").content.decode()
