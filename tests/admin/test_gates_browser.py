"""Resources, messages, waits and batches of jobs in a real browser: light and dark, and on a phone, too."""

from datetime import timedelta

import django
import pytest

from jobexec import clock
from jobexec.models import BlockedJob, Message, Resource
from jobexec.models.batch import JOBS
from jobexec.operations.history.incidents import open_breaker_incident
from tests.support.web import browser
from tests.support.web.accessibility import grave_findings, poor_contrasts

from . import data
from .conftest import list_url, page_url
from .test_every_page import OF_DJANGO

pytestmark = browser.marks

PHONE, WIDE = {"width": 400, "height": 850}, {"width": 1440, "height": 900}


@pytest.fixture
def urls(settings):
    """The pages, each with all that it can show."""
    known = {"RESOURCES": {"pay.example": {"limit": 2, "rate": "100/PT1M", "breaker": "fast"}}}
    settings.JOBEXEC = {**getattr(settings, "JOBEXEC", {}), **known}
    until = clock.now() + timedelta(hours=1)
    waiting = data.make(BlockedJob, waits_for="approved", waits_for_key="order-4711", waits_until=until)
    data.make(BlockedJob, resource="pay.example", rank=0)
    open_breaker_incident("default", "pay.example", "12 of 20 calls failed, the last one with " + "GatewayTimeout" * 9)
    hold = {"hold": "open", "hold_until": "2099-01-01T08:00:00Z"}
    about = {"verb": "hold_resource", "object_type": "resource", "object_id": "pay.example"}
    data.audit(**about, old_value={"hold": "", "hold_until": None}, new_value=hold)
    call = {"handler": "shop.jobs.publish", "configuration": {"args": [2026], "kwargs": {}}, "columns": {}}
    counts = {"total": 100, "changed": 60, "failed": 5, "skipped": 3}
    batch = data.batch(type=JOBS, name="import of March", arguments={"on_success": call}, selection={}, **counts)
    return [
        *(list_url(table) for table in (Resource, Message, BlockedJob)),
        *(page_url(row) for row in (data.resource(name="pay.example"), data.message(), waiting, batch)),
        "/admin/jobexec/message/add/",
    ]


@pytest.mark.skipif(django.VERSION < (6, 1), reason="Django's own pages have serious findings before 6.1")
@pytest.mark.slow
@pytest.mark.nightly
@pytest.mark.timeout(900)
@pytest.mark.parametrize("size", [PHONE, WIDE], ids=["phone", "wide"])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_all_can_be_read(page, urls, scheme, size):
    page.emulate_media(color_scheme=scheme)
    page.set_viewport_size(size)
    wrong = []
    for url in urls:
        page.goto(url)
        found = [*(grave_findings(page) - OF_DJANGO), *poor_contrasts(page), *page.complaints]
        wrong += [(url, each) for each in found]
        page.complaints.clear()
    assert wrong == []


def test_the_timeline_of_a_breaker_leads_to_its_incidents(page, urls):
    page.set_viewport_size(PHONE)
    page.goto(urls[3])
    timeline = page.locator("#jobexec-timeline")
    assert timeline.locator("li").count() == 2
    assert page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]
    timeline.locator("li a").first.click()
    assert "12 of 20 calls failed" in page.inner_text(".field-message_text")


def test_the_progress_of_a_batch_and_what_it_waits_for(page, urls):
    page.set_viewport_size(PHONE)
    page.goto(urls[-2])
    bar = page.locator(".jobexec-load meter").first
    assert bar.is_visible()
    assert bar.bounding_box()["width"] <= PHONE["width"]
    page.goto(urls[5])
    assert page.locator("text=order-4711").first.is_visible()
