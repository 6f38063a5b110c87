"""A project on SQLite runs although nothing of psycopg can be imported."""

import os
import subprocess
import sys

import pytest

from tests.support.suite.databases import ROOT

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

#: Python imports a module of this name when it starts.
SITECUSTOMIZE = """
import sys

class Forbidden:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("psycopg", "psycopg2", "psycopg_binary", "psycopg_c", "psycopg_pool"):
            raise ImportError(f"{name} is not there")

sys.meta_path.insert(0, Forbidden())
"""
SETTINGS = """
from pathlib import Path

SECRET_KEY = "only for tests"
USE_TZ = True
ROOT_URLCONF = "urls"
INSTALLED_APPS = [
    "django.contrib.admin", "django.contrib.auth", "django.contrib.contenttypes", "django.contrib.messages",
    "django.contrib.sessions", "rangefilter", "jobexec", "jobexec.processes", "shop",
]
MIDDLEWARE = [
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
]
TEMPLATES = [{
    "BACKEND": "django.template.backends.django.DjangoTemplates",
    "APP_DIRS": True,
    "OPTIONS": {"context_processors": [
        "django.template.context_processors.request", "django.contrib.auth.context_processors.auth",
        "django.contrib.messages.context_processors.messages",
    ]},
}]
DATABASES = {"default": {
    "ENGINE": "django.db.backends.sqlite3",
    "NAME": Path(__file__).with_name("db.sqlite3"),
    "OPTIONS": {"transaction_mode": "IMMEDIATE", "init_command": "PRAGMA journal_mode=WAL;"},
}}
"""
URLS = """
from django.contrib import admin
from django.urls import include, path

urlpatterns = [path("admin/", admin.site.urls), path("jobexec/", include("jobexec.urls"))]
"""
JOBS = """
from pathlib import Path

from jobexec import job
from jobexec.processes import flow

@job(retries="R2/PT0S")
def note(text):
    if text == "broken":
        raise ValueError(text)
    with Path(__file__).with_name("notes").open("a") as notes:
        notes.write(f"{text} ")

def begin():
    note.enqueue("one")
    note.enqueue_many([["two"], ["broken"]])
    with flow("note") as f:
        f.step(note, "three")
"""
#: The site, too: the page of the dashboard, and the health view.
VISIT = """
from django.contrib.auth.models import User
from django.test import Client

from jobexec.models import DeadLetterJob

client = Client(SERVER_NAME="localhost")
client.force_login(User.objects.create_superuser("operator"))
pages = "/admin/jobexec/", "/admin/jobexec/deadletterjob/"
print(DeadLetterJob.objects.count(), *[client.get(url).status_code for url in pages])
"""


@pytest.fixture
def project(tmp_path):
    files = {"sitecustomize": SITECUSTOMIZE, "settings": SETTINGS, "urls": URLS, "shop/jobs": JOBS, "shop/__init__": ""}
    (tmp_path / "shop").mkdir()
    for name, content in files.items():
        (tmp_path / f"{name}.py").write_text(content)
    return tmp_path


def run(project, *arguments):
    """The output of Python in this project."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("DJANGO", "JOBEXEC"))}
    environment |= {"DJANGO_SETTINGS_MODULE": "settings", "PYTHONPATH": f"{project}{os.pathsep}{ROOT}"}
    command = [sys.executable, *arguments]
    done = subprocess.run(command, cwd=project, env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.nightly
def test_it_is_checked_migrated_and_run_and_visited(project):
    assert run(project, "-c", "try: import psycopg\nexcept ImportError: print('none')") == "none\n"
    assert "no issues" in run(project, "-m", "django", "check", "--database", "default")
    run(project, "-m", "django", "migrate")
    run(project, "-m", "django", "shell", "-c", "from shop.jobs import begin; begin()")
    run(project, "-m", "django", "runjobexecutor", "--until-empty")
    assert sorted((project / "shop" / "notes").read_text().split()) == ["one", "three", "two"]
    run(project, "-m", "django", "jobs", "stats")
    assert run(project, "-m", "django", "shell", "-c", VISIT).split()[-3:] == ["1", "200", "200"]
