"""``manage.py import_tasks``: every waiting task of django-tasks-db becomes one job, whatever happens meanwhile."""

import base64
import io
import os
import sys
from datetime import UTC, datetime, timedelta
from importlib import import_module
from types import SimpleNamespace
from uuid import UUID

import pytest
from django.conf import settings as django_settings
from django.contrib.admin import site
from django.core.management import CommandError, call_command
from django.db import OperationalError, connections
from django.test import override_settings

from jobexec import clock
from jobexec.handlers import registry
from jobexec.management.import_tasks.source import StoredTask
from jobexec.models import BlockedJob, Job, TaskResult, TimerJob
from jobexec.testing import ManualExecutor
from tests.support.machines.killed import Killed, killed_at
from tests.support.suite import databases
from tests.support.threads import held, together

pytest.importorskip("django_tasks_db")

from jobexec.backends.compat import PACKAGE

MODULE = "tests.support.imported_tasks"
QUEUES = {"QUEUES": ["default", "emails"]}
NEVER = datetime(9999, 1, 1, tzinfo=UTC)
ENQUEUED = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.fixture(scope="module")
def stored_task(request, django_db_setup, django_db_blocker):
    """The model of django-tasks-db itself, with its table on every database that is tested."""
    tests = [item for item in request.session.items if "stored_task" in item.fixturenames]
    params = [item.callspec.params if hasattr(item, "callspec") else {} for item in tests]
    aliases = {each.get("alias", "default") for each in params} - {None}
    with override_settings(INSTALLED_APPS=[*django_settings.INSTALLED_APPS, "django_tasks_db"]):
        model = import_module("django_tasks_db.models").DBTaskResult
    if site.is_registered(model):  # by the admin of that package, which stays when its app has gone
        site.unregister(model)
    with django_db_blocker.unblock():
        for alias in aliases:
            with connections[alias].schema_editor() as editor:
                editor.create_model(model)
        yield model
        for alias in aliases:
            with connections[alias].schema_editor() as editor:
                editor.delete_model(model)


@pytest.fixture
def old(alias, settings, stored_task):
    """The rows of django-tasks-db on this database, and how to make one; jobexec is the backend now."""
    yield from switched(settings, stored_task, alias, alias)


def switched(settings, stored_task, alias, jobs_in):
    """A project whose rows of django-tasks-db are in one database, and whose jobs are in this or another one."""
    settings.JOBEXEC = {**settings.JOBEXEC, "ENGINES": {name: {} for name in connections}}
    settings.TASKS = {
        "default": {
            "BACKEND": "jobexec.backends.JobExecutorBackend",
            **QUEUES,
            "OPTIONS": {"DATABASE": jobs_in, "CATEGORIES": {"emails": "mail"}},
        },
    }
    rows = stored_task.objects.using(alias)

    def make(*args, **values):
        values = {"task_path": f"{MODULE}.remember", "run_after": NEVER, "backend_name": "default"} | values
        row = rows.create(args_kwargs={"args": list(args), "kwargs": values.pop("kwargs", {})}, **values)
        rows.filter(pk=row.pk).update(enqueued_at=values.get("enqueued_at", ENQUEUED))
        return row.pk

    sys.modules.pop(MODULE, None)
    with registry.isolated():
        module = import_module(MODULE)
        yield SimpleNamespace(rows=rows, make=make, alias=alias, jobs_in=jobs_in, ran=module.ran, module=module)
    del sys.modules[MODULE]


def import_tasks(old, **options):
    """What the command prints, and its exit code."""
    out = io.StringIO()
    try:
        call_command("import_tasks", source=old.alias, stdout=out, **options)
    except SystemExit as end:
        return out.getvalue(), end.code
    return out.getvalue(), 0


def jobs(old):
    """The ids of all jobs there are."""
    tables = (Job, TimerJob)
    return [pk for table in tables for pk in table.objects.using(old.jobs_in).values_list("pk", flat=True)]


def test_a_task_keeps_its_id_and_runs(old):
    id = old.make(21, kwargs={"double": True})
    context = old.make(task_path=f"{MODULE}.with_context")
    assert import_tasks(old) == ("2 tasks have become jobs.\n", 0)
    assert not old.rows.exists()
    result = old.module.remember.get_result(str(id))
    assert (result.status, result.args, result.kwargs) == ("READY", [21], {"double": True})
    assert (result.enqueued_at, result.task.run_after) == (ENQUEUED, None)
    ManualExecutor(old.alias).run_until_empty()
    result.refresh()
    assert result.return_value == 42
    assert set(old.ran) == {21, str(context)}


def test_priority_queue_and_time(old):
    later = clock.now() + timedelta(days=1)
    waits, urgent = old.make(1, run_after=later), old.make(2, priority=7, queue_name="emails")
    past = old.make(3, run_after=datetime(2026, 2, 1, tzinfo=UTC))
    import_tasks(old)
    timer = TimerJob.objects.using(old.alias).get(pk=waits)
    assert (timer.due_date, timer.task_backend, timer.create_time) == (later, "default", ENQUEUED)
    job = Job.objects.using(old.alias).get(pk=urgent)
    assert (job.priority, job.category) == (7, "mail")
    assert Job.objects.using(old.alias).filter(pk=past).exists()
    assert old.module.remember.get_result(str(urgent)).task.queue_name == "emails"
    assert old.module.remember.get_result(str(waits)).task.run_after == later


def test_tasks_keep_their_order(old):
    moments = {number: ENQUEUED + timedelta(seconds=second) for number, second in ((1, 3), (2, 1), (3, 2))}
    for number, moment in moments.items():
        old.make(number, enqueued_at=moment)
    old.make(4, priority=1, enqueued_at=ENQUEUED + timedelta(days=1))
    import_tasks(old)
    ManualExecutor(old.alias).run_until_empty()
    assert old.ran == [4, 2, 3, 1]


def test_what_cannot_come_stays_and_is_told(old, settings):
    old.make(1, status="RUNNING")
    kept = {
        old.make(task_path="shop.tasks.gone"): "this process does not know this task",
        old.make(task_path=f"{MODULE}.no_task"): "this process does not know this task",
        old.make(queue_name="nobody"): "Queue 'nobody' is not valid",
        old.make(): "missing a required argument: 'number'",
        old.make(1, backend_name="other"): "TASKS has no alias 'other'",
    }
    fine = old.make(1)
    out, code = import_tasks(old)
    assert code == 3
    assert "1 task has become a job." in out
    assert "1 is running and stays with its worker." in out
    for reason in kept.values():
        assert reason in out
    assert set(old.rows.filter(status="READY").values_list("pk", flat=True)) == set(kept)
    assert jobs(old) == [fine]


def test_a_category_that_there_is_not(old, settings):
    settings.JOBEXEC = {**settings.JOBEXEC, "CATEGORIES": ["default"]}
    old.make(1, queue_name="emails")
    out, code = import_tasks(old)
    assert code == 3
    assert "category: expected one of default" in out
    assert old.rows.count() == 1


def test_another_backend_for_all_of_them(old, settings):
    settings.TASKS = {
        "default": {"BACKEND": f"{PACKAGE}.backends.dummy.DummyBackend"},
        "ours": {"BACKEND": "jobexec.backends.JobExecutorBackend", "OPTIONS": {"DATABASE": old.alias}},
    }
    id = old.make(1)
    out, _ = import_tasks(old, dry_run=True)
    assert "TASKS['default'] is not a JobExecutorBackend" in out
    assert import_tasks(old, backend="ours") == ("1 task has become a job.\n", 0)
    assert Job.objects.using(old.alias).get(pk=id).task_backend == "ours"


def test_a_dry_run_moves_nothing(old):
    old.make(1)
    old.make(task_path="shop.tasks.gone")
    out, code = import_tasks(old, dry_run=True)
    assert out.startswith("Nothing is moved. Without --dry-run:\n1 task has become a job.\n")
    assert code == 3
    assert old.rows.count() == 2
    assert jobs(old) == []


def test_of_an_encrypted_task_nothing_is_moved_in_clear(old, settings):
    key = base64.urlsafe_b64encode(os.urandom(32)).decode()
    settings.JOBEXEC = {**settings.JOBEXEC, "ENCRYPTION_KEYS": {"k1": key}, "ENCRYPT_ARGUMENTS": True}
    times = {"started_at": ENQUEUED, "finished_at": clock.now()}
    good = old.make("secret", status="SUCCESSFUL", return_value="secret", **times)
    old.make("secret", status="FAILED", exception_class_path="builtins.ValueError", traceback="secret", **times)
    old.make("secret")
    assert import_tasks(old, results=True)[1] == 0
    stored = [*TaskResult.objects.using(old.alias).values(), *Job.objects.using(old.alias).values()]
    assert len(stored) == 3
    assert "secret" not in str(stored)
    assert old.module.remember.get_result(str(good)).return_value == "secret"


def test_pages_and_limits(old):
    ids = {old.make(number) for number in range(7)} | {old.make(7, queue_name="emails")}
    assert import_tasks(old, queue=["emails"])[0] == "1 task has become a job.\n"
    assert import_tasks(old, limit=3, batch_size=2)[0] == "3 tasks have become jobs.\n"
    assert old.rows.count() == 4
    old.make(task_path="shop.tasks.gone")
    assert import_tasks(old, batch_size=2)[0].startswith("4 tasks have become jobs.\n")
    assert set(jobs(old)) == ids
    assert import_tasks(old, batch_size=1)[0].startswith("0 tasks have become jobs.\n")


def test_results(old):
    ended = clock.now() - timedelta(hours=1)
    times = {"started_at": ENQUEUED, "finished_at": ended, "worker_ids": ["old worker"]}
    good = old.make(21, status="SUCCESSFUL", return_value=42, **times)
    bad = old.make(1, status="FAILED", exception_class_path="builtins.ValueError", traceback="Traceback ...", **times)
    ancient = old.make(1, status="SUCCESSFUL", **{**times, "finished_at": ended - timedelta(days=30)})
    assert import_tasks(old) == ("0 tasks have become jobs.\n", 0)
    assert import_tasks(old, results=True) == ("0 tasks have become jobs.\n2 results were moved.\n", 0)
    assert list(old.rows.values_list("pk", flat=True)) == [ancient]
    result = old.module.remember.get_result(str(good))
    assert (result.status, result.return_value, result.worker_ids) == ("SUCCESSFUL", 42, ["old worker"])
    assert (result.finished_at, result.enqueued_at, result.errors) == (ended, ENQUEUED, [])
    result = old.module.remember.get_result(str(bad))
    assert (result.status, result.errors[0].exception_class) == ("FAILED", ValueError)


def test_a_task_that_chooses_not_to_be_encrypted_is_not(old, settings):
    key = base64.urlsafe_b64encode(os.urandom(32)).decode()
    settings.JOBEXEC = {**settings.JOBEXEC, "ENCRYPTION_KEYS": {"k1": key}, "ENCRYPT_ARGUMENTS": True}
    old.make("open", task_path=f"{MODULE}.open_")
    import_tasks(old)
    assert Job.objects.using(old.alias).get().handler_configuration == {"args": ["open"], "kwargs": {}}


def test_a_resource_that_is_made_of_the_arguments(old, settings):
    settings.JOBEXEC = {**settings.JOBEXEC, "RESOURCES": {"api:*": {"limit": 1}}}
    path = f"{MODULE}.limited"
    waits, free = old.make("acme", task_path=path), old.make("", task_path=path)
    broken, unknown = old.make("broken", task_path=path), old.make("*", task_path=path)
    out, code = import_tasks(old)
    assert code == 3
    assert f"{path}: resource: KeyError: 'broken'" in out
    assert "resource: what <function _resource" in out
    assert set(old.rows.values_list("pk", flat=True)) == {broken, unknown}
    assert (BlockedJob.objects.using(old.alias).get(pk=waits).resource, jobs(old)) == ("api:acme", [free])
    old.rows.update(status="SUCCESSFUL", finished_at=clock.now())
    assert import_tasks(old, results=True) == ("0 tasks have become jobs.\n2 results were moved.\n", 0)


@pytest.mark.gate
def test_killed_before_any_statement_nothing_is_lost_or_doubled(old):
    ids = {old.make(number) for number in range(3)}
    kills, number, done = 0, 0, False
    while not done:
        number += 1
        try:
            with killed_at(old.alias, number):
                import_tasks(old, batch_size=2)
                done = True
        except Killed:
            kills += 1
            here, there = jobs(old), list(old.rows.values_list("pk", flat=True))
            assert sorted(here + there) == sorted(ids), f"after {number} statements"
            _back(old, here)  # the pages that came through; it is to be killed further on
    assert kills > 10
    assert sorted(jobs(old)) == sorted(ids)
    assert not old.rows.exists()


def _back(old, ids: list[UUID]) -> None:
    for job in Job.objects.using(old.alias).filter(pk__in=ids):
        old.make(*job.handler_configuration["args"], id=job.pk)
        job.delete()


def test_what_has_come_already_is_only_deleted(old):
    """As after a crash where the jobs are in another database than the rows."""
    came, over = old.make(1), old.make(2)
    Job.objects.using(old.alias).create(pk=came, handler_type=f"{MODULE}.remember", task_backend="default")
    result = {"backend": "default", "status": "SUCCESSFUL", "create_time": ENQUEUED}
    TaskResult.objects.using(old.alias).create(pk=over, handler_type=f"{MODULE}.remember", **result)
    assert import_tasks(old) == ("0 tasks have become jobs.\n2 already existed.\n", 0)
    assert not old.rows.exists()
    assert jobs(old) == [came]


@pytest.fixture
def apart(settings, stored_task):
    """The rows are on SQLite, the jobs on PostgreSQL."""
    yield from switched(settings, stored_task, "default", "postgresql")


@pytest.mark.skipif("postgresql" not in databases.covered, reason="needs two databases")
@pytest.mark.django_db(databases=["default", "postgresql"], transaction=True)
@pytest.mark.parametrize("lost_in", ["default", "postgresql"])
def test_a_commit_is_lost_where_the_jobs_are_in_another_database(apart, lost_in, monkeypatch):
    ids = {apart.make(number) for number in range(2)}

    def away():
        raise OperationalError("the database is gone")  # so what is not committed is rolled back

    try:
        with monkeypatch.context() as patch, pytest.raises(CommandError, match="is gone"):
            patch.setattr(connections[lost_in], "_commit", away)
            import_tasks(apart)
        assert set(apart.rows.values_list("pk", flat=True)) == ids
        # The jobs are committed first: better there twice than nowhere.
        assert set(jobs(apart)) == (ids if lost_in == "default" else set())
        out = import_tasks(apart)[0]
        assert ("2 already existed." in out) == (lost_in == "default")
        assert set(jobs(apart)) == ids
        assert not apart.rows.exists()
    finally:
        apart.rows.all().delete()


@pytest.mark.transactional
def test_two_at_the_same_time(old):
    ids = [old.make(number) for number in range(20)]
    try:
        together(old.alias, *[lambda: _tolerant(old)] * 2)
        import_tasks(old)
        assert sorted(jobs(old)) == sorted(ids)
        assert not old.rows.exists()
    finally:
        old.rows.all().delete()


def _tolerant(old):
    try:
        import_tasks(old, batch_size=3)
    except CommandError as error:  # SQLite: the other one holds the database
        assert "locked" in str(error) or "changed" in str(error)


@pytest.mark.transactional
@pytest.mark.databases("postgresql", "mariadb")
def test_a_row_that_a_worker_claims_is_the_workers(old):
    claimed, free = old.make(1), old.make(2)
    try:
        with held(old.alias) as inside:
            inside(lambda: old.rows.select_for_update().get(pk=claimed).claim("old worker"))
            assert import_tasks(old)[0].startswith("1 task has become a job.\n")
        assert jobs(old) == [free]
        assert old.rows.get().status == "RUNNING"
        assert import_tasks(old) == ("0 tasks have become jobs.\n1 is running and stays with its worker.\n", 3)
    finally:
        old.rows.all().delete()


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ("nowhere", "no table nowhere of django-tasks-db. Name the right database with --source"),
        (TaskResult._meta.db_table, "lacks the columns args_kwargs, .*: migrate it to django-tasks-db 0.12"),
    ],
)
def test_without_the_table(alias, monkeypatch, table, message):
    monkeypatch.setattr(StoredTask._meta, "db_table", table)
    with pytest.raises(CommandError, match=message) as error:
        call_command("import_tasks", source=alias)
    assert error.value.returncode == 1


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"source": "nobody"}, "there is no database 'nobody'"),
        ({"limit": 0}, "--limit: expected a number of at least 1"),
        ({"batch_size": 0}, "--batch-size: expected a number of at least 1"),
    ],
)
def test_wrong_usage(options, message):
    with pytest.raises(CommandError, match=message) as error:
        call_command("import_tasks", **options)
    assert error.value.returncode == 2
