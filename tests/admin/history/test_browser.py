"""Open incidents by group in a real browser: from what is wrong to the jobs, at any width."""

import pytest

from tests.support.web import browser

from .. import data
from ..dashboard.test_dashboard import PAGE, group, incident
from .test_incident_groups import URL

pytestmark = browser.marks


def some():
    group()
    for number in range(60):
        text = f"GatewayTimeout {number}: no answer"
        incident(fingerprint="f" * 32, handler_type="shop.jobs.charge_card", message=text)
    incident(handler_type="shop." + "a_long_name" * 6, message="a_long_word" * 12)


def test_from_what_is_wrong_to_each_incident_of_a_group(page):
    data.node()
    some()
    page.goto(PAGE)
    page.click("text=61 incidents are open.")
    assert page.locator("#jobexec-incident-groups tbody tr").count() == 2
    page.click("#jobexec-incident-groups td a")
    page.wait_for_selector("text=Latest failure")
    page.go_back()
    page.click("#jobexec-incident-groups tbody th a >> nth=0")
    page.wait_for_selector(".paginator:has-text('60 incidents')")
    page.click("text=Open ones by group")
    page.wait_for_selector("#jobexec-incident-groups")


@pytest.mark.parametrize("width", [1440, 1024, 400, 320])
def test_nothing_sticks_out(page, width):
    some()
    page.set_viewport_size({"width": width, "height": 900})
    page.goto(URL)
    assert page.evaluate("document.documentElement.scrollWidth") == width
