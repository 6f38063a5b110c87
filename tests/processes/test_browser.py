"""The pages of processes in a real browser, under a strict policy: nothing is blocked, and all can be read."""

import os

import pytest

from jobexec.processes.models import ProcessDefinition, ProcessInstance, UserTask
from jobexec.processes.operations.deploy import deploy
from jobexec.processes.operations.start import start
from jobexec.testing import ManualExecutor
from tests.support.threads import finish
from tests.support.threads import start as beside
from tests.support.web import browser
from tests.support.web.accessibility import grave_findings, poor_contrasts
from tests.support.web.browser import chromium, open_page, page, policy  # noqa: F401 (fixtures)

from .pages import FILE, shop, url

pytest.importorskip("lxml")
pytestmark = browser.marks


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_page(page, scheme):  # noqa: F811
    page.emulate_media(color_scheme=scheme)
    deploy(("approval.bpmn", FILE), using="default")
    waiting = start("approval", business_key="4711", variables={"amount": 5}, using="default")
    flow = shop().start(using="default")
    # In a thread of its own: this one runs Playwright's event loop, where each job would get a connection of its own.
    finish(beside("default", ManualExecutor("default", reraise=False).run_until_empty))
    addresses = [url(model) for model in (ProcessDefinition, ProcessInstance, UserTask)]
    addresses += [url(ProcessInstance, waiting), url(ProcessInstance, flow), url(UserTask, UserTask.objects.get())]
    addresses += [url(ProcessDefinition, row) for row in ProcessDefinition.objects.all()]
    for number, address in enumerate(addresses):
        page.goto(address)
        assert [finding for finding in grave_findings(page) if finding not in OF_DJANGO] == [], address
        assert poor_contrasts(page) == [], address
        if folder := os.environ.get("JOBEXEC_TEST_PICTURES"):
            page.screenshot(path=f"{folder}/{scheme}-{number}.png", full_page=True)


OF_DJANGO = {("label-title-only", "#searchbar")}
