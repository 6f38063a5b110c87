"""Operators at work in a real browser while a real executor runs: from "something is wrong" to "all is well"."""

from collections.abc import Callable
from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.contrib.auth.models import Permission

from jobexec import clock, job
from jobexec.admin.common import batching
from jobexec.admin.jobs.dead_letter_job import DeadLetterJobAdmin
from jobexec.executor.job_executor import JobExecutor
from jobexec.handlers import registry
from jobexec.models import Batch, DeadLetterJob, Incident, Job, JobLog, LogState, SuspendedJob, Suspension
from tests.support.audit import audit_log
from tests.support.factories import make_job
from tests.support.waiting import threads, until
from tests.support.web import browser

from . import data
from .common.test_permissions import everything
from .conftest import TABLES, list_url, page_url
from .dashboard.test_dashboard import PAGE as DASHBOARD

pytestmark = [*browser.marks, pytest.mark.slow]

MANY = 30
QUICK = {
    "ENGINES": {"default": {"WAIT_TIME": 0.05, "MAX_WAIT": 0.2}},
    "NODE_NAME": "worker-1",
    "THREADS": 2,
    "GRACE_PERIOD": 10,
    "HISTORY_LEVEL": "full",
    "DEFAULT_RETRY_PLAN": "R1/PT0S",
    "INVOCATIONS_PER_BATCH_JOB": 10,
    "BATCH_POLL_TIME": 0.1,
    "METER_INTERVAL": 1,
}


class Gateway:
    """What the handler talks to, until and after it is repaired."""

    def __init__(self) -> None:
        self.works = False
        self.charged: list[int] = []

    def charge(self, order: int) -> None:
        if not self.works:
            raise ConnectionError(f"no answer from pay.example about order {order}")
        self.charged.append(order)


@pytest.fixture
def gateway(settings, monkeypatch):
    """An executor runs the shop's jobs; a list of more than 10 rows is done by a batch."""
    settings.JOBEXEC = QUICK
    monkeypatch.setattr(batching, "BATCH_ABOVE", 10)
    gateway = Gateway()
    with registry.isolated():
        job(name="shop.charge")(gateway.charge)
        executor = JobExecutor()
        executor.start()
        yield gateway
        executor.stop(5)
    until(lambda: not threads())
    clock.forget()


def order(number: int, **columns: Any) -> None:
    """Enqueue the job of an order."""
    columns = {"process_instance_id": f"order-{number}", "retries": 1, **columns}
    arguments = {"args": [number], "kwargs": {}}
    make_job("default", handler_type="shop.charge", handler_configuration=arguments, **columns)


def fail() -> None:
    """Orders whose jobs become dead letters."""
    for number in range(MANY):
        order(number)
    until(lambda: Incident.objects.filter(state="open").count() == MANY)


def reloaded(page: Any, condition: Callable[[], Any]) -> None:
    """Load the page again until it says so."""

    def fulfilled() -> Any:
        page.reload()
        return condition()

    until(fulfilled, turn=0.3)


@pytest.fixture(
    params=[pytest.param(True, id="scripts"), pytest.param(False, id="no-scripts", marks=pytest.mark.nightly)]
)
def scripts(request, monkeypatch):
    """Whether the browser runs scripts. Without, "all rows of the list" cannot be chosen, but all of a page can."""
    monkeypatch.setattr(DeadLetterJobAdmin, "list_per_page", 20 if request.param else 50)
    return request.param


def test_a_failing_deployment_is_repaired(open_page, gateway, scripts):
    page = open_page(get_user_model().objects.create_superuser("admin"), java_script_enabled=scripts)
    fail()
    page.goto(DASHBOARD)
    assert f"{MANY} incidents are open." in page.inner_text(".jobexec-wrong")
    assert dead_letters(page) == str(MANY)
    read_the_group(page)
    read_a_dead_letter(page)

    page.goto(DASHBOARD)
    page.click(f"section[aria-labelledby=jobexec-failures] td a:text-is('{MANY}')")
    assert "fingerprint=" in page.url
    gateway.works = True
    (requeue_the_list if scripts else requeue_the_page)(page)

    until(lambda: not Job.objects.exists())
    page.goto(DASHBOARD)
    assert page.inner_text(".jobexec-well") == "No problems"
    assert dead_letters(page) == "0"
    assert sorted(gateway.charged) == list(range(MANY))
    assert JobLog.objects.filter(handler_type="shop.charge", state=LogState.SUCCESSFUL).count() == MANY


def dead_letters(page: Any) -> str:
    """Their number in the tile; that of open incidents is the same, and only stands with what is wrong."""
    assert page.locator(".jobexec-tile:has-text('Open incidents')").count() == 0
    text: str = page.locator(".jobexec-tile:has-text('Dead letters') .jobexec-tile-count").inner_text()
    return text


def read_the_group(page: Any) -> None:
    reloaded(page, lambda: page.locator(f"section[aria-labelledby=jobexec-failures] td a:text-is('{MANY}')").count())
    page.click("section[aria-labelledby=jobexec-failures] tbody th a")
    assert "no answer from pay.example" in page.inner_text("#content")
    assert str(MANY) in page.inner_text(".field-dead_letter_count")


def read_a_dead_letter(page: Any) -> None:
    page.click(".field-dead_letter_count a")
    page.click("#result_list tbody tr:first-child th a")
    assert "Why is this not running?" in page.inner_text("#jobexec-why")
    assert "no answer from pay.example" in page.inner_text("#jobexec-why")
    assert "no answer from pay.example" in page.inner_text("#jobexec-timeline")
    page.click("#jobexec-timeline summary")
    assert "in charge" in page.inner_text("#jobexec-timeline pre")


def requeue_the_list(page: Any) -> None:
    """All rows that the filter shows, on several pages: a batch does it."""
    page.check("#action-toggle")
    page.click(f"text=Select all {MANY} dead letter jobs")
    confirm(page, "requeue")
    batch = Batch.objects.get()
    assert page.url.endswith(page_url(batch))
    assert f"started a batch for {MANY} dead letter jobs" in page.inner_text(".messagelist")
    reloaded(page, lambda: page.inner_text(".field-state_badge .jobexec-badge") == "completed")
    assert page.inner_text(".fieldBox.field-progress .readonly").strip() == f"{MANY} / {MANY}"


def requeue_the_page(page: Any) -> None:
    for box in page.locator("input.action-select").all():
        box.check()
    confirm(page, "requeue")
    assert f"{MANY} jobs requeued with 3 retries." in page.inner_text(".messagelist")


def confirm(page: Any, action: str) -> None:
    page.select_option("select[name=action]", action)
    page.click("button[name=index]")
    page.click("#jobexec-ask input[type=submit]")


def test_a_customer_is_suspended_and_activated(open_page, gateway, scripts):
    page = open_page(get_user_model().objects.create_superuser("admin"), java_script_enabled=scripts)
    gateway.works = True
    page.goto(list_url(Suspension))
    page.click("text=Suspend…")
    page.fill("input[name=value]", "acme")
    page.click("#jobexec-ask input[type=submit]")
    page.click("#jobexec-ask input[type=submit]")
    assert "Tenant acme suspended" in page.inner_text(".messagelist")
    order(1, tenant_id="acme")
    order(2, tenant_id="beta")
    until(lambda: gateway.charged == [2])
    page.goto(page_url(SuspendedJob.objects.get()))
    assert "acme" in page.inner_text("#jobexec-why")

    page.goto(list_url(Suspension))
    page.check("input.action-select")
    confirm(page, "lift")
    assert "lifted" in page.inner_text(".messagelist")
    until(lambda: gateway.charged == [2, 1])
    assert [(entry.operator, entry.verb) for entry in audit_log()] == [("admin", "suspend"), ("admin", "lift")]


@pytest.mark.nightly
def test_who_may_only_look_sees_all_and_changes_nothing(open_page):
    looker = get_user_model().objects.create_user("looker", is_staff=True)
    names = [f"view_{table._meta.model_name}" for table in TABLES]
    looker.user_permissions.set(Permission.objects.filter(content_type__app_label="jobexec", codename__in=names))
    page = open_page(looker)
    rows = data.some_of_everything()
    before, audited = everything(), [row.pk for row in audit_log()]
    page.goto(DASHBOARD)
    assert page.locator(".jobexec-tile").count() >= 6
    for table, row in rows.items():
        page.goto(page_url(row))
        assert page.locator("#jobexec-actions").count() == 0
        page.goto(list_url(table))
        assert page.locator("#result_list tbody tr").count() >= 1
        changing = "select[name=action], input.action-select, .object-tools a:not([href$='/incidents/'])"
        assert page.locator(changing).count() == 0
    forge(page, rows[DeadLetterJob])
    assert everything() == before
    assert [row.pk for row in audit_log()] == audited


def forge(page: Any, dead: DeadLetterJob) -> None:
    """Send with a good token what the pages do not offer."""
    token = next(each["value"] for each in page.context.cookies() if each["name"] == "csrftoken")
    asked = {"csrfmiddlewaretoken": token, "_selected_action": str(dead.pk), "_apply": "1", "retries": "3"}
    for action in ("requeue", "delete_selected"):
        form = {**asked, "action": action, "select_across": "0", "index": "0"}
        answer = page.request.post(list_url(DeadLetterJob), form=form, max_redirects=0)
        assert answer.status in (200, 302, 403)
    for url in (f"{page_url(dead)[:-7]}delete/", "/admin/jobexec/suspension/add/"):
        form = {**asked, "post": "yes", "scope": "tenant_id", "value": "acme", "_confirmed": "1"}
        assert page.request.post(url, form=form, max_redirects=0).status in (302, 403)
