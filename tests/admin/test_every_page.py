"""Every page of the admin in a real browser, under a strict policy, light and dark: all can be read.

axe finds what keeps people with assistive technology from a page. What it finds in Django's own markup is listed here:
a list of Django's own has the same.
"""

import os
import re
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import django
import pytest
from django.contrib.auth import get_user_model
from django.contrib.auth.admin import UserAdmin

from jobexec import clock, models
from jobexec.models import BatchFailure, DeadLetterJob, ExecutorNode, Incident, Job, Resource, TimerJob
from jobexec.operations.history.incidents import open_breaker_incident
from jobexec.operations.reports import subjects
from jobexec.operations.reports.meters import flush_meters
from tests.support.web import browser
from tests.support.web.accessibility import PHONE, grave_findings, hidden_columns, poor_contrasts, too_wide

from . import data
from .conftest import list_url, page_url
from .dashboard.test_dashboard import PAGE as DASHBOARD
from .dashboard.test_dashboard import traffic

pytestmark = browser.marks

OF_DJANGO = {
    ("label-title-only", "#searchbar"),  # a search with a text of help: its label is a picture
}
#: The columns of each list that an operator looks for first: what it is, its state or failure, and when.
FIRST: dict[type[Any], str] = {
    models.AuditLog: "time who verb which",
    Job: "state_and_owner handler age",
    TimerJob: "state_badge handler due",
    models.BlockedJob: "state_badge handler waits",
    models.SuspendedJob: "handler suspended due",
    DeadLetterJob: "handler died attempts",
    models.ExternalWorkerJob: "state_and_worker handler available",
    models.JobDefinition: "id standing ranking",
    models.Deployment: "id version deploy_time_ago takers",
    models.ExclusiveLock: "instance owner held_for",
    models.Suspension: "scope what standing create_time_ago",
    ExecutorNode: "label state_badge signs_of_life busy",
    models.ExternalWorker: "name kind state seen",
    models.GatewayClient: "name standing expires",
    models.JobLog: "time state_badge handler",
    Incident: "state_badge handler since",
    models.FailureGroup: "group_title text standing",
    models.Batch: "operation state_badge progress began",
    models.HistoryJob: "standing_badge handler due",
    models.Schedule: "name standing handler next",
    models.JobKey: "key state handler",
    models.TaskResult: "status_badge handler enqueued",
    Resource: "named used standing",
    models.Message: "name key standing published",
}
WIDE, NARROW = {"width": 1440, "height": 900}, {"width": 640, "height": 900}
SUSPEND = "/admin/jobexec/suspension/add/"
ADD_SCHEDULE = "/admin/jobexec/schedule/add/"
HANDLER = "shop.jobs.charge_card"
ADD_CLIENT = "/admin/jobexec/gatewayclient/add/"
PAGES = (
    f"{DASHBOARD}?by=handler",
    f"/admin/jobexec/jobdefinition/of/handler/?name={HANDLER}",
    "/admin/jobexec/jobdefinition/of/category/?name=default",
    "/admin/jobexec/jobdefinition/of/tenant/?name=acme",
    "/admin/jobexec/jobdefinition/instance/?id=order-4711",
    "/admin/jobexec/executornode/running/",
    "/admin/jobexec/jobdefinition/incidents/",
)


@pytest.fixture
def rows(settings: Any, handle: Any) -> dict[type[Any], Any]:
    """One row of each table, whose page has every section; and what the dashboard shows."""
    handle(lambda order, currency, big: None, name=HANDLER)  # or its jobs could not run again
    rows = data.some_of_everything()
    data.make(Job, tenant_id="acme", rank=0)
    data.make(TimerJob, handler_type="shop.a_long_name" * 4)
    BatchFailure.objects.create(batch_id=rows[data.Batch].pk, job_id=rows[DeadLetterJob].pk, reason="it is running")
    flush_meters("default", "n1", subjects.counts_of_subjects({(HANDLER, "default", "acme"): [1] * 30}), clock.now())
    since = (clock.now() - timedelta(minutes=2)).isoformat()
    reported = {"job": str(rows[Job].pk), "handler": HANDLER, "since": since, "thread": "worker_1"}
    ExecutorNode.objects.update(running=[reported])
    traffic(succeeded=90, failed=4, wait={"16": 60, "4096": 34}, run={"128": 94})
    known = {"pay.example": {"limit": 2, "breaker": "fast"}, "mail": {"rate": "100/PT1M", "breaker": "fast"}}
    settings.JOBEXEC = {**getattr(settings, "JOBEXEC", {}), "RESOURCES": known}
    data.running(resource="pay.example")
    data.resource(name="mail", hold="open", hold_until=clock.now() + timedelta(hours=1), limit=7)
    open_breaker_incident("default", rows[Resource].pk, rows[Resource].reason)
    return rows


def pages(page: Any, rows: dict[type[Any], Any], asking: frozenset[str]) -> Iterator[str]:
    """Load one page after the other, with the questions of these actions (empty: of all); their names."""
    urls = [DASHBOARD, f"{DASHBOARD}?period=day", *map(list_url, rows)]
    for url in [
        *urls,
        f"{list_url(DeadLetterJob)}?fingerprint={data.FINGERPRINT}",
        f"{list_url(Job)}?q=nothing",
        ADD_SCHEDULE,
        ADD_CLIENT,
        *PAGES,
        SUSPEND,
    ]:
        page.goto(url)
        yield url
    page.fill("input[name=value]", "acme")
    page.click("#jobexec-ask input[type=submit]")
    page.wait_for_selector("text=1 jobs")
    yield f"{SUSPEND} asked again"
    asked: set[str] = set()
    others = [Incident.objects.get(resource__isnull=False), Resource.objects.get(hold="open")]
    for url in map(page_url, [*rows.values(), *others]):
        page.goto(url)
        yield url
        for name in page.evaluate(QUESTIONS):
            if name not in asked and name in (asking or [name]):
                asked.add(name)
                yield from questions(page, url, name)
    assert asked >= DIFFERENT


#: Questions whose forms look different: a number, dates, a long text, nothing but a red button.
DIFFERENT = frozenset({"requeue", "suspend", "annotate", "delete_selected"})

QUESTIONS = """[...document.querySelectorAll("#jobexec-actions button")]
.filter(each => each.innerText.endsWith("…")).map(each => each.value)"""


def questions(page: Any, url: str, name: str) -> Iterator[str]:
    """What an action asks."""
    page.goto(url)
    page.click(f"#jobexec-actions button[value={name}]")
    page.wait_for_selector("#jobexec-ask")
    yield f"{name} of {url}"


# Before 6.1 the links in Django's own breadcrumbs are told apart by their colour alone, on every page.
@pytest.mark.skipif(django.VERSION < (6, 1), reason="Django's own pages have serious findings before 6.1")
@pytest.mark.slow
@pytest.mark.timeout(900)  # axe looks at every pixel behind a text
@pytest.mark.nightly
@pytest.mark.parametrize("width", [WIDE, NARROW], ids=["wide", "narrow"])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_nothing_is_blocked_and_all_can_be_read(page, rows, scheme, width):
    wrong: list[Any] = []
    page.emulate_media(color_scheme=scheme)
    page.set_viewport_size(width)
    looks_only = (scheme, width) != ("light", WIDE)
    for name in pages(page, rows, DIFFERENT if looks_only else frozenset()):
        page.evaluate("document.querySelectorAll('details').forEach(each => { each.open = true })")
        found = [*(grave_findings(page, looks_only=looks_only) - OF_DJANGO), *poor_contrasts(page)]
        wrong += [(name, each) for each in [*found, *page.complaints]]
        page.complaints.clear()
    assert wrong == []


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.nightly
@pytest.mark.parametrize("width", [400, 1024, 1440])
def test_no_page_is_wider_than_its_window(open_page, rows, width):
    """With JOBEXEC_TEST_PICTURES=folder, each page is also saved as a picture, light and dark."""
    user = get_user_model().objects.create_superuser("admin")
    page = open_page(user, viewport={"width": width, "height": 900})
    first = {list_url(table): FIRST[table] for table in rows}
    wide = []
    for number, name in enumerate(pages(page, rows, DIFFERENT)):
        wide += [(name, each) for each in [*too_wide(page), *hidden_columns(page, first.get(name, ""))]]
        if name in first:  # with the list of tables at its side
            assert page.locator("#nav-sidebar").is_visible() == (width > PHONE)
        if folder := os.environ.get("JOBEXEC_TEST_PICTURES"):
            for scheme in ("light", "dark"):
                page.emulate_media(color_scheme=scheme)
                title = re.sub("[^a-z_]+", "-", name.removeprefix("/admin/jobexec/"))
                page.screenshot(path=f"{folder}/{width}-{number:03}-{title[:40]}-{scheme}.png", full_page=True)
    assert wide == []


def test_the_findings_that_are_left_out_are_those_of_django(page, monkeypatch):
    monkeypatch.setattr(UserAdmin, "search_help_text", "Names of users.")
    page.goto("/admin/auth/user/")
    assert grave_findings(page) == OF_DJANGO


def test_the_page_of_a_job_by_keyboard(page, rows):
    """Actions come first, in order; then what can be unfolded."""
    page.goto(page_url(rows[DeadLetterJob]))
    actions = page.locator("#jobexec-actions button").evaluate_all("all => all.map(each => each.value)")
    page.focus(f"#jobexec-actions button[value={actions[0]}]")
    met = [reached(page)]
    while "SUMMARY" not in met[-1]:
        page.keyboard.press("Tab")
        met.append(reached(page))
    assert met[: len(actions)] == actions
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.parentElement.open") is True
    page.keyboard.press("Tab")
    assert reached(page) == "PRE"  # a stack trace can be scrolled
    page.focus("#jobexec-actions button[value=requeue]")
    page.keyboard.press("Enter")
    page.wait_for_selector("#jobexec-ask")


def test_the_dashboard_by_keyboard(page, rows):
    """From the choices to pausing, to what is wrong, to the numbers."""
    page.goto(DASHBOARD)
    page.focus(".jobexec-choice a")
    met = []
    while "jobexec-tile" not in met[-1:]:
        met.append(page.evaluate("document.activeElement.closest('[class^=jobexec-]').className.split(' ')[0]"))
        page.keyboard.press("Tab")
    assert list(dict.fromkeys(met)) == [
        "jobexec-choice",
        "jobexec-refresh",
        "jobexec-wrong",
        "jobexec-causes",
        "jobexec-tile",
    ]


def reached(page: Any) -> str:
    """What has the focus: the value of a button, or else the name of the element."""
    name: str = page.evaluate("document.activeElement.value || document.activeElement.tagName")
    return name
