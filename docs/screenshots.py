"""Pictures of the admin for the documentation: `python docs/screenshots.py` writes docs/images/admin/*.png.
With the beginnings of names, `python docs/screenshots.py page-process`, it writes these alone; with the name of a
theme, `python docs/screenshots.py unfold`, those under this theme.

Each page, light and dark, of a shop in a temporary SQLite database (screenshots_shop.py). Needs playwright and
Chromium on PATH.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import django
from django.conf import settings
from django.core.management import call_command

HERE = Path(__file__).parent
IMAGES = HERE / "images" / "admin"
CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
WIDTH, LEAST, MOST = 1280, 500, 1700  # of a picture, and its height
MOST_OF = {"list": 860, "dashboard": 1340}
THEMED = 800  # of a picture under a theme
#: The pages of which there are pictures in other widths, too: of a phone, and of windows with Django's sidebar.
SIZED, WIDTHS = ("dashboard", "list-deadletterjob", "page-deadletterjob", "list-processinstance"), (400, 1024, 1440)
RESOURCES = {
    "pay.example": {"limit": 5, "rate": "100/PT1M", "breaker": "external_api"},
    "mail.example": {"limit": 3},
    "customer:*": {"limit": 2},
}
SIDEBAR = "localStorage.setItem('django.admin.navSidebarIsOpen', '%s')"
LISTS = (
    *("deadletterjob", "job", "timerjob", "suspendedjob", "blockedjob", "incident", "failuregroup", "batch", "joblog"),
    *("resource", "message", "auditlog"),
    *("jobdefinition", "deployment", "executornode", "exclusivelock", "suspension", "historyjob"),
    *("schedule", "jobkey", "taskresult"),
    *("externalworkerjob", "externalworker", "gatewayclient"),
)
PROCESSES = ("processdefinition", "processinstance", "usertask", "flow", "suspended", "ended")
INSTANCES = ("flow", "suspended", "ended")
#: The themes with pictures, and their pages. Settings are for a process, so each theme has one of its own.
THEMES = {"unfold": ("dashboard",), "jazzmin": ("page-deadletterjob",)}
#: Pictures of questions, and the buttons that ask them.
ASKED = {
    "process-suspend": "suspend",
    "process-activate": "activate",
    "process-modify": "modify",
    "process-restart": "restart",
    "process-suspendall": "suspend",
    "process-cancel": "cancel",
    "process-start": "start",
    "task-complete": "complete",
}


def main(*wanted: str) -> None:
    """Make all pictures, or those whose names begin with one of these."""
    theme = wanted[0] if wanted and wanted[0] in THEMES else ""
    if missing := [name for name in (() if wanted else THEMES) if find_spec(name) is None]:
        sys.exit(f"Not installed: {', '.join(missing)}. The extra themes has all themes of which there are pictures.")
    with tempfile.TemporaryDirectory() as folder:
        configure(Path(folder), theme)
        import screenshots_external
        import screenshots_processes
        import screenshots_resources
        import screenshots_schedules
        from screenshots_shop import Shop

        from jobexec.models import OperatorType
        from jobexec.operations.values.operator import Operator

        call_command("migrate", verbosity=0)
        shop = Shop()
        processes = screenshots_processes.fill()  # first: it runs all jobs that are there
        rows = {**shop.open(), **screenshots_schedules.fill(), **screenshots_external.fill(), **processes}
        rows |= screenshots_resources.fill(Operator(OperatorType.USER, "maria", "admin", "10.0.3.17", shop.admin))
        if not wanted:
            shutil.rmtree(IMAGES, ignore_errors=True)
        IMAGES.mkdir(parents=True, exist_ok=True)
        pages = {name: url for name, url in addresses(rows).items() if not wanted or name.startswith(wanted)}
        if theme:
            pages = {name: addresses(rows)[name] for name in THEMES[theme]}
        with serving() as address, browser() as chromium:
            for scheme in ("light", "dark"):
                page = log_in(chromium, address, shop.admin, scheme)
                for name, url in pages.items():
                    take(page, name, f"{address}{url}", scheme, theme)
                if not wanted or "ask" in wanted:
                    keep_alive()
                    ask(page, f"{address}{url_of('changelist', 'deadletterjob')}")
                    picture(page, IMAGES / f"ask-{scheme}.png")
    for each in () if wanted else THEMES:
        subprocess.run([sys.executable, __file__, each], check=True)  # noqa: S603 (itself)


def take(page: Any, name: str, address: str, scheme: str, theme: str = "") -> None:
    """All pictures of one page."""
    keep_alive()
    page.goto(address)
    if name in ASKED:
        page.click(f"#jobexec-actions button[value={ASKED[name]}]")
        page.wait_for_selector("#jobexec-ask")
    if name == "add-schedule":
        page.fill("#id_expression", "0 3 * * MON-FRI")
        page.wait_for_selector("#jobexec-times ol")
    most = MOST_OF.get(name.split("-")[0], MOST)
    if theme:
        return picture(page, IMAGES / f"{theme}-{name}-{scheme}.png", THEMED)
    picture(page, IMAGES / f"{name}-{scheme}.png", most)
    for width in WIDTHS if name in SIZED else ():
        with sidebar(page, width):
            picture(page, IMAGES / f"{name}-{width}-{scheme}.png", most, width)


def configure(folder: Path, theme: str) -> None:
    """A project of its own, with this checkout's jobexec."""
    sys.path[:0] = [str(HERE), str(HERE.parent)]
    from demo_project import settings as demo

    # Playwright's synchronous interface keeps an event loop in this thread, beside which Django refuses the ORM.
    os.environ["DJANGO_ALLOW_ASYNC_UNSAFE"] = "1"
    settings.configure(
        SECRET_KEY="only for pictures",
        DEBUG=True,  # the server then finds the static files
        ALLOWED_HOSTS=["*"],
        DATABASES={"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": str(folder / "shop.sqlite3")}},
        DEFAULT_AUTO_FIELD=demo.DEFAULT_AUTO_FIELD,
        INSTALLED_APPS=([theme] if theme else [])
        + [app for app in demo.INSTALLED_APPS if app.split(".")[0] not in ("demo_project", "jobexec")]
        + ["jobexec", "jobexec.processes"],
        MIDDLEWARE=demo.MIDDLEWARE,
        TEMPLATES=demo.TEMPLATES,
        STATIC_URL="/static/",
        ROOT_URLCONF="screenshots_urls",
        TIME_ZONE="UTC",
        USE_TZ=True,
        JAZZMIN_UI_TWEAKS={"default_theme_mode": "auto"},
        JOBEXEC={"CATEGORIES": ["default", "mail"], "RESOURCES": RESOURCES},
    )
    django.setup()


def url_of(page: str, table: str, *arguments: Any) -> str:
    from django.urls import reverse

    app = "jobexec_processes" if table in PROCESSES else "jobexec"
    return reverse(f"admin:{app}_{'processinstance' if table in INSTANCES else table}_{page}", args=arguments)


def addresses(rows: dict[str, Any]) -> dict[str, str]:
    """The pages by the names of their pictures."""
    from django.urls import reverse

    lists = {f"list-{table}": url_of("changelist", table) for table in (*LISTS, *PROCESSES[:3])}
    pages = {f"page-{table}": url_of("change", table, row.pk) for table, row in rows.items() if table != "ended"}
    return {
        "dashboard": "/admin/jobexec/",
        **lists,
        **pages,
        "suspend": url_of("add", "suspension"),
        "add-schedule": url_of("add", "schedule"),
        "enqueue": f"{url_of('add', 'job')}?handler=shop.jobs.refund",
        "page-handler": f"{reverse('admin:jobexec_subject', args=['handler'])}?name=shop.jobs.charge_card",
        "page-tenant": f"{reverse('admin:jobexec_subject', args=['tenant'])}?name=acme",
        "incident-groups": reverse("admin:jobexec_incident_groups"),
        "page-category": f"{reverse('admin:jobexec_subject', args=['category'])}?name=default",
        "page-instance": f"{reverse('admin:jobexec_instance')}?id=order-48213",
        "dashboard-handlers": "/admin/jobexec/?by=handler",
        "running": reverse("admin:jobexec_running"),
        "page-processheat": f"{pages.get('page-processdefinition', '')}?show=runs",
        "process-suspend": pages["page-processinstance"],
        "process-activate": pages["page-suspended"],
        "process-modify": pages["page-processinstance"],
        "process-restart": url_of("change", "ended", rows["ended"].pk),
        "process-suspendall": pages["page-processdefinition"],
        "process-cancel": pages["page-processinstance"],
        "process-start": pages["page-processdefinition"],
        "task-complete": pages["page-usertask"],
    }


def keep_alive() -> None:
    """What the nodes do all the while: their leases would run out between two pictures."""
    from jobexec import clock
    from jobexec.models import ExecutorNode, ExternalWorker

    now = clock.now()
    ExternalWorker.objects.exclude(worker="printer-hall").update(last_seen=now - timedelta(seconds=2))
    beat = now - timedelta(seconds=3)
    ExecutorNode.objects.update(heartbeat_time=beat, lease_expiration_time=beat + timedelta(seconds=30))


@contextmanager
def serving() -> Iterator[str]:
    """Django's server in a thread."""
    from django.contrib.staticfiles.handlers import StaticFilesHandler
    from django.test.testcases import LiveServerThread

    server = LiveServerThread("127.0.0.1", StaticFilesHandler, connections_override={})
    server.daemon = True
    server.start()
    server.is_ready.wait()
    if server.error:
        raise server.error
    yield f"http://127.0.0.1:{server.port}"
    server.terminate()


@contextmanager
def browser() -> Iterator[Any]:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(
            executable_path=CHROMIUM, args=["--no-sandbox", "--disable-dev-shm-usage", "--hide-scrollbars"]
        )
        yield chromium
        chromium.close()


def log_in(chromium: Any, address: str, user: Any, scheme: str) -> Any:
    from django.test import Client

    client = Client()
    client.force_login(user)
    context = chromium.new_context(viewport={"width": WIDTH, "height": LEAST}, color_scheme=scheme)
    context.add_cookies([{"name": "sessionid", "value": client.cookies["sessionid"].value, "url": address}])
    # The list of tables at the side takes a fifth of the width.
    context.add_init_script(SIDEBAR % "false")
    return context.new_page()


def ask(page: Any, address: str) -> None:
    """The question before an action."""
    page.goto(address)
    for box in page.locator("input.action-select").all()[:3]:
        box.check()
    page.select_option("select[name=action]", "requeue")
    page.click("button[name=index]")
    page.wait_for_selector("#jobexec-ask")


@contextmanager
def sidebar(page: Any, width: int) -> Iterator[None]:
    """The page as a browser of this width shows it when it is opened: with the list of tables, if there is room."""
    address = page.url
    page.set_viewport_size({"width": width, "height": LEAST})
    page.add_init_script(SIDEBAR % "true")
    page.goto(address)
    yield
    page.add_init_script(SIDEBAR % "false")
    page.goto(address)


def picture(page: Any, path: Path, most: int = MOST, width: int = WIDTH) -> None:
    """As high as the page, within bounds."""
    page.set_viewport_size({"width": width, "height": LEAST})
    if page.locator("#jobexec-diagram").count():  # its height is known when it is drawn
        page.wait_for_selector("#jobexec-diagram[data-state=drawn]")
    height = page.evaluate("document.documentElement.scrollHeight")
    page.set_viewport_size({"width": width, "height": min(max(height, LEAST), most)})
    page.mouse.move(0, 0)
    page.evaluate("document.fonts.ready")
    page.screenshot(path=str(path), animations="disabled", caret="hide")


if __name__ == "__main__":
    main(*sys.argv[1:])
