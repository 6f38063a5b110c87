"""The pages of processes in a real browser, under a strict policy: nothing is blocked, and all can be read."""

import os

import pytest

from jobexec.processes.models import ProcessDefinition, ProcessInstance, UserTask
from jobexec.processes.operations import statistics
from jobexec.processes.operations.deploy import deploy
from jobexec.processes.operations.start import start
from jobexec.testing import ManualExecutor
from tests.support.suite.tiers import some
from tests.support.threads import finish
from tests.support.threads import start as beside
from tests.support.web import browser
from tests.support.web.accessibility import grave_findings, hidden_columns, poor_contrasts, too_wide
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


#: The columns of each list that an operator looks for first.
FIRST = {
    ProcessDefinition: "key version_shown name running incidents",
    ProcessInstance: "state_badge process business_key waits_at incidents",
    UserTask: "task assignee process due age",
}


def pages(page, order, name):  # noqa: F811
    """Load one page after the other; their addresses. Their pictures have this name."""
    flow = shop().start(using="default")
    run_jobs()
    task = UserTask.objects.get(element_id="approve")
    definitions = ProcessDefinition.objects.order_by("key")
    addresses = [*map(url, FIRST), url(ProcessInstance, order), url(ProcessInstance, flow), url(UserTask, task)]
    addresses += [url(ProcessDefinition, row) for row in definitions]
    addresses += [f"{url(ProcessDefinition, definitions.get(key='order'))}?show=runs"]
    for number, address in enumerate(addresses):
        page.goto(address)
        if page.locator("#jobexec-diagram").count():
            page.wait_for_selector(DIAGRAM)
        yield address
        if folder := os.environ.get("JOBEXEC_TEST_PICTURES"):
            page.screenshot(path=f"{folder}/{name}-{number}.png", full_page=True)


@pytest.mark.nightly
@pytest.mark.parametrize(("scheme", "width"), [("light", 1440), ("dark", 640), ("light", 640), ("dark", 1440)])
def test_every_page(page, scheme, width, order):  # noqa: F811
    page.emulate_media(color_scheme=scheme)
    page.set_viewport_size({"width": width, "height": 900})
    for address in pages(page, order, f"{scheme}-{width}"):
        assert [finding for finding in grave_findings(page) if finding not in OF_DJANGO] == [], address
        assert poor_contrasts(page) == [], address


def test_the_mark_of_the_diagram_is_visible(page, order):  # noqa: F811
    """As its licence demands: nothing covers it, and no style of ours changes it."""
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)
        page.goto(url(ProcessInstance, order))
        page.wait_for_selector(DIAGRAM)
        mark = page.locator(".bjs-powered-by")
        mark.scroll_into_view_if_needed()
        assert mark.is_visible()
        box = mark.bounding_box()
        seen = page.evaluate(
            "([x, y]) => document.elementFromPoint(x, y).closest('.bjs-powered-by') !== null",
            [box["x"] + box["width"] / 2, box["y"] + box["height"] / 2],
        )
        assert seen
        frame = page.locator("#jobexec-diagram").bounding_box()
        assert box["x"] + box["width"] <= frame["x"] + frame["width"]
        assert box["y"] + box["height"] <= frame["y"] + frame["height"]
    styles = page.evaluate(
        "[...document.styleSheets].filter(each => /jobexec_processes.(processes|admin)/.test(each.href))"
        ".flatMap(each => [...each.cssRules].map(rule => rule.cssText))"
    )
    assert styles
    assert not any("powered-by" in rule for rule in styles)


def test_diagram_and_picture_show_the_same(page, order):  # noqa: F811
    page.goto(url(ProcessInstance, order))
    page.wait_for_selector(DIAGRAM)
    assert page.locator("#jobexec-server-picture").is_hidden()
    for kind in ("tokens", "incidents"):
        in_diagram = sorted(page.locator(f"#jobexec-diagram .jobexec-overlay.{kind}").all_inner_texts())
        in_picture = page.locator(f"#jobexec-server-picture rect.jobexec-{kind} + text").all_text_contents()
        assert in_diagram == sorted(in_picture) != [], kind
    for state in ("done", "waits", "incident"):
        picture = page.locator(f"#jobexec-server-picture .jobexec-element.{state}")
        diagram = page.locator(f"#jobexec-diagram .djs-element.{state}")
        assert ids(diagram, "data-element-id") == ids(picture, "data-element") != set(), state
    taken = page.locator("#jobexec-diagram .djs-connection.jobexec-taken")
    assert ids(taken, "data-element-id") == {"f1", "f2", "f3", "f4"}
    assert page.locator("#jobexec-server-picture .jobexec-taken").count() == 4
    page.click("#jobexec-zoom button[value='1.25']")
    assert page.locator("#jobexec-zoom button").count() == 3


def ids(found, attribute):
    return {each.get_attribute(attribute) for each in found.all()}


def test_without_script_the_picture_of_the_server_is_there(open_page, order, django_user_model):  # noqa: F811
    user = django_user_model.objects.create_superuser("admin")
    plain = open_page(user, java_script_enabled=False)
    plain.goto(url(ProcessInstance, order))
    assert plain.locator("#jobexec-server-picture svg").is_visible()
    assert not plain.locator("#jobexec-diagram").is_visible()
    assert plain.locator("#jobexec-server-picture [data-element=reserve].incident").is_visible()


@pytest.mark.parametrize("width", some([400, 1024, 1440], 3, later="nightly"))
def test_pages_fit_the_window(open_page, order, django_user_model, width):  # noqa: F811
    user = django_user_model.objects.create_superuser("admin")
    window = open_page(user, viewport={"width": width, "height": 900})
    first = {url(model): names for model, names in FIRST.items()}
    wide = []
    for address in pages(window, order, f"width-{width}"):
        wide += [(address, each) for each in [*too_wide(window), *hidden_columns(window, first.get(address, ""))]]
    assert wide == []


@pytest.mark.parametrize(
    ("width", "scheme"),
    some([(400, "dark"), (400, "light"), (1024, "dark"), (1440, "light")], 4, later="nightly"),
)
def test_questions_fit_the_window_and_can_be_read(open_page, order, django_user_model, width, scheme):  # noqa: F811
    user = django_user_model.objects.create_superuser("admin")
    window = open_page(user, viewport={"width": width, "height": 900}, color_scheme=scheme)
    definition = ProcessDefinition.objects.get(key="order")
    for row, action in ((order, "modify"), (order, "suspend"), (definition, "suspend")):
        window.goto(url(type(row), row))
        window.wait_for_selector(DIAGRAM)
        window.click(f"#jobexec-actions button[value={action}]")
        window.wait_for_selector("#jobexec-ask")
        if folder := os.environ.get("JOBEXEC_TEST_PICTURES"):
            window.screenshot(path=f"{folder}/ask-{width}-{scheme}-{type(row).__name__}-{action}.png", full_page=True)
        assert window.evaluate("document.documentElement.scrollWidth") <= width, action
        assert [finding for finding in grave_findings(window) if finding not in OF_DJANGO] == [], action
        assert poor_contrasts(window) == [], action


def test_an_operator_repairs_an_order(page, order):  # noqa: F811
    page.goto(url(ProcessInstance, order))
    page.wait_for_selector(DIAGRAM)  # what is below it moves when it is drawn, and a click at that moment is lost
    row = page.locator("#jobexec-variables tr", has_text="amount")
    row.locator("summary").click()
    row.locator("textarea").fill("2000")
    row.locator("button[value=set_variable]").click()
    page.wait_for_selector("text=The variable amount of 1 process instance was set.")
    page.wait_for_selector(DIAGRAM)
    page.click("#jobexec-incidents button[value=retry]")
    page.wait_for_selector("text=1 incident is retried.")
    page.wait_for_selector("text=its job waits for an executor")
    page.wait_for_selector(DIAGRAM)
    page.click("#jobexec-why >> text=the task")
    page.click("#jobexec-actions button[value=claim]")
    page.wait_for_selector("text=1 task claimed.")
    page.click("#jobexec-actions button[value=complete]")
    page.wait_for_selector("#jobexec-ask")
    assert [finding for finding in grave_findings(page) if finding not in OF_DJANGO] == []
    if folder := os.environ.get("JOBEXEC_TEST_PICTURES"):
        page.screenshot(path=f"{folder}/task-form.png", full_page=True)
    page.check("input[name=field_approved]")
    page.fill("input[name=field_discount]", "70")
    page.click("#jobexec-ask input[type=submit]")
    page.wait_for_selector("text=less than or equal to 50")
    page.fill("input[name=field_discount]", "7")
    page.fill("input[name=field_comment]", "ok")
    page.select_option("select[name=field_way]", "air")
    page.click("#jobexec-ask input[type=submit]")
    page.wait_for_selector("text=1 task was completed.")
    page.goto(url(ProcessInstance, order))
    page.wait_for_selector("#jobexec-variables >> text=discount")
    page.wait_for_selector(DIAGRAM)
    page.click("#jobexec-actions button[value=cancel]")
    page.wait_for_selector("text=1 process instance")
    page.fill("input[name=reason]", "no more")
    page.click("#jobexec-ask input[type=submit]")
    page.wait_for_selector("text=1 process instance was cancelled.")
    found = ProcessInstance.objects.get(pk=order.pk)
    given = {name: found.final_variables[name] for name in ("amount", "approved", "discount", "comment", "way")}
    assert given == {"amount": 2000, "approved": True, "discount": 7, "comment": "ok", "way": "air"}
