"""Every button of a row's page in a real browser, on a phone: it can be reached, and its action runs."""

from typing import Any

import pytest

from jobexec.models import AuditLog, Batch, Job, Message, Suspension
from tests.support.web import browser

from . import data
from .common.test_permissions import ACTIONS, a_row, everything, noop, resources  # noqa: F401 (fixtures)
from .conftest import TABLES, list_url, page_url
from .pages.test_operators_pages import RUNNING, instance, subject

pytestmark = [*browser.marks, pytest.mark.slow, pytest.mark.timeout(1200)]

PHONE = {"width": 400, "height": 850}


@pytest.fixture
def phone(page: Any) -> Any:
    page.set_viewport_size(PHONE)
    return page


@pytest.mark.nightly
def test_all_buttons(phone):
    """One after the other, in one browser; after each, the tables are emptied."""
    wrong = []
    for table, action, _permission, asks in ACTIONS:
        row = a_row(table, action)
        before = everything()
        phone.goto(page_url(row))
        press(phone, f"#jobexec-actions button[value={action}]")
        answer(phone, asks)
        shown = phone.locator(".messagelist li")
        levels = [each.get_attribute("class") for each in shown.all()]
        if (
            levels[:1] != ["success"]
            or {"error", "warning"} & {*levels[1:]}
            or everything() == before
            or phone.complaints
        ):
            wrong.append((table.__name__, action, levels, shown.all_inner_texts(), list(phone.complaints)))
        phone.complaints.clear()
        empty()
    assert not wrong, "\n".join(map(str, wrong))


def answer(page: Any, asks: dict[str, str]) -> None:
    """Answer the questions of an action, if it asks any."""
    while page.locator("#jobexec-ask").count():
        assert page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]
        for name, value in asks.items():
            field = page.locator(f"#jobexec-ask [name={name}]")
            if field.evaluate("field => field.localName") == "select":
                field.select_option(value)
            else:
                field.check() if value == "on" else field.fill(value)
        press(page, "#jobexec-ask input[type=submit]")
        assert page.locator("#jobexec-ask .errorlist").count() == 0


def press(page: Any, selector: str) -> None:
    """Press a button and wait for the page that follows."""
    with page.expect_navigation():
        page.click(selector)


def empty() -> None:
    for table in TABLES:
        table.objects.all().delete()


@pytest.mark.nightly
def test_the_buttons_of_the_other_pages(phone, live_server):
    """Suspending and lifting where an operator looks, cancelling an instance, publishing a message."""
    data.make(Job, tenant_id="acme")
    for url in (subject("handler", "shop.jobs.charge_card"), subject("category", "default"), subject("tenant", "acme")):
        phone.goto(url)
        press(phone, "#jobexec-hold .jobexec-button")
        answer(phone, {})
        phone.wait_for_selector(".messagelist .success")
        phone.goto(url)
        press(phone, "#jobexec-hold a")
        assert phone.url.endswith(page_url(Suspension.objects.get()))
        press(phone, "#jobexec-actions button[value=lift]")
        answer(phone, {})
        phone.wait_for_selector(".messagelist .success")
    assert not Suspension.objects.exists()
    phone.goto(RUNNING)
    press(phone, "section[aria-labelledby=jobexec-categories] .jobexec-button")
    answer(phone, {})
    assert Suspension.objects.get().value == "default"
    phone.goto(instance())
    press(phone, "button:has-text('Cancel its jobs')")
    answer(phone, {})
    phone.wait_for_selector(".messagelist .success")
    assert not Job.objects.exists()
    assert AuditLog.objects.filter(verb="cancel").exists()

    phone.goto(f"{list_url(Message)}add/")
    phone.fill("input[name=name]", "approved")
    phone.fill("input[name=key]", "4711")
    press(phone, "input[name=_save]")
    phone.wait_for_selector(".messagelist .success")


def test_the_batch_page_shows_how_far_it_is(phone, live_server):
    """Its bar grows without a person who loads the page again."""
    batch = data.batch(total=100, changed=20, skipped=0)
    phone.clock.install()
    phone.goto(page_url(batch))
    bar = phone.locator(".field-progress meter")
    assert bar.get_attribute("value") == "20"
    assert 0 < bar.bounding_box()["width"] < PHONE["width"]
    Batch.objects.filter(pk=batch.pk).update(changed=90)
    phone.clock.run_for(5_000)
    phone.wait_for_selector(".field-progress meter[value='90']")
