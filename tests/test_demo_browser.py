"""The demo's page of processes in a real browser: nothing is blocked, and all can be read and reached."""

import pytest
from django.core.management import call_command

from demo_project import settings as demo_settings
from jobexec.testing import ManualExecutor
from tests.support.suite.tiers import some
from tests.support.threads import finish
from tests.support.threads import start as beside
from tests.support.web import browser
from tests.support.web.accessibility import grave_findings
from tests.support.web.browser import chromium, open_page, policy  # noqa: F401 (fixtures)

pytest.importorskip("lxml")
pytestmark = [*browser.marks, pytest.mark.urls("demo_project.urls")]


@pytest.fixture(autouse=True)
def as_in_the_demo(settings, tmp_path):
    settings.JOBEXEC = demo_settings.JOBEXEC
    settings.MEDIA_ROOT = tmp_path
    settings.TRAVEL_SERVICE_TAKES = 0


@pytest.mark.parametrize(
    ("width", "scheme"), some([(400, "dark"), (1440, "light"), (400, "light"), (1440, "dark")], 4, later="nightly")
)
def test_the_page_in_a_browser(open_page, scheme, width):  # noqa: F811
    call_command("load_processes", verbosity=0)
    page = open_page(None, color_scheme=scheme, viewport={"width": width, "height": 900})
    page.goto("/processes/")
    page.get_by_role("button", name="Side by side").click()
    page.get_by_role("button", name="Approval, wrong account").click()
    page.get_by_role("button", name="Approve").first.click()
    finish(
        beside("default", ManualExecutor(reraise=False).run_until_empty)
    )  # in a thread of its own: this one runs Playwright's event loop
    page.get_by_text("There is no account unknown").wait_for()
    page.wait_for_function("document.querySelectorAll('.lanes rect').length === 9")  # the page looks again by itself
    assert grave_findings(page) == set()
    assert page.evaluate("document.documentElement.scrollWidth") == width
