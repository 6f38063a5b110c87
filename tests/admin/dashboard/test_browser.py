"""The dashboard in a real browser: it refreshes itself, can be paused, and is readable everywhere."""

from datetime import timedelta

import pytest

from jobexec import clock
from jobexec.models import DeadLetterJob, Job, TimerJob
from jobexec.operations.reports import counts, subjects
from tests.support.web import browser

from .. import data
from .test_dashboard import FRAGMENT, PAGE, group, incident, traffic

pytestmark = browser.marks

DEAD_LETTERS = ".jobexec-tile:has-text('Dead letters')"


@pytest.fixture
def tab(page, live_server):
    """The dashboard in a page whose timers stand still until the test moves them; ``asked`` are its own requests."""
    context = page.context.browser.new_context(storage_state=page.context.storage_state())
    tab, errors = context.new_page(), []
    tab.clock.install()
    tab.asked = []
    tab.on("request", lambda request: tab.asked.append(request.url) if FRAGMENT in request.url else None)
    tab.on("pageerror", lambda error: errors.append(str(error)))
    tab.goto(f"{live_server.url}{PAGE}")
    yield tab
    context.close()
    assert errors == []


def refreshed(tab, seconds=10):
    """Let this much time pass, in which the dashboard is asked for once."""
    with tab.expect_response(lambda response: FRAGMENT in response.url):
        tab.clock.run_for(seconds * 1000)


def test_it_refreshes_itself_and_keeps_the_focus(tab):
    assert "0" in tab.inner_text(DEAD_LETTERS)
    tab.focus(f"{DEAD_LETTERS} a")
    for count in (1, 2):
        data.dead_letter()
        refreshed(tab)
        tab.wait_for_selector(f"{DEAD_LETTERS} >> text='{count}'")
        assert tab.evaluate("document.activeElement.innerText").split() == ["Dead", "letters", str(count)]
    assert tab.inner_text("#jobexec-status") == ""


def test_the_middle_of_an_axis_is_in_the_middle(tab):
    traffic(succeeded=9)
    tab.reload()
    between = """document.querySelector(".jobexec-flow .jobexec-axis")"""
    middle = """axis => { const { left, width } = axis.getBoundingClientRect();
        const label = axis.children[1].getBoundingClientRect();
        return (label.left + label.width / 2 - left) / width }"""
    assert tab.evaluate(f"({middle})({between})") == pytest.approx(0.5, abs=0.05)


def test_no_table_is_cut_on_a_phone(tab):
    data.node(name="a-node-with-a-long-name")
    data.batch()
    group()
    tab.set_viewport_size({"width": 400, "height": 900})
    tab.reload()
    assert tab.locator(".jobexec-scroll").count() == 3
    cut = "[...document.querySelectorAll('.jobexec-scroll')].filter(each => each.scrollWidth > each.clientWidth).length"
    assert tab.evaluate(cut) == 0
    assert tab.evaluate("getComputedStyle(document.querySelector('[data-label]'), '::before').content") == '"State "'


def test_it_is_paused_by_the_keyboard_and_stays_so(tab):
    assert tab.get_attribute("#jobexec-pause", "aria-pressed") == "false"
    tab.focus("#jobexec-pause")
    tab.keyboard.press("Space")
    assert tab.get_attribute("#jobexec-pause", "aria-pressed") == "true"
    tab.clock.run_for(120_000)
    tab.reload()
    tab.clock.run_for(120_000)
    assert tab.asked == []
    data.dead_letter()
    tab.focus("#jobexec-pause")
    tab.keyboard.press("Enter")
    tab.wait_for_selector(f"{DEAD_LETTERS} >> text='1'")
    assert tab.get_attribute("#jobexec-pause", "aria-pressed") == "false"
    refreshed(tab)
    assert len(tab.asked) == 2


def test_nothing_is_asked_while_nobody_looks(tab):
    turn = """hidden => {
        Object.defineProperty(document, "hidden", { value: hidden, configurable: true });
        document.dispatchEvent(new Event("visibilitychange"));
    }"""
    tab.evaluate(turn, True)
    tab.clock.run_for(120_000)
    assert tab.asked == []
    data.dead_letter()
    tab.evaluate(turn, False)
    tab.wait_for_selector(f"{DEAD_LETTERS} >> text='1'")


def test_errors_are_told_and_survived(tab):
    tab.route(f"**{FRAGMENT}*", lambda route: route.fulfill(status=503))
    refreshed(tab)
    tab.wait_for_selector("#jobexec-status >> text=No response. Retrying.")
    assert "0" in tab.inner_text(DEAD_LETTERS)
    tab.clock.run_for(10_000)
    assert len(tab.asked) == 1  # it waits longer each time
    tab.unroute(f"**{FRAGMENT}*")
    data.dead_letter()
    refreshed(tab)
    tab.wait_for_selector("#jobexec-status >> text=The server is responding again.")
    tab.wait_for_selector(f"{DEAD_LETTERS} >> text='1'")


def test_whoever_is_logged_out_is_told(tab):
    tab.context.clear_cookies()
    tab.clock.run_for(10_000)
    tab.wait_for_selector("#jobexec-status >> text=You are logged out")
    assert tab.is_hidden("#jobexec-pause")
    assert tab.is_visible(DEAD_LETTERS)
    asked = len(tab.asked)
    tab.clock.run_for(120_000)
    assert len(tab.asked) == asked


def test_what_is_being_copied_is_left_alone(tab):
    tab.evaluate("getSelection().selectAllChildren(document.getElementById('jobexec-tiles'))")
    data.dead_letter()
    refreshed(tab)
    tab.evaluate("fetch(location).then(answer => answer.text())")  # by then the answer before it was dealt with
    tab.evaluate("getSelection().removeAllRanges()")
    assert "0" in tab.inner_text(DEAD_LETTERS)
    refreshed(tab)
    tab.wait_for_selector(f"{DEAD_LETTERS} >> text='1'")


def everything():
    data.some_of_everything()
    group()
    incident()
    traffic(succeeded=90, failed=4, wait={"16": 60, "4096": 34}, run={"128": 94})
    for number in range(8):
        data.make(TimerJob, due_date=clock.now() + timedelta(minutes=number), handler_type="shop.a_long_name" * 4)
    data.make(Job, rank=0)
    DeadLetterJob.objects.update(fingerprint="f" * 32)


@pytest.mark.parametrize("width", [1440, 800, 400, 320])
def test_nothing_sticks_out(page, live_server, width):
    everything()
    page.set_viewport_size({"width": width, "height": 900})
    page.goto(f"{live_server.url}{PAGE}")
    assert page.evaluate("document.documentElement.scrollWidth") == width
    assert page.evaluate(OUTSIDE) == []
    charts = page.evaluate("[...document.querySelectorAll('svg.jobexec-chart')].map(e => e.clientHeight)")
    assert charts == [120] * 3


@pytest.mark.parametrize("width", [1440, 400, 320])
@pytest.mark.parametrize("path", [PAGE, "/admin/jobexec/jobdefinition/of/handler/?name=shop.jobs.charge_card"])
def test_a_large_number_fits_into_its_tile(page, live_server, monkeypatch, path, width):
    everything()
    for module in (counts, subjects):
        monkeypatch.setattr(module, "COUNT_LIMIT", 0)
    monkeypatch.setattr(counts, "estimated_rows", lambda using, table: 9_876_543)
    monkeypatch.setattr(subjects, "estimated", lambda rows: 9_876_543)
    page.set_viewport_size({"width": width, "height": 900})
    page.goto(f"{live_server.url}{path}")
    assert "≈9,880,000" in page.locator(".jobexec-tile-count").all_inner_texts()
    assert page.evaluate(CUT) == []
    assert page.evaluate("document.documentElement.scrollWidth") == width


#: The numbers of tiles that are wider than these, or on two lines.
CUT = """() => [...document.querySelectorAll(".jobexec-tile-count")].filter(each =>
    each.scrollWidth > each.clientWidth || each.clientHeight > 1.5 * parseFloat(getComputedStyle(each).lineHeight)
).map(each => each.innerText)"""

#: What is wider than its panel, other than in a box that scrolls.
OUTSIDE = """() => [...document.querySelectorAll(".jobexec-panel *, .jobexec-tile *")].filter(element => {
    const panel = element.closest(".jobexec-panel, .jobexec-tile").getBoundingClientRect();
    const place = element.getBoundingClientRect();
    return place.width && !element.closest(".jobexec-scroll") && place.right > panel.right + 1;
}).map(element => element.outerHTML.slice(0, 120))"""


def test_headings_are_in_order(page, live_server):
    everything()
    page.goto(f"{live_server.url}{PAGE}")
    levels = page.evaluate("[...document.querySelectorAll('main h1, main h2, main h3')].map(e => Number(e.tagName[1]))")
    assert levels[0] == 1
    assert set(levels[1:]) == {2}
