"""What people read in their language: pages, columns, reasons."""

import pytest
from django.utils import translation

from jobexec import operations
from jobexec.models import Batch, BatchFailure, DeadLetterJob, Job, SuspendedJob

from . import data
from .conftest import list_url, page_url

pytestmark = pytest.mark.django_db


@pytest.fixture
def german(settings):
    settings.LANGUAGE_CODE = "de"
    with translation.override("de"):
        yield


def test_the_page_of_a_job(german, staff):
    page = staff().get(page_url(data.dead_letter(handler_type="shop.pay"))).content.decode()
    assert "Warum läuft er nicht?" in page and "ein Dead Letter, nach 3 Versuchen" in page
    assert "Handler-Typ:" in page and "handler type" not in page.lower()


def test_what_an_action_asks_and_says(german, staff):
    client, rows = staff("requeue_deadletterjob"), [data.dead_letter(), data.dead_letter()]
    asked = client.act(DeadLetterJob, "requeue", rows, answered=False).content.decode()
    assert "<h2>2 Dead-Letter-Jobs</h2>" in asked and 'value="Neu einreihen"' in asked
    done = client.act(DeadLetterJob, "requeue", rows, retries=2)
    assert client.told(done) == [("success", "2 Jobs neu eingereiht (verbleibende Versuche: 2).")]
    gone = client.act(DeadLetterJob, "requeue", rows[:1], retries=2)
    assert client.told(gone)[1:] == [
        ("warning", f"1 Dead-Letter-Job übersprungen: Status inzwischen: ausführbar ({rows[0].pk}).")
    ]


def test_why_a_job_was_left_alone(german):
    running, suspended = data.running(), data.make(SuspendedJob)
    refused = operations.delete_jobs([running.pk]).skipped[running.pk]
    assert refused == f"läuft oder wartet auf {running.lock_owner}"
    refused = operations.requeue([suspended.pk], 3).skipped[suspended.pk]
    assert refused == "nicht möglich im Status „ausgesetzt“"


def test_a_reason_that_an_executor_wrote_in_its_own_language(german, staff):
    batch = data.batch()
    BatchFailure.objects.create(batch=batch, job_id=data.make(Job).pk, reason="it has changed in the meantime")
    page = staff().get(page_url(batch)).content.decode()
    assert "inzwischen geändert" in page
    assert "<h1>Batches</h1>" in staff().get(list_url(Batch)).content.decode()
