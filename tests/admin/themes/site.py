"""A project with a theme of the admin, served until its input ends: `python -m tests.admin.themes.site THEME FOLDER`.

It prints one line of JSON: its address, the session of an administrator, and the pages to look at. Its pages
`/row/TABLE/ACTION/` make a row, in tables that are empty otherwise, and lead to its page in the admin.
"""

import itertools
import json
import sys
from typing import Any

import django
from django.conf import settings
from django.core.management import call_command

#: The apps of each theme, which belong before Django's admin.
APPS = {
    "django": [],
    "unfold": ["unfold"],
    "jazzmin": ["jazzmin"],
    "grappelli": ["grappelli"],
}
RESOURCES = {"pay.example": {"limit": 5, "breaker": "fast"}, "mail": {"rate": "100/PT1M", "breaker": "fast"}}
urlpatterns: list[Any] = []


def main(theme: str, folder: str) -> None:
    from demo_project import settings as demo

    settings.configure(
        SECRET_KEY="only for tests",
        DEBUG=True,  # the server then finds the static files
        ALLOWED_HOSTS=["*"],
        DATABASES={"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": f"{folder}/site.sqlite3"}},
        DEFAULT_AUTO_FIELD=demo.DEFAULT_AUTO_FIELD,
        INSTALLED_APPS=[
            *APPS[theme],
            *(app for app in demo.INSTALLED_APPS if not app.startswith(("demo_project", "jobexec"))),
            *("jobexec", "jobexec.processes"),
        ],
        MIDDLEWARE=demo.MIDDLEWARE,
        TEMPLATES=demo.TEMPLATES,
        STATIC_URL="/static/",
        ROOT_URLCONF="tests.admin.themes.site",
        USE_TZ=True,
        SILENCED_SYSTEM_CHECKS=["jobexec.W020", "jobexec.W023"],
        PASSWORD_HASHERS=["django.contrib.auth.hashers.MD5PasswordHasher"],
        JAZZMIN_UI_TWEAKS={"default_theme_mode": "auto"},
        JOBEXEC={"RESOURCES": RESOURCES, "ENCRYPTION_KEYS": {"k1": lambda: b"k" * 32}},
    )
    django.setup()
    from django.contrib import admin
    from django.urls import include, path

    from jobexec import job

    if theme == "grappelli":
        urlpatterns.append(path("grappelli/", include("grappelli.urls")))
    urlpatterns.extend([path("admin/", admin.site.urls), path("row/<table>/<action>/", row)])
    for name in ("tests.noop", "demo_project.bookings.jobs.book_hotel"):
        job(name=name)(lambda *args: None)
    call_command("migrate", verbosity=0)
    serve(fill())


def fill() -> dict[str, Any]:
    from django.contrib.auth import get_user_model
    from django.test import Client

    from jobexec.models import DeadLetterJob, Job, Schedule
    from tests.admin import data, test_every_page
    from tests.admin.conftest import list_url, page_url
    from tests.processes.admin.pages import url

    client = Client()
    client.force_login(get_user_model().objects.create_superuser("admin"))
    order = an_order()  # first: it runs all jobs that are there
    rows = data.some_of_everything()
    for number in range(3):
        data.dead_letter(process_instance_id=f"order-{number}")
    return {
        "session": client.cookies["sessionid"].value,
        "dashboard": "/admin/jobexec/",
        "jobs": list_url(Job),
        "job": page_url(rows[Job]),
        "dead_letters": list_url(DeadLetterJob),
        "dead_letter": page_url(rows[DeadLetterJob]),
        "schedule": page_url(rows[Schedule]),
        "instance": "/admin/jobexec/jobdefinition/instance/?id=order-4711",
        "lists": [*map(list_url, rows), *map(url, order)],
        "pages": [
            *map(page_url, rows.values()),
            *itertools.starmap(url, order.items()),
            *(test_every_page.ADD_SCHEDULE, test_every_page.ADD_CLIENT, test_every_page.SUSPEND),
            *(f"{list_url(Job)}add/", f"{list_url(Job)}add/?handler=tests.noop"),
            *test_every_page.PAGES,
        ],
    }


def an_order() -> dict[type[Any], Any]:
    """An order that waits for a user task and has an incident; its rows."""
    from jobexec.processes.models import ProcessDefinition, ProcessInstance, UserTask
    from jobexec.processes.operations import statistics
    from jobexec.processes.operations.deploy import deploy
    from jobexec.processes.operations.start import start
    from jobexec.testing import ManualExecutor
    from tests.processes.admin.pages import DRAWN

    statistics.forget()
    deploy(("order.bpmn", DRAWN), using="default")
    order = start("order", business_key="4711", variables={"amount": 5}, using="default")
    ManualExecutor("default", reraise=False).run_until_empty()
    rows = {ProcessInstance: order, UserTask: UserTask.objects.get(instance_id=order.pk, element_id="approve")}
    return {**rows, ProcessDefinition: ProcessDefinition.objects.get(pk=order.definition_id)}


def row(request: Any, table: str, action: str) -> Any:
    """A row on which the action can be seen."""
    from django.apps import apps
    from django.shortcuts import redirect

    from jobexec import processes
    from tests.admin.common.test_permissions import a_row
    from tests.admin.conftest import page_url
    from tests.admin.test_every_button import empty
    from tests.processes.admin.pages import url

    empty()
    model = apps.get_model(table)
    if model._meta.app_label == "jobexec":
        return redirect(page_url(a_row(model, action)))
    rows = an_order()
    if action == "activate":
        of_version = table.endswith("Definition")
        processes.suspend("order" if of_version else rows[model], version=1 if of_version else None)
    if action == "restart":
        processes.cancel(rows[model])
    if action == "release":
        processes.claim(rows[model], "admin")
    return redirect(url(model, rows[model]))


def serve(pages: dict[str, Any]) -> None:
    """Serve until the input ends, which it does however the test ends."""
    from django.contrib.staticfiles.handlers import StaticFilesHandler
    from django.test.testcases import LiveServerThread

    server = LiveServerThread("127.0.0.1", StaticFilesHandler, connections_override={})
    server.daemon = True
    server.start()
    server.is_ready.wait()
    if server.error:
        raise server.error
    print(json.dumps({**pages, "address": f"http://127.0.0.1:{server.port}"}), flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    sys.modules["tests.admin.themes.site"] = sys.modules["__main__"]
    main(*sys.argv[1:])
