"""A person at work in a real browser: find the dead letter, read it, requeue it, see it done."""

from collections.abc import Iterator

import pytest

from jobexec import job
from jobexec.admin.common import batching
from jobexec.executor.execute_now import execute_now
from jobexec.handlers import registry
from jobexec.models import JOB_TABLES, Batch, DeadLetterJob, Job, JobLog, LogState, Suspension
from tests.support.web import browser

from . import data
from .conftest import list_url, page_url

pytestmark = browser.marks


@pytest.fixture
def charged() -> Iterator[list[int]]:
    """Calls of the handler that the dead letters name."""
    calls: list[int] = []
    with registry.isolated():
        job(name="shop.jobs.charge_card")(lambda order, currency: calls.append(order))
        yield calls


def test_repair_a_dead_letter(page, live_server, charged):
    broken = data.dead_letter(handler_configuration={"args": [4711], "kwargs": {"currency": "EUR"}})
    data.log(broken, attempt=3, retries=0)
    for number in range(3):
        data.dead_letter(process_instance_id=f"order-{number}", died_at="2020-01-01T00:00Z")

    page.goto("/admin/")
    page.click("text=Dead letter jobs")
    page.wait_for_selector("text=4 dead letter jobs")
    leave_an_old_incident_out(page)
    read_the_first(page)
    page.go_back()
    page.wait_for_selector("text=1 dead letter job")
    requeue_the_first(page)
    assert "died_at__range__gte_0" in page.url  # still filtered
    assert Job.objects.get().retries == 5

    execute_now(broken.pk)
    assert charged == [4711]
    page.goto(f"{live_server.url}{list_url(Job)}?q={broken.pk}")
    page.wait_for_selector("text=0 jobs")
    assert page.locator(".jobexec-count").all_inner_texts() == ["0"] * len(JOB_TABLES)
    page.goto(f"{live_server.url}{page_url(broken)}")
    page.wait_for_selector("text=The job is done or deleted")
    assert page.locator("#result_list .field-state_badge").all_inner_texts() == ["successful", "failed"]
    assert JobLog.objects.filter(job_id=broken.pk, state=LogState.SUCCESSFUL).count() == 1


def leave_an_old_incident_out(page):
    page.fill("input[name=died_at__range__gte_0]", "2021-01-01")
    page.fill("input[name=died_at__range__gte_1]", "00:00:00")
    page.locator("form", has=page.locator("input[name=died_at__range__gte_0]")).locator("input[type=submit]").click()
    page.wait_for_selector("text=1 dead letter job")
    assert page.locator("#result_list tbody tr").count() == 1


def read_the_first(page):
    page.click("#result_list tbody tr th a")
    page.wait_for_selector("text=Timeline")
    assert page.locator("pre", has_text="GatewayTimeout").first.is_visible()
    page.click("#jobexec-timeline summary")
    assert page.locator("#jobexec-timeline pre").is_visible()


def requeue_the_first(page):
    page.check("#result_list tbody tr input.action-select")
    page.select_option("select[name=action]", "requeue")
    page.click("button[name=index]")
    page.fill("input[name=retries]", "5")
    page.click("#jobexec-ask input[type=submit]")
    page.wait_for_selector("text=1 job requeued with 5 retries.")


def test_the_buttons_on_the_page_of_a_job(page, live_server):
    broken = data.dead_letter()
    page.goto(f"{live_server.url}{page_url(broken)}")
    page.click("#jobexec-actions button[value=requeue]")
    page.click("text=No, take me back")
    assert DeadLetterJob.objects.exists()
    page.goto(f"{live_server.url}{page_url(broken)}")
    page.click("#jobexec-actions button[value=requeue]")
    page.click("#jobexec-ask input[type=submit]")
    page.wait_for_selector("text=1 job requeued with 3 retries.")
    assert page.url == f"{live_server.url}{page_url(Job.objects.get())}"
    page.click("#jobexec-actions button[value=reschedule]")
    page.fill("input[name=due_date]", "2099-01-01T10:00:00")
    page.click("#jobexec-ask input[type=submit]")
    page.wait_for_selector("text=1 job is due 01/01/2099 10:00:00 UTC.")
    page.click("#jobexec-actions button[value=delete_selected]")
    page.click("#jobexec-ask input[type=submit]")
    page.wait_for_selector("text=1 job deleted.")
    page.wait_for_selector("text=The job is done or deleted")


def test_all_pages_at_once(page, live_server):
    for _ in range(60):
        data.dead_letter()
    page.goto(f"{live_server.url}{list_url(DeadLetterJob)}")
    page.check("#action-toggle")
    page.click("text=Select all 60 dead letter jobs")
    page.select_option("select[name=action]", "requeue")
    page.click("button[name=index]")
    page.wait_for_selector("text=60 dead letter jobs")
    page.click("#jobexec-ask input[type=submit]")
    page.wait_for_selector("text=60 jobs requeued with 3 retries.")
    assert Job.objects.count() == 60


def test_a_long_list_is_done_by_a_batch(page, live_server, monkeypatch):
    monkeypatch.setattr(batching, "BATCH_ABOVE", 50)
    for _ in range(60):
        data.dead_letter()
    page.goto(f"{live_server.url}{list_url(DeadLetterJob)}")
    page.check("#action-toggle")
    page.click("text=Select all 60 dead letter jobs")
    page.select_option("select[name=action]", "requeue")
    page.click("button[name=index]")
    page.wait_for_selector("#jobexec-large")
    page.click("#jobexec-ask input[type=submit]")
    page.wait_for_selector("text=started a batch for 60 dead letter jobs")
    batch = Batch.objects.get()
    assert page.url == f"{live_server.url}{page_url(batch)}"
    assert DeadLetterJob.objects.count() == 60
    page.click("#jobexec-actions button[value=cancel]")
    page.click("#jobexec-ask input[type=submit]")
    page.wait_for_selector("text=1 batch cancelled.")


def test_suspend_a_customer(page, live_server):
    data.make(Job, tenant_id="acme")
    page.goto(f"{live_server.url}{list_url(Suspension)}")
    page.click("text=Suspend…")
    page.fill("input[name=value]", "acme")
    page.click("#jobexec-ask input[type=submit]")
    page.wait_for_selector("text=1 jobs")
    page.click("#jobexec-ask input[type=submit]")
    page.wait_for_selector("text=Tenant acme suspended; 1 job moved")
    assert Suspension.objects.get().value == "acme"


def test_a_text_filter_keeps_the_others(page, live_server):
    for tenant in ("acme", "beta"):
        data.make(Job, tenant_id=tenant)
    page.goto(f"{live_server.url}{list_url(Job)}?lock=free")
    page.fill("input[name=tenant]", "acme")
    page.click(".jobexec-text-filter input[type=submit]")
    page.wait_for_selector("text=1 job")
    assert "lock=free" in page.url
    assert "tenant=acme" in page.url
