"""The page of a batch of jobs: its progress, what follows it, and what operators do with it."""

import pytest

import jobexec
from jobexec.models import Batch, DeadLetterJob, TimerJob
from jobexec.testing import ManualExecutor
from tests.support.audit import audit_log

from .. import data
from ..conftest import list_url, page_url


@pytest.fixture
def work(handle):
    def work(number):
        if number < 0:
            raise ValueError(number)

    return handle(work, retries="R1/PT0S")


@pytest.fixture
def tell(handle):
    def tell(what, password):
        pass

    return handle(tell)


@pytest.fixture
def batch(work, tell):
    batch = jobexec.batch(name="invoices", on_success=tell.s("done", "s3cret"), deadline=900)
    batch.add_many([work.s(1), work.s(-1), work.s(2)])
    ManualExecutor(reraise=False).run_due(2)
    return batch


def named(response):
    return {action.name for action in response.context["row_actions"]}


def test_the_list_and_the_page(admin, batch):
    data.batch()
    listed = admin.get(list_url(Batch)).content.decode()
    assert "invoices" in listed and '<meter min="0" max="3" value="2"></meter> 2 / 3' in listed
    assert "added so far" in listed and "requeue" in listed
    only = admin.get(f"{list_url(Batch)}?kind=jobs").content.decode().split("result_list")[1]
    assert "invoices" in only and "requeue" not in only
    response = admin.get(page_url(batch.row))
    page = response.content.decode()
    assert "1 completed, 1 failed, 0 cancelled, 1 open" in page
    assert "tests.tell" in page and "s3cret" not in page, "sensitive arguments are hidden"
    assert f"{list_url(DeadLetterJob)}?batch_id={batch.id}" in page
    assert named(response) == {"seal", "retry", "cancel", "delete_selected"}
    assert 'id="jobexec-failures"' not in page, "that is about operations"


@pytest.mark.gate
def test_its_children(admin, batch, work):
    work.s(5).enqueue()
    (found,) = admin.get(f"{list_url(DeadLetterJob)}?batch_id={batch.id}").context["cl"].result_list
    assert found.batch_id == batch.id
    assert f"/batch/{batch.id}/" in admin.get(page_url(found)).content.decode()


def test_it_is_fresh_with_javascript_until_it_is_over(admin, batch):
    page = admin.get(page_url(batch.row)).content.decode()
    assert 'id="jobexec-refresh" data-seconds="5"' in page and "jobexec/refresh.js" in page
    batch.cancel()
    page = admin.get(page_url(batch.row)).content.decode()
    assert "jobexec-refresh" not in page and "refresh.js" not in page


def test_seal_retry_and_cancel(admin, batch):
    response = admin.act(Batch, "seal", [batch.row])
    assert admin.told(response) == [("success", "1 batch sealed.")] and batch.state == "running"
    assert named(admin.get(page_url(batch.row))) == {"retry", "cancel", "delete_selected"}
    response = admin.act(Batch, "retry", [batch.row])
    assert admin.told(response) == [("success", "The failed jobs of 1 batch are retried.")]
    assert batch.progress().failed == 0
    response = admin.act(Batch, "retry", [batch.row])
    assert admin.told(response)[-1][1] == f"1 batch skipped: it has no failed jobs ({batch.id})."
    admin.act(Batch, "cancel", [batch.row])
    assert batch.state == "cancelled" and batch.progress() == (3, 1, 0, 2, 0)
    verbs = [(entry.verb, entry.object_type, entry.object_id) for entry in audit_log()]
    assert {("seal_batch", "batch", str(batch.id)), ("cancel_batch", "batch", str(batch.id))} <= set(verbs)
    assert "retry_batch" in {verb for verb, *_ in verbs}


def test_the_dashboard_names_it(admin, batch):
    assert "invoices" in admin.get("/admin/jobexec/").content.decode()
    assert TimerJob.objects.filter(batch_id=batch.id).exists()
