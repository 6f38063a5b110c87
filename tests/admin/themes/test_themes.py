"""The admin with themes that replace Django's templates: all buttons are there and work."""

import importlib.util
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from jobexec.processes.models import ProcessDefinition, ProcessInstance, UserTask
from tests.support.suite.databases import ROOT
from tests.support.web import browser
from tests.support.web.accessibility import grave_findings, too_wide
from tests.support.web.browser import chromium  # noqa: F401 (fixture)

from ..common.test_permissions import ACTIONS, RETRIES
from ..test_every_button import PHONE, answer, press
from ..test_every_page import ADD_CLIENT, ADD_SCHEDULE, SUSPEND
from .site import APPS

pytestmark = [
    pytest.mark.browser,
    pytest.mark.nightly,
    pytest.mark.timeout(900),
    pytest.mark.skipif(browser.CHROMIUM is None, reason="no Chromium found on PATH"),
]

#: What is ours in a page; the rest of it is the theme's.
OURS = "body [class*=jobexec-], body [id^=jobexec]"
#: Themes whose own colours of links and quiet text, which our text takes, have too little contrast.
PALE = {("grappelli", "light")}
#: Where a theme says that an action has succeeded.
SUCCESS = ".messagelist .success, .alert-success, .grp-messagelist .grp-success, li > .bg-green-100"
PROCESSES: list[tuple[type[Any], str, str, dict[str, str]]] = [
    (ProcessDefinition, "start", "", {"business_key": "4712"}),
    *((table, name, "", {}) for table in (ProcessDefinition, ProcessInstance) for name in ("suspend", "activate")),
    (ProcessInstance, "retry", "", RETRIES),
    (ProcessInstance, "set_variable", "", {"name": "amount", "value": "7"}),
    (ProcessInstance, "modify", "", {"cancel": ":paid"}),
    (ProcessInstance, "restart", "", {}),
    (ProcessInstance, "cancel", "", {"reason": "no more"}),
    (UserTask, "claim", "", {}),
    (UserTask, "release", "", {}),
    (
        UserTask,
        "complete",
        "",
        {"field_approved": "on", "field_discount": "7", "field_comment": "ok", "field_way": "air"},
    ),
]
#: Pages with a form, and what is entered before each time that it is submitted.
FORMS: list[tuple[str, list[dict[str, str]]]] = [
    (
        ADD_SCHEDULE,
        [{"name": "nightly", "handler_type": "tests.noop", "expression": "0 3 * * *", "timezone": "Europe/Berlin"}],
    ),
    ("/row/jobexec.Schedule/change/", [{}]),
    (ADD_CLIENT, [{"name": "java", "types": "payment"}]),
    (SUSPEND, [{"value": "acme"}, {}]),
    ("/admin/jobexec/job/add/", [{"handler": "tests.noop"}, {"priority": "7"}]),
    ("/admin/jobexec/message/add/", [{"name": "approved", "key": "4711"}]),
]


@pytest.fixture(params=APPS)
def site(request: pytest.FixtureRequest, tmp_path: Any) -> Iterator[dict[str, Any]]:
    """What the process of a theme's project has printed."""
    lacking = [app for app in APPS[request.param] if importlib.util.find_spec(app) is None]
    if lacking:
        pytest.skip(f"{lacking[0]} is not installed: pip install -e '.[themes]'")
    command = [sys.executable, "-m", "tests.admin.themes.site", request.param, str(tmp_path)]
    with (
        (tmp_path / "log").open("w") as log,
        subprocess.Popen(
            command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True
        ) as process,
    ):
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line, (tmp_path / "log").read_text()
        yield {**json.loads(line), "theme": request.param}
        process.communicate()  # closes its input, with which it ends


@pytest.fixture
def page(chromium: Any, site: dict[str, Any]) -> Iterator[Any]:  # noqa: F811
    context = chromium.new_context(base_url=site["address"], viewport={"width": 1440, "height": 900})
    context.add_cookies([{"name": "sessionid", "value": site["session"], "url": site["address"]}])
    # No fonts or pictures from other servers.
    context.route(lambda url: not url.startswith(site["address"]), lambda route: route.abort())
    page, errors = context.new_page(), []
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.on("response", lambda response: errors.append(response.url) if response.status >= 500 else None)
    yield page
    context.close()
    assert errors == []


def picture(page: Any, site: dict[str, Any], name: str) -> None:
    """With JOBEXEC_TEST_PICTURES=folder, save what the page looks like."""
    if folder := os.environ.get("JOBEXEC_TEST_PICTURES"):
        page.screenshot(path=f"{folder}/{site['theme']}-{name}.png", full_page=True)


def test_an_operator_works_with_the_theme(page, site):
    look_around(page, site)
    press_the_buttons_of_a_row(page, site)
    run_actions_of_the_lists(page, site)


def look_around(page, site):
    page.goto(site["dashboard"])
    assert page.locator(".jobexec-tile").count() >= 6
    assert page.locator("#jobexec-pause").is_visible()
    for url in site["pages"]:
        page.goto(url)
        assert page.locator("#jobexec-actions").count() <= 1, url
        assert page.locator("form form").count() == 0, url


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_page_fits_its_window_and_can_be_read(page, site, scheme):
    names = {url: name for name, url in site.items() if name not in ("lists", "pages")}
    wrong = []
    page.emulate_media(color_scheme=scheme)
    for url in dict.fromkeys([site["dashboard"], *site["lists"], *site["pages"]]):
        page.set_viewport_size({"width": 1440, "height": 900})
        page.goto(url)
        if page.locator(OURS).count() and (site["theme"], scheme) not in PALE:
            found = grave_findings(page, looks_only=True, within=OURS)
            wrong += [(url, *each) for each in found if each[0] == "color-contrast"]
        for width in (1440, 1024, 400):
            page.set_viewport_size({"width": width, "height": 900})
            wrong += [(url, width, each) for each in too_wide(page)]
            if url in names:
                picture(page, site, f"{names[url]}-{width}-{scheme}")
        row = page.locator("#result_list tbody tr").first
        if url in site["lists"] and row.evaluate("row => getComputedStyle(row).display") != "block":
            wrong.append((url, "its rows are no cards"))
    assert wrong == []


@pytest.mark.timeout(1800)
def test_every_button(page, site):
    """On a phone: a question can be left and answered, and what it is about happens."""
    page.set_viewport_size(PHONE)
    offered, left, wrong = set(), set(), []
    for table, action, _permission, asks in [*ACTIONS, *PROCESSES]:
        url = f"/row/{table._meta.label}/{action}/"
        page.goto(url)
        buttons = page.locator("#jobexec-actions button").evaluate_all("all => all.map(each => each.value)")
        offered |= {(table, each) for each in buttons}
        press(page, f"#jobexec-actions button[value={action}]")
        if page.locator("#jobexec-ask").count():
            assert page.locator("#jobexec-ask [type=submit]").is_visible(), (table, action)
            assert page.locator("#jobexec-ask a.closelink").is_visible(), (table, action)
            if table not in left:
                left.add(table)
                press(page, "#jobexec-ask a.closelink")
                page.wait_for_selector("#result_list")
                page.goto(url)
                press(page, f"#jobexec-actions button[value={action}]")
            answer(page, asks)
        if not page.locator(SUCCESS).count():
            wrong.append((table.__name__, action, page.locator("body").inner_text()[:400]))
    assert wrong == []
    assert offered - {(table, action) for table, action, *_ in [*ACTIONS, *PROCESSES]} == set()


def test_every_form(page, site):
    page.set_viewport_size(PHONE)
    wrong = []
    for name, answers in FORMS:
        page.goto(name)
        for each in answers:
            for field, value in each.items():
                page.fill(f"[name={field}]", value)
            press(page, "[name=_save]:visible, #jobexec-ask [type=submit]")
        if not page.locator(f"{SUCCESS}, #jobexec-secrets").count():
            wrong.append((name, page.locator("body").inner_text()[:400]))
    assert wrong == []


def press_the_buttons_of_a_row(page, site):
    page.goto(site["dead_letter"])
    assert page.locator("#jobexec-why").is_visible()
    assert page.locator("#jobexec-timeline").is_visible()
    actions = page.locator("#jobexec-actions button").evaluate_all("all => all.map(each => each.value)")
    assert "requeue" in actions
    for action in actions:
        page.goto(site["dead_letter"])
        press(page, f"#jobexec-actions button[value={action}]")
        if page.locator("#jobexec-ask").count():
            assert page.locator("#jobexec-ask [type=submit]").is_visible(), action
            if action in ("requeue", "delete_selected"):
                picture(page, site, f"ask-{action}")
            press(page, "#jobexec-ask a.closelink")
            assert page.url.endswith(site["dead_letters"])
    page.goto(site["dead_letter"])
    press(page, "#jobexec-actions button[value=requeue]")
    page.fill("#jobexec-ask input[name=retries]", "5")
    press(page, "#jobexec-ask [type=submit]")
    page.wait_for_selector("text=1 job requeued with 5 retries.")
    picture(page, site, "requeued")
    press(page, "#jobexec-actions button[value=delete_selected]")
    press(page, "#jobexec-ask [type=submit]")
    page.wait_for_selector("text=1 job deleted.")
    page.goto(site["schedule"])
    press(page, "#jobexec-actions button[value=disable]")
    page.wait_for_selector("#jobexec-actions button[value=enable]")


def run_actions_of_the_lists(page, site):
    page.goto(site["dead_letters"])
    boxes = page.locator("input.action-select")
    assert boxes.count() == 4  # one of them is of the order that has an incident
    for box in boxes.all():
        box.check()
    page.select_option("select[name=action]", "requeue")
    picture(page, site, "chosen")
    press(page, "button[name=index], #changelist-form [type=submit]:visible")
    press(page, "#jobexec-ask [type=submit]")
    page.wait_for_selector("text=4 jobs requeued with 3 retries.")
    page.goto(site["jobs"])
    page.wait_for_selector("#result_list .field-state_and_owner .jobexec-badge")
    page.goto(site["instance"])
    press(page, "#jobexec-hold button.jobexec-danger")
    press(page, "#jobexec-ask [type=submit]")
    page.wait_for_selector("text=cancelled")
