"""Results of tasks: what a page tells, and what it keeps to itself."""

import pytest
from django.urls import reverse

from jobexec import clock, job
from jobexec.handlers.registry import isolated
from jobexec.models import DeadLetterJob, JobDefinition, ResultStatus, TaskResult, TimerJob
from tests.support.audit import audit_log

from .. import data
from ..conftest import list_url, page_url


def text_of(response):
    return response.content.decode()


def test_a_page_tells_of_each_attempt(admin):
    row = data.task_result()
    content = text_of(admin.get(page_url(row)))
    assert content.index("Attempt 2") < content.index("Attempt 1")
    assert "on worker-1" in content and "on worker-2" in content
    assert "<summary>shop.gateway.GatewayTimeout</summary>" in content
    assert "no answer from pay.example" in content
    assert "2026-0042" in content
    assert "The job is done or deleted; see its log" in content


@pytest.mark.gate
def test_a_result_whose_job_waits_leads_to_it(admin):
    dead = data.dead_letter(task_backend="default")
    waits = data.make(TimerJob, due_date=clock.now(), attempts=1, task_backend="default")
    over = {"return_value": None, "end_time": None}
    results = [
        data.task_result(id=dead.pk, status=ResultStatus.FAILED, **over),
        data.task_result(id=waits.pk, status=ResultStatus.READY, **over),
    ]
    shown = text_of(admin.get(list_url(TaskResult)))
    assert "dead letter" in shown and "GatewayTimeout" in shown
    for row, result in zip((dead, waits), results, strict=True):
        assert reverse("admin:jobexec_job_locate", args=[row.pk]) in text_of(admin.get(page_url(result)))
        assert f'<a href="{page_url(result)}">Its task result</a>' in text_of(admin.get(page_url(row)))


def test_a_status_that_nobody_knows_takes_no_page_away(admin):
    row = data.task_result()
    TaskResult.objects.update(status="LOST")  # another program
    for url in (list_url(TaskResult), page_url(row)):
        assert "LOST" in text_of(admin.get(url))


@pytest.mark.gate
def test_what_is_sensitive_is_hidden(admin):
    def pay(card, token, big=None): ...

    columns = {
        "handler_type": "tests.pay",
        "handler_configuration": {"args": ["4111111111111111", "tok-12345"], "kwargs": {}},
        "return_value": {"token": "tok-67890", "card": "4111111111111111", "amount": 5},
        "errors": [{"exception_class_path": "ValueError", "traceback": "ValueError: tok-12345 was refused"}],
    }
    with isolated():
        job(name="tests.pay", sensitive=["card"])(pay)
        row = data.task_result(**columns)
        for content in (text_of(admin.get(page_url(row))), text_of(admin.get(list_url(TaskResult)))):
            for secret in ("4111111111111111", "tok-12345", "tok-67890"):
                assert secret not in content
    JobDefinition.objects.create(id="tests.pay", handler_type="tests.pay", sensitive=["card"])
    for content in (text_of(admin.get(page_url(row))), text_of(admin.get(list_url(TaskResult)))):
        for secret in ("4111111111111111", "tok-67890"):
            assert secret not in content, "known by what an executor has recorded"


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ({"q": "shop.mail"}, ["mail"]),
        ({"q": "  shop"}, ["mail", "pay"]),
        ({"of_backend": "other"}, ["mail"]),
        ({"status__exact": "FAILED"}, ["pay"]),
        ({"tenant": "acme"}, ["pay"]),
        ({"end_time__range__gte_0": "2099-01-01", "end_time__range__gte_1": "00:00:00"}, []),
    ],
)
def test_filters_and_search(admin, settings, query, found):
    settings.TASKS = {"other": {"BACKEND": "django.tasks.backends.dummy.DummyBackend"}}
    data.task_result(handler_type="shop.pay", status=ResultStatus.FAILED, tenant_id="acme")
    data.task_result(handler_type="shop.mail", backend="other")
    rows = admin.get(list_url(TaskResult), query).context["cl"].result_list
    assert sorted(row.handler_type.split(".")[1] for row in rows) == found


def test_it_is_found_by_its_id(admin):
    row = data.task_result()
    data.task_result()
    response = admin.get(list_url(TaskResult), {"q": str(row.pk)})
    assert [each.pk for each in response.context["cl"].result_list] == [row.pk]


def test_deleting_forgets_the_result_and_leaves_the_job(admin):
    dead = data.dead_letter(task_backend="default")
    row = data.task_result(id=dead.pk, status=ResultStatus.FAILED)
    response = admin.act(TaskResult, "delete_selected", [row])
    assert admin.told(response) == [("success", "1 task result deleted.")]
    assert not TaskResult.objects.exists() and DeadLetterJob.objects.filter(pk=dead.pk).exists()
    assert audit_log()[0].object_id == str(row.pk)


def test_nobody_edits_one(admin):
    row = data.task_result()
    assert admin.post(page_url(row), {"status": "FAILED", "_save": "1"}).status_code == 403
    assert admin.get(f"{list_url(TaskResult)}add/").status_code == 403
