"""The admin with themes that replace Django's templates: all buttons are there and work."""

import importlib.util
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.suite.databases import ROOT
from tests.support.web import browser
from tests.support.web.browser import chromium  # noqa: F401 (fixture)

from .site import APPS

pytestmark = [
    pytest.mark.browser,
    pytest.mark.nightly,
    pytest.mark.timeout(900),
    pytest.mark.skipif(browser.CHROMIUM is None, reason="no Chromium found on PATH"),
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


def press(page: Any, selector: str) -> None:
    with page.expect_navigation():
        page.click(selector)


def test_an_operator_works_with_the_theme(page, site):
    look_around(page, site)
    press_the_buttons_of_a_row(page, site)
    run_actions_of_the_lists(page, site)


def look_around(page, site):
    page.goto(site["dashboard"])
    assert page.locator(".jobexec-tile").count() >= 6
    assert page.locator("#jobexec-pause").is_visible()
    picture(page, site, "dashboard")
    for name in ("jobs", "dead_letters", "job", "dead_letter", "schedule", "instance"):
        page.goto(site[name])
        picture(page, site, name)
    for url in site["pages"]:
        page.goto(url)
        assert page.locator("#jobexec-actions").count() <= 1, url
        assert page.locator("form form").count() == 0, url


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
    assert boxes.count() == 3
    for box in boxes.all():
        box.check()
    page.select_option("select[name=action]", "requeue")
    picture(page, site, "chosen")
    press(page, "button[name=index], #changelist-form [type=submit]:visible")
    press(page, "#jobexec-ask [type=submit]")
    page.wait_for_selector("text=3 jobs requeued with 3 retries.")
    page.goto(site["jobs"])
    page.wait_for_selector("#result_list .field-state_and_owner .jobexec-badge")
    page.goto(site["instance"])
    press(page, "#jobexec-hold button.jobexec-danger")
    press(page, "#jobexec-ask [type=submit]")
    page.wait_for_selector("text=cancelled")
