"""Which files an executor in development watches, and when it does so at all."""

import os
from pathlib import Path
from types import SimpleNamespace

import pytest
from django.apps import apps
from django.core.management import call_command

from jobexec.executor.process import reload
from jobexec.executor.process.reload import SourceWatcher, source_files
from jobexec.management.commands import runjobexecutor


@pytest.fixture
def app(tmp_path, monkeypatch):
    """An app with everything that an app may have; its files by name."""
    names = (
        "__init__.py",
        "jobs.py",
        "services/__init__.py",
        "services/mail.py",
        "tests.py",
        "tests/__init__.py",
        "tests/test_jobs.py",
        "services/test_mail.py",
        "locale/de/django.po",
        "templates/letter.html",
        "static/node_modules/tool/setup.py",
    )
    for name in names:
        path = tmp_path / "shop" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    monkeypatch.setattr(apps, "get_app_configs", lambda: [SimpleNamespace(path=str(tmp_path / "shop"))])
    return tmp_path / "shop"


def of(app):
    return {path.relative_to(app).as_posix() for path in source_files() if path.is_relative_to(app)}


def test_the_code_of_an_app_is_watched_and_nothing_else_of_it(app):
    assert of(app) == {"__init__.py", "jobs.py", "services/__init__.py", "services/mail.py"}


def test_what_is_loaded_is_watched_wherever_it_is(app):
    assert Path(reload.__file__).resolve() in set(source_files())


@pytest.mark.gate
def test_installed_apps_are_watched_only_as_far_as_they_are_loaded(app, monkeypatch):
    installed = app.parent / "site-packages"
    installed.mkdir()
    app.rename(installed / "shop")
    monkeypatch.setattr(apps, "get_app_configs", lambda: [SimpleNamespace(path=str(installed / "shop"))])
    assert of(installed) == set()


def test_changes_are_told_once(app):
    changed = SourceWatcher(source_files)
    assert changed() == []
    (app / "jobs.py").write_text("1")
    (app / "services" / "new.py").touch()
    (app / "services" / "mail.py").unlink()
    (app / "locale" / "de" / "django.po").write_text("1")
    (app / "templates" / "letter.html").write_text("1")
    assert changed() == [app / "jobs.py", app / "services" / "mail.py", app / "services" / "new.py"]
    assert changed() == []


def test_a_second_save_within_one_tick_of_the_clock_is_seen_by_its_size(app):
    changed = SourceWatcher(source_files)
    before = (app / "jobs.py").stat()
    (app / "jobs.py").write_text("1")
    os.utime(app / "jobs.py", ns=(before.st_atime_ns, before.st_mtime_ns))
    assert changed() == [app / "jobs.py"]


@pytest.mark.parametrize(
    ("debug", "arguments", "reloads"),
    [
        (False, [], False),
        (True, [], True),
        (True, ["--noreload"], False),
        (True, ["--no-reload"], False),
        (False, ["--reload"], True),
        (True, ["--until-empty"], False),
        (True, ["--until-empty", "--reload"], True),
    ],
)
@pytest.mark.django_db
def test_it_reloads_by_itself_with_debug(settings, monkeypatch, debug, arguments, reloads):
    settings.DEBUG = debug
    settings.JOBEXEC = {"ENGINES": {"default": {}}}
    chosen = []
    monkeypatch.setattr(runjobexecutor, "configure_logging", lambda *args: None)
    monkeypatch.setattr(runjobexecutor, "leave_connections", lambda: None)
    monkeypatch.setattr(runjobexecutor.Command, "_supervise", lambda *args: chosen.append(True))
    monkeypatch.setattr(runjobexecutor.Command, "_serve", lambda *args: chosen.append(False))
    call_command("runjobexecutor", *arguments)
    assert chosen == [reloads]
