"""``manage.py migrate --database`` puts jobexec's tables where the routers allow them."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from tests.support.suite.databases import ROOT

pytestmark = pytest.mark.slow

SETTINGS = """
SECRET_KEY = "only for tests"
USE_TZ = True
INSTALLED_APPS = ["django.contrib.auth", "django.contrib.contenttypes", "jobexec"]
DATABASES = {{
    name: {{"ENGINE": "django.db.backends.sqlite3", "NAME": {folder!r} + "/" + name}} for name in ("default", "jobs")
}}
DATABASE_ROUTERS = ["split_settings.Router"]
JOBEXEC = {{"ENGINES": {{"jobs": {{}}}}}}

class Router:
    def db_for_read(self, model, **hints):
        return "jobs" if model._meta.app_label == "jobexec" else None
    db_for_write = db_for_read
    def allow_migrate(self, db, app_label, **hints):
        return (db == "jobs") == (app_label == "jobexec")
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "split_settings.py").write_text(SETTINGS.format(folder=str(tmp_path)))
    return tmp_path


def manage(project: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {
        "DJANGO_SETTINGS_MODULE": "split_settings",
        "PYTHONPATH": f"{project}{os.pathsep}{ROOT}",
    }
    command = [sys.executable, "-m", "django", *arguments]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=180, check=False)


def tables(path: Path) -> set[str]:
    with closing(sqlite3.connect(path)) as connection:
        return {name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}


def test_the_tables_are_where_the_router_allows_them(project: Path) -> None:
    for database in ("default", "jobs"):
        assert manage(project, "migrate", "--database", database).returncode == 0
    assert "jobexec_job" in tables(project / "jobs")
    assert not {name for name in tables(project / "default") if name.startswith("jobexec")}


@pytest.mark.nightly
def test_the_executor_serves_the_engine_and_names_the_missing_migration(project: Path) -> None:
    refused = manage(project, "runjobexecutor", "--check")
    assert refused.returncode == 1
    assert "migrate jobexec --database jobs" in refused.stderr
    manage(project, "migrate", "--database", "jobs")
    assert manage(project, "runjobexecutor", "--check").returncode == 0
    assert manage(project, "runjobexecutor", "--until-empty").returncode == 0
