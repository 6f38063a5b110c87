"""The checks before an executor starts."""

import pytest
from django.db import connections
from django.db.migrations.recorder import MigrationRecorder

from jobexec.conf import get_settings
from jobexec.exceptions import NodeRefused
from jobexec.executor.process import preflight
from jobexec.executor.process.preflight import check_migrations, process_count, usable_cores


@pytest.fixture
def graphs(monkeypatch):
    """The graphs of migrations that Django has loaded, which imports the migrations of all apps."""
    loaded = []

    class Counted(preflight.MigrationExecutor):
        def __init__(self, connection):
            loaded.append(connection.alias)
            super().__init__(connection)

    monkeypatch.setattr(preflight, "MigrationExecutor", Counted)
    return loaded


def test_migrations_that_are_all_recorded_are_not_loaded(alias, graphs):
    check_migrations(alias)
    assert graphs == []


def test_one_that_is_not_recorded_is_named(alias, graphs):
    MigrationRecorder(connections[alias]).record_unapplied("jobexec", "0023_exact_ids")
    with pytest.raises(NodeRefused, match=r"lacks migrations of jobexec \(0023_exact_ids\)"):
        check_migrations(alias)
    assert graphs == [alias]


def test_those_that_one_stands_for_are_enough(alias, tmp_path, monkeypatch, settings):
    """A squashed migration is recorded only by the next migrate."""
    package = tmp_path / "squashed_migrations"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "0001_squashed.py").write_text(
        "from django.db.migrations import Migration as Base\n"
        "class Migration(Base):\n"
        "    initial = True\n"
        '    replaces = [("jobexec", "0001_initial"), ("jobexec", "0002_storage")]\n'
    )
    monkeypatch.syspath_prepend(tmp_path)
    settings.MIGRATION_MODULES = {"jobexec": "squashed_migrations"}
    check_migrations(alias)
    for name in ("0001_initial", "0002_storage"):
        MigrationRecorder(connections[alias]).record_unapplied("jobexec", name)
    with pytest.raises(NodeRefused, match="0001_squashed"):
        check_migrations(alias)


def test_an_app_without_migrations_lacks_none(alias, settings):
    settings.MIGRATION_MODULES = {"jobexec": None}
    check_migrations(alias)


@pytest.mark.parametrize(
    ("files", "cores"),
    [
        ({}, 4),
        ({"cpu.max": "max 100000\n"}, 4),
        ({"cpu.max": "200000 100000\n"}, 2),
        ({"cpu.max": "250000 100000\n"}, 2),
        ({"cpu.max": "50000 100000\n"}, 1),
        ({"cpu.max": "900000 100000\n"}, 4),
        ({"cpu.max": "\n"}, 4),
        ({"cpu/cpu.cfs_quota_us": "-1\n", "cpu/cpu.cfs_period_us": "100000\n"}, 4),
        ({"cpu/cpu.cfs_quota_us": "300000\n", "cpu/cpu.cfs_period_us": "100000\n"}, 3),
    ],
)
def test_a_container_has_the_processors_of_its_quota(tmp_path, monkeypatch, files, cores):
    monkeypatch.setattr(preflight.os, "sched_getaffinity", lambda pid: {0, 1, 2, 3})
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    assert usable_cores(tmp_path) == cores


@pytest.mark.databases("sqlite", "postgresql")
def test_auto_is_a_process_for_each_processor_where_several_may_serve(alias, monkeypatch, settings):
    monkeypatch.setattr(preflight, "usable_cores", lambda: 3)
    settings.JOBEXEC = {"ENGINES": {alias: {}}}
    assert process_count(get_settings(), "auto") == (1 if alias == "default" else 3)
