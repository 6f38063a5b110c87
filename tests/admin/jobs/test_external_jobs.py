"""Jobs of workers outside in the admin."""

from datetime import timedelta

import pytest

from jobexec import clock
from jobexec.models import (
    DeadLetterJob,
    ExclusiveLock,
    ExternalWorkerJob,
    Incident,
    Job,
    SuspendedJob,
)
from jobexec.operations.rows.external_exclusive import owner_of
from tests.support.outside import seen

from .. import data
from ..conftest import list_url, page_url

FREE = {"lock_owner": None, "lock_expiration_time": None, "available_at": None, "lease_token": ""}


def shown(response):
    return [row.pk for row in response.context["cl"].result_list]


@pytest.fixture
def jobs(db):
    now = clock.now()
    over, later = now - timedelta(minutes=1), now + timedelta(minutes=10)
    return {
        "held": data.external(),
        "free": data.external(**FREE),
        "waiting": data.external(**{**FREE, "available_at": later}, **data.FAILURE),
        "missed": data.external(lock_expiration_time=over, available_at=over, lock_owner="payments-2"),
        "mail": data.external(**FREE, handler_type="mail"),
    }


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ({}, {"held", "free", "waiting", "missed", "mail"}),
        ({"lock": "free"}, {"free", "missed", "mail"}),
        ({"lock": "held"}, {"held"}),
        ({"lock": "waiting"}, {"waiting"}),
        ({"lock": "missed"}, {"missed"}),
        ({"handler": "mail"}, {"mail"}),
        ({"worker": "payments-2"}, {"missed"}),
    ],
)
def test_filters(admin, jobs, query, expected):
    assert set(shown(admin.get(list_url(ExternalWorkerJob), query))) == {jobs[name].pk for name in expected}


def test_what_a_glance_tells(admin, jobs):
    content = admin.get(list_url(ExternalWorkerJob)).content.decode()
    for word in ("with a worker", "available", "backing off", "deadline missed", "payments-1", "payments-2"):
        assert word in content, word
    assert str(jobs["held"].job_key) in content


def test_the_types_that_workers_ask_for_are_offered(admin, jobs):
    seen("default", type="payment")
    seen("default", type="refund", worker="w2")
    assert 'value="refund"' in admin.get(list_url(ExternalWorkerJob)).content.decode()


@pytest.mark.gate
@pytest.mark.parametrize("table", [ExternalWorkerJob, SuspendedJob, DeadLetterJob])
def test_search_by_key(admin, table):
    rows = [data.make(table, job_key=2**51 + number, process_instance_id="") for number in (1, 2)]
    assert shown(admin.get(list_url(table), {"q": str(rows[1].job_key)})) == [rows[1].pk]
    assert shown(admin.get(list_url(table), {"q": str(2**51 + 3)})) == []
    assert admin.get(list_url(Job), {"q": str(rows[1].job_key)}).status_code == 200


def test_an_incident_by_its_key(admin):
    incident = data.incident(data.dead_letter(), incident_key=2**51 + 9)
    data.incident(data.dead_letter())
    assert shown(admin.get(list_url(Incident), {"q": str(2**51 + 9)})) == [incident.pk]


def test_its_page_hides_what_is_sensitive_and_the_lease(admin, jobs):
    content = admin.get(page_url(jobs["held"])).content.decode()
    assert "The worker payments-1 holds it until" in content
    assert "Held by payments-1" in content and "then other workers may fetch the job" in content
    assert "card_password" in content and "hush" not in content
    assert "s3cr3t" not in content
    assert str(jobs["held"].job_key) in content
    assert "expired" in admin.get(page_url(jobs["missed"])).content.decode()


def test_what_handlers_that_run_afterwards_call_sensitive_is_hidden(db):
    from jobexec.models import JobDefinition
    from jobexec.redaction import redact_job

    name = "shop.jobs.charge_card"
    JobDefinition.objects.create(id=name, handler_type=name, category="default", sensitive=["amount", "order"])
    shown = redact_job(data.external())
    assert shown["variables"] == {"amount": "●●●", "card_password": "●●●"}
    assert shown["on_complete"]["kwargs"] == {"order": "●●●"}


def test_it_is_among_the_siblings(admin, jobs):
    job = data.make(Job)
    content = admin.get(page_url(job)).content.decode()
    assert page_url(jobs["held"]) in content
    assert f"{list_url(ExternalWorkerJob)}?q=order-4711" in content


def test_the_lock_of_its_process_instance_leads_to_it(admin, jobs):
    held = jobs["held"]
    lock = {"process_instance_id": "order-4711", "lock_owner": owner_of(held.pk), "acquisition": held.pk}
    ExclusiveLock.objects.create(**lock)
    content = admin.get(list_url(ExclusiveLock)).content.decode()
    assert "external job" in content and f"locate/{held.pk}/" in content
    assert f"{list_url(ExternalWorkerJob)}?q=order-4711" in content
    assert "Held by payments-1 for " in admin.get(page_url(held)).content.decode()


def test_unlock_gives_it_to_others(admin, jobs):
    response = admin.act(ExternalWorkerJob, "unlock", [jobs["held"]])
    assert admin.told(response)[0][1] == "1 job unlocked."
    assert ExternalWorkerJob.objects.get(pk=jobs["held"].pk).lock_owner is None


def test_the_dashboard_counts_them_only_if_there_are_any(admin):
    assert b"with workers" not in admin.get("/admin/jobexec/").content
    data.external()
    data.external(**FREE)
    content = admin.get("/admin/jobexec/").content.decode()
    tile = content[content.index('<span class="jobexec-tile-name">External</span>') :]
    assert '<span class="jobexec-tile-count">2</span>' in tile and "1 with workers" in tile
