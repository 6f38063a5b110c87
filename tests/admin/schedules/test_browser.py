"""The form of a schedule in a real browser: its times are shown before it is saved."""

from jobexec.models import Schedule
from tests.support.web import browser

from .. import data
from ..conftest import page_url
from .test_schedules import ADD, HANDLER

pytestmark = browser.marks

TIMES = "#jobexec-times"
ITEMS = f"{TIMES} ol > li"


def test_the_times_are_shown_while_it_is_added(page):
    page.goto(ADD)
    page.fill("#id_name", "hotels")
    page.fill("#id_handler_type", HANDLER)
    page.fill("#id_args", "[4711]")
    page.fill("#id_timezone", "Europe/Berlin")
    page.fill("#id_expression", "0 3 * *")
    page.wait_for_selector(f"{TIMES} >> text=expected five fields")
    page.fill("#id_expression", "0 3 * * MON-FRI")
    page.wait_for_selector(f"{TIMES} >> text=Monday to Friday at 03:00")
    assert page.locator(ITEMS).count() == 5
    page.fill("#id_timezone", "Asia/Tokyo")
    page.wait_for_selector(f"{ITEMS} >> text=JST")
    assert not Schedule.objects.exists()
    page.click("input[name=_save]")
    page.wait_for_selector("text=was added successfully")
    assert Schedule.objects.get().expression == "0 3 * * MON-FRI"


def test_what_is_entered_replaces_what_is_saved_until_it_is_taken_back(page):
    page.goto(page_url(data.schedule()))
    saved = page.inner_text(TIMES)
    page.fill("#id_expression", "15 * * * *")
    page.wait_for_selector(f"{TIMES} >> text=every hour at minute 15")
    page.fill("#id_expression", "0 3 * * MON-FRI")
    page.wait_for_selector(f"{TIMES} >> text=Monday to Friday")
    assert page.inner_text(TIMES) == saved


def test_no_times_rather_than_those_of_something_else(page):
    page.goto(page_url(data.schedule()))
    page.route("**/schedule/times/*", lambda route: route.abort())
    page.fill("#id_expression", "15 * * * *")
    page.wait_for_function("document.getElementById('jobexec-times').textContent === ''")
    page.complaints.clear()  # the browser reports the request that has failed
