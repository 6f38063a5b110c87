"""Actions on very many rows are batches; batches have a page, and people hold them up and end them."""

from datetime import timedelta

import pytest

from jobexec import clock, operations
from jobexec.admin.batches.selection_words import words
from jobexec.admin.common import batching
from jobexec.models import (
    Batch,
    BatchFailure,
    BatchPart,
    BatchState,
    DeadLetterJob,
    Job,
    SuspendedJob,
    Suspension,
    SuspensionScope,
    TimerJob,
)
from jobexec.operations.batches.control import start_batch
from jobexec.operations.query.stored_filter import describe, resolve
from tests.support.audit import audit_log

from .. import data
from ..conftest import list_url, page_url


@pytest.fixture
def few(monkeypatch):
    """Three rows are not many; four are."""
    monkeypatch.setattr(batching, "BATCH_ABOVE", 3)


def act_on_all(client, table, action, query="", **answers):
    return client.act(table, action, [table.objects.first()], select_across="1", query=query, **answers)


def meant(batch):
    rows = resolve(batch.selection, "default")
    return {row.pk for row in rows if row.batch_id != batch.pk}  # none of its own


def test_all_of_a_long_list_are_a_batch(admin, few):
    mine = {data.dead_letter(process_instance_id="order-1").pk for _ in range(4)}
    data.dead_letter(process_instance_id="order-2")
    asked = act_on_all(admin, DeadLetterJob, "requeue", "?q=order-1", answered=False)
    assert b'id="jobexec-large"' in asked.content
    assert not Batch.objects.exists()
    response = act_on_all(admin, DeadLetterJob, "requeue", "?q=order-1", retries="5")
    batch = Batch.objects.get()
    assert response["Location"] == page_url(batch)
    assert (batch.type, batch.arguments, batch.create_user) == ("requeue", {"retries": 5}, "admin")
    assert meant(batch) == mine
    assert DeadLetterJob.objects.count() == 5  # by its jobs, not by the request
    (entry,) = audit_log()
    assert (entry.verb, entry.object_type, entry.object_id) == ("start_batch", "batch", str(batch.pk))
    assert entry.new_value == {"operation": "requeue", "retries": 5} and "order-1" in str(entry.scope)
    assert admin.told(response)[0][0] == "success"
    assert "start batch: operation requeue, retries 5" in admin.get(page_url(batch)).content.decode()


def test_a_batch_is_never_begun_without_a_question(admin, few):
    for _ in range(4):
        data.make(TimerJob, due_date=clock.now() + timedelta(hours=1))
    asked = act_on_all(admin, TimerJob, "retry_now", answered=False)
    assert asked.status_code == 200
    assert b'id="jobexec-large"' in asked.content
    assert not Batch.objects.exists()
    act_on_all(admin, TimerJob, "retry_now")
    assert Batch.objects.get().type == "retry_now"


def test_few_rows_and_rows_of_one_page_are_done_at_once(admin, few):
    jobs = [data.dead_letter() for _ in range(3)]
    act_on_all(admin, DeadLetterJob, "requeue", retries="5")
    assert Job.objects.count() == 3
    jobs = [data.dead_letter() for _ in range(4)]
    admin.act(DeadLetterJob, "requeue", jobs, retries="5")
    assert Job.objects.count() == 7
    assert not Batch.objects.exists()


@pytest.mark.parametrize(
    ("table", "action", "answers", "type", "arguments"),
    [
        (Job, "reset_retries", {"retries": "7"}, "set_retries", {"retries": 7}),
        (Job, "set_priority", {"priority": "9"}, "set_priority", {"priority": 9}),
        (Job, "suspend", {}, "suspend", {"at": None, "until": None}),
        (Job, "activate", {}, "activate", {}),
        (Job, "cancel", {}, "cancel", {}),
        (Job, "delete_selected", {}, "delete", {}),
        (SuspendedJob, "activate", {}, "activate", {}),
        (TimerJob, "retry_now", {}, "retry_now", {}),
        (DeadLetterJob, "delete_selected", {}, "delete", {}),
    ],
)
def test_every_operation_with_its_arguments(admin, few, table, action, answers, type, arguments):
    rows = {data.make(table).pk for _ in range(4)}
    act_on_all(admin, table, action, **answers)
    batch = Batch.objects.get()
    assert (batch.type, batch.arguments) == (type, arguments)
    assert "where" in batch.selection  # conditions, and not ids
    assert meant(batch) == rows


def test_due_dates_are_those_of_the_form(admin, few, settings):
    settings.TIME_ZONE = "Europe/Berlin"
    for _ in range(4):
        data.make(Job)
    act_on_all(admin, Job, "reschedule", due_date="2099-07-01T10:00:00")
    assert Batch.objects.get().arguments["due_date"] in ("2099-07-01T10:00:00+02:00", "2099-07-01T08:00:00+00:00")


@pytest.mark.parametrize(
    "query",
    [
        "?lock=free&in_category=default&handler=shop.jobs.charge_card&tenant=acme&process_definition=pay",
        "?priority__range__gte=0&priority__range__lte=9&q=shop.jobs",
        "?create_time__range__gte_0=2000-01-01&create_time__range__gte_1=00:00:00&o=1",
    ],
)
def test_every_filter_is_a_condition_of_the_batch(admin, few, query):
    data.some_of_everything()
    columns = {"tenant_id": "acme", "process_definition_key": "pay", "process_instance_id": ""}
    mine = {data.make(Job, **columns).pk for _ in range(4)}
    act_on_all(admin, Job, "set_priority", query, priority="3")
    batch = Batch.objects.get(type="set_priority")
    assert "where" in batch.selection
    assert meant(batch) >= mine
    if "tenant=acme" in query:
        assert meant(batch) == mine
        assert batch.tenant_id == "acme"


def test_who_may_not_see_batches_is_led_back_to_the_list(staff, few):
    for _ in range(4):
        data.dead_letter()
    client = staff("requeue_deadletterjob", "view_deadletterjob", view=False)
    response = act_on_all(client, DeadLetterJob, "requeue", "?o=1", retries="5")
    assert response["Location"] == f"{list_url(DeadLetterJob)}?o=1"
    assert client.told(response)[0][1].startswith("Requeue: started a batch for 4 dead letter jobs.")
    assert Batch.objects.exists()


def test_a_batch_of_a_group_of_failures(admin):
    mine, other = data.dead_letter(), data.dead_letter(fingerprint="f" * 32)
    group, empty = data.failure_group(), data.failure_group(fingerprint="e" * 32)
    response = admin.act(type(group), "requeue", [group, empty], retries="2")
    batch = Batch.objects.get()
    assert (meant(batch), batch.arguments) == ({mine.pk}, {"retries": 2})
    assert other.pk not in meant(batch)
    told = admin.told(response)
    assert told[0] == ("success", "A batch requeues the dead letters of 1 group with 2 retries.")
    assert told[1][1].startswith("1 group of failures skipped: none of its jobs is a dead letter")
    response = admin.act(type(group), "requeue", [group], retries="2", _from_page="1")
    assert response["Location"] == list_url(Batch)


@pytest.mark.gate
def test_the_page_tells_how_far_it_is(admin):
    batch = data.batch()
    BatchPart.objects.create(batch=batch, job_id=batch.pk, size=100, changed=90, skipped=10, end_time=clock.now())
    for number in range(105):
        BatchFailure.objects.create(batch=batch, job_id=data.dead_letter().pk, reason=f"reason {number}.")
    data.dead_letter(process_instance_id=batch.process_instance_id, batch_id=batch.pk)
    response = admin.get(page_url(batch))
    content = response.content.decode()
    assert '<meter min="0" max="1000" value="801"></meter> 801 / 1,000' in content
    assert "801 / 1,000" in admin.get(list_url(Batch)).content.decode()
    assert "790 changed, 11 skipped, 199 open" in content
    assert "retries: 3" in content
    assert "all dead letter jobs" in content
    assert "reason 99." in content
    assert "reason 100." not in content
    assert f"{list_url(DeadLetterJob)}?q=batch%3A{batch.pk}" in content
    assert 'id="jobexec-failed-jobs"' in content
    assert 'id="jobexec-stalled"' in content, "it has neither seed nor monitor"
    assert "activate" in offered(admin, batch)
    operations.activate_batch(batch.pk)
    assert 'id="jobexec-stalled"' not in admin.get(page_url(batch)).content.decode()


def offered(client, batch):
    return [action.name for action in client.get(page_url(batch)).context["row_actions"]]


@pytest.mark.gate
def test_suspend_activate_cancel_and_delete(admin):
    for _ in range(4):
        data.dead_letter()
    batch = start_batch("requeue", DeadLetterJob.objects.all(), user="admin")
    assert offered(admin, batch) == ["suspend", "cancel", "delete_selected"]
    response = admin.act(Batch, "suspend", [batch])
    assert offered(admin, batch) == ["activate", "cancel", "delete_selected"]
    assert admin.told(response)[0][1].startswith("1 batch suspended.")
    assert Suspension.objects.get().scope == SuspensionScope.PROCESS_INSTANCE
    assert "suspended</span>" in admin.get(list_url(Batch)).content.decode().split("result_list")[1]
    admin.act(Batch, "activate", [batch])
    assert not Suspension.objects.exists()
    assert b"Completed changes remain" in admin.act(Batch, "cancel", [batch], answered=False).content
    admin.act(Batch, "cancel", [batch])
    assert Batch.objects.get().state == BatchState.CANCELLED
    assert offered(admin, batch) == ["delete_selected"]
    response = admin.act(Batch, "suspend", [batch])
    assert admin.told(response)[-1] == (
        "warning",
        f"1 batch skipped: The batch {batch.pk} has been cancelled ({batch.pk}).",
    )
    response = admin.act(Batch, "delete_selected", [batch], _from_page="1")
    assert response["Location"] == list_url(Batch)
    assert not Batch.objects.exists()


def test_a_batch_that_is_gone_meanwhile(admin):
    batch = data.batch()
    batch.delete()
    batch.pk = Job().pk
    response = admin.act(Batch, "suspend", [batch])
    assert admin.told(response)[0][1].startswith("1 batch skipped: it is no longer in the list")


@pytest.mark.gate
def test_a_job_of_a_batch_leads_to_it(admin, staff):
    batch = data.batch()
    job = data.make(Job, batch_id=batch.pk)
    assert page_url(batch) in admin.get(page_url(job)).content.decode()
    assert page_url(batch) not in staff("view_job", view=False).get(page_url(job)).content.decode()


def test_selections_in_words(db):
    jobs = DeadLetterJob.objects
    job = operations.create_job("default", handler_type="shop.pay")
    for queryset, text in (
        (jobs.all(), "all dead letter jobs"),
        (jobs.filter(handler_type="shop.pay"), "dead letter jobs with handler type = “shop.pay”"),
        (jobs.exclude(priority__gte=5), "dead letter jobs with not (priority ≥ 5)"),
        (jobs.filter(lock_owner=None), "dead letter jobs with no lock owner"),
        (jobs.filter(tenant_id__in=["a", "b"]), "dead letter jobs with tenant id among “a”, “b”"),
        (jobs.none(), "dead letter jobs with nothing"),
    ):
        assert words(describe(queryset)) == text
    assert words({"ids": [job.pk.hex]}) == "1 individually selected jobs"
    assert "something else" in words({"table": "something else"})
