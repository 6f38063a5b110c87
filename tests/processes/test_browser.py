"""The pages of processes in a real browser, under a strict policy: nothing is blocked, and all can be read."""

import os

import pytest

from jobexec.processes.models import ProcessDefinition, ProcessInstance, UserTask
from jobexec.processes.operations import statistics
from jobexec.processes.operations.deploy import deploy
from jobexec.processes.operations.start import start
from jobexec.testing import ManualExecutor
from tests.support.threads import finish
from tests.support.threads import start as beside
from tests.support.web import browser
from tests.support.web.accessibility import grave_findings, poor_contrasts
from tests.support.web.browser import chromium, open_page, page, policy  # noqa: F401 (fixtures)

from .pages import DRAWN, shop, url

pytest.importorskip("lxml")
pytestmark = browser.marks

OF_DJANGO = {("label-title-only", "#searchbar")}
DIAGRAM = "#jobexec-diagram[data-state=drawn]"


def run_jobs():
    """In a thread of its own: this one runs Playwright's event loop, where each job would get its own connection."""
    finish(beside("default", ManualExecutor("default", reraise=False).run_until_empty))


@pytest.fixture
def order(transactional_db):
    statistics.forget()
    deploy(("order.bpmn", DRAWN), using="default")
    found = start("order", business_key="4711", variables={"amount": 5, "password": "geheim"}, using="default")
    run_jobs()
    return found


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_page(page, scheme, order):  # noqa: F811
    page.emulate_media(color_scheme=scheme)
    flow = shop().start(using="default")
    run_jobs()
    task = UserTask.objects.get(element_id="approve")
    addresses = [url(model) for model in (ProcessDefinition, ProcessInstance, UserTask)]
    addresses += [url(ProcessInstance, order), url(ProcessInstance, flow), url(UserTask, task)]
    definitions = ProcessDefinition.objects.order_by("key")
    addresses += [url(ProcessDefinition, row) for row in definitions]
    addresses += [f"{url(ProcessDefinition, definitions.get(key='order'))}?show=runs"]
    for number, address in enumerate(addresses):
        page.goto(address)
        if page.locator("#jobexec-diagram").count():
            page.wait_for_selector(DIAGRAM)
        assert [finding for finding in grave_findings(page) if finding not in OF_DJANGO] == [], address
        assert poor_contrasts(page) == [], address
        if folder := os.environ.get("JOBEXEC_TEST_PICTURES"):
            page.screenshot(path=f"{folder}/{scheme}-{number}.png", full_page=True)
