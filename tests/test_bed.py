"""The test bed itself: each covered database works, is shared with threads and children, and emptied."""

import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from django.contrib.auth.models import Group, Permission
from django.db import connections, transaction

from tests.support.suite import databases


def test_answers(alias):
    with connections[alias].cursor() as cursor:
        cursor.execute("SELECT 1")
        assert cursor.fetchone() == (1,)


def test_locks_rows_where_the_database_can(alias):
    Group.objects.using(alias).create(name="one")
    can_skip = connections[alias].features.has_select_for_update_skip_locked
    with transaction.atomic(alias):
        rows = Group.objects.using(alias).select_for_update(skip_locked=can_skip)
        assert [group.name for group in rows] == ["one"]


@pytest.mark.transactional
@pytest.mark.parametrize("turn", [1, 2])
def test_commits_and_is_emptied_again(alias, turn):
    assert not Group.objects.using(alias).exists()
    group = Group.objects.using(alias).create(name=f"turn {turn}")
    group.permissions.add(Permission.objects.using(alias).first())
    assert _in_thread(lambda: Group.objects.using(alias).get().name, alias) == f"turn {turn}"


@pytest.mark.transactional
@pytest.mark.parametrize("as_default", [False, True])
def test_child_processes_use_the_same_database(alias, as_default):
    Group.objects.using(alias).create(name="from the parent")
    theirs = "default" if as_default else alias
    code = (
        "import django; django.setup()\n"
        "from django.conf import settings\n"
        "from django.contrib.auth.models import Group\n"
        f"print(Group.objects.using({theirs!r}).get().name, settings.TIME_ZONE)\n"
    )
    env = databases.environment(alias if as_default else None, TIME_ZONE="Europe/Athens")
    child = subprocess.run(
        [sys.executable, "-c", code], env=env, capture_output=True, text=True, timeout=180, check=False
    )
    assert (child.stdout, child.stderr) == ("from the parent Europe/Athens\n", "")


def test_a_process_outside_a_test_run_starts_no_server():
    """Nor does it import pytest, which would take a tenth of an executor's start."""
    code = (
        "import django, sys; django.setup()\n"
        "from django.conf import settings\n"
        "print(settings.DATABASES['default']['NAME'], list(settings.DATABASES), 'pytest' in sys.modules)\n"
    )
    env = {name: text for name, text in os.environ.items() if not name.startswith("JOBEXEC_TEST_")}
    env |= {"DJANGO_SETTINGS_MODULE": "tests.settings", "PYTHONPATH": str(databases.ROOT)}
    child = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=False)
    assert (child.stdout, child.stderr) == (":memory: ['default'] False\n", "")


@pytest.mark.databases("postgresql", "mariadb")
def test_can_be_limited_to_some_databases(alias):
    assert alias in ("postgresql", "mariadb")


def _in_thread(function, alias):
    results = []

    def run():
        try:
            results.append(function())
        finally:
            connections[alias].close()

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    return results[0]


@pytest.mark.databases("mariadb")
def test_temporary_files_are_nobody_elses(alias):
    """A server that starts deletes those that it finds, also those of its neighbour."""
    with connections[alias].cursor() as cursor:
        cursor.execute("SELECT @@datadir, @@tmpdir")
        data, temporary = map(Path, cursor.fetchone())
    if not data.parent.name.startswith("jobexec-"):
        pytest.skip("the server is not ours")
    assert temporary.parent == data.parent
