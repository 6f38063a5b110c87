"""The tables of the page for those who come from django-tasks-db name the options of both sides, and no others."""

import re
import subprocess
import sys

import pytest
from django.core.management.base import BaseCommand

from jobexec import models, operations
from jobexec.management.commands.runjobexecutor import Command
from tests.support.suite.databases import ROOT

TEXT = (ROOT / "docs" / "how-to" / "migrate" / "from-django-tasks-db.md").read_text()
OPTION = re.compile(r"--[a-z-]+")


#: A process of its own, as the app is not installed here.
THEIRS = """
import sys
import django
from django.conf import settings
from django.core.management import load_command_class
tasks = {"default": {"BACKEND": "django_tasks_db.DatabaseBackend"}}
settings.configure(INSTALLED_APPS=["django_tasks_db"], TASKS=tasks)
django.setup()
print(*load_command_class("django_tasks_db", sys.argv[1]).create_parser("manage.py", "x")._option_string_actions)
"""


def own(options):
    """The options that not all commands of Django have."""
    return set(options) - set(BaseCommand().create_parser("manage.py", "x")._option_string_actions)


def options_in(heading):
    """The options in the left and in the right column of the table below a heading."""
    section = TEXT.split(f"## {heading}\n", 1)[1].split("\n## ", 1)[0]
    rows = [line.split(" | ") for line in section.splitlines() if line.startswith("| ")]
    return [{option for row in rows for option in OPTION.findall(row[side])} for side in (0, 1)]


@pytest.mark.gate
@pytest.mark.parametrize(
    ("heading", "command"), [("The worker", "db_worker"), ("Old results", "prune_db_task_results")]
)
def test_each_option_is_in_the_table(heading, command):
    pytest.importorskip("django_tasks_db")
    shown = subprocess.run([sys.executable, "-c", THEIRS, command], capture_output=True, text=True, check=True)
    left, right = options_in(heading)
    assert left == own(shown.stdout.split())
    assert right <= own(Command().create_parser("manage.py", "x")._option_string_actions)


def test_models_operations_and_settings_are_there():
    for name in re.findall(r"jobexec\.models\.(\w+)", TEXT):
        assert hasattr(models, name)
    for name in re.findall(r"jobexec\.operations\.(\w+)", TEXT):
        assert hasattr(operations, name)
    settings = set(re.findall(r"`([A-Z]+_[A-Z_]+)`", TEXT)) - {"INSTALLED_APPS"}
    assert settings >= {"RESULT_TTL", "GRACE_PERIOD", "WAIT_TIME"}
    engines = (ROOT / "jobexec" / "conf" / "schema.py").read_text()
    for name in settings:
        assert f"    {name.lower()}: " in engines, name
