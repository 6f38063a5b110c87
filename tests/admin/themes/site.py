"""A project with a theme of the admin, served until its input ends: `python -m tests.admin.themes.site THEME FOLDER`.

It prints one line of JSON: its address, the session of an administrator, and the pages to look at.
"""

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
        SILENCED_SYSTEM_CHECKS=["jobexec.W020"],
        PASSWORD_HASHERS=["django.contrib.auth.hashers.MD5PasswordHasher"],
    )
    django.setup()
    from django.contrib import admin
    from django.urls import include, path

    if theme == "grappelli":
        urlpatterns.append(path("grappelli/", include("grappelli.urls")))
    urlpatterns.append(path("admin/", admin.site.urls))
    call_command("migrate", verbosity=0)
    serve(fill())


def fill() -> dict[str, Any]:
    from django.contrib.auth import get_user_model
    from django.test import Client

    from jobexec.models import DeadLetterJob, Job, Schedule
    from tests.admin import data
    from tests.admin.conftest import list_url, page_url

    client = Client()
    client.force_login(get_user_model().objects.create_superuser("admin"))
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
        "pages": [page_url(row) for row in rows.values()],
    }


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
