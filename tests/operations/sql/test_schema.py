"""Migrations and indexes on every vendor."""

from datetime import timedelta

import pytest
from django.apps import apps
from django.core.management import call_command
from django.db import connections
from django.db.migrations.autodetector import MigrationAutodetector
from django.db.migrations.executor import MigrationExecutor
from django.db.migrations.loader import MigrationLoader
from django.db.migrations.state import ProjectState
from django.test.utils import CaptureQueriesContext

from jobexec import clock
from jobexec.identifiers import uuid7
from jobexec.models import DeadLetterJob, ExclusiveLock, Incident, Job, JobKey, JobLog, SuspendedJob, TimerJob
from jobexec.models.base import PartialIndex
from jobexec.models.fields import NameField
from jobexec.models.locks import serial_key
from jobexec.operations.history.incidents import open_breaker_incident, open_incidents
from jobexec.operations.rows.exclusive import lock_instances, unlock_instances
from tests.support.factories import make_job, make_row

pytestmark = [pytest.mark.slow, pytest.mark.every_database]

INSTANCE = ("jobexec_job_instance", "jobexec_timerjob_instance", "jobexec_suspendedjob_instance")


def test_no_migration_is_missing():
    loader = MigrationLoader(None)
    current = ProjectState.from_apps(apps)
    changes = MigrationAutodetector(loader.project_state(), current).changes(graph=loader.graph)
    assert not {"jobexec", "jobexec_processes"}.intersection(changes)


@pytest.mark.databases("mariadb")
def test_names_and_ids_are_compared_exactly(alias):
    models = [*apps.get_app_config("jobexec").get_models(), *apps.get_app_config("jobexec_processes").get_models()]
    for model in models:
        with connections[alias].cursor() as cursor:
            found = connections[alias].introspection.get_table_description(cursor, model._meta.db_table)
        collations = {column.name: column.collation for column in found}
        for field in model._meta.concrete_fields:
            if isinstance(field, NameField):
                assert collations[field.column] == "utf8mb4_bin", field


@pytest.mark.parametrize("model", [Job, TimerJob, SuspendedJob, DeadLetterJob, JobLog])
def test_every_index_exists(alias, model):
    with connections[alias].cursor() as cursor:
        found = connections[alias].introspection.get_constraints(cursor, model._meta.db_table)
    for index in model._meta.indexes:
        assert found[index.name]["index"]
        assert found[index.name]["columns"] == [model._meta.get_field(name).column for name in index.fields]


def test_no_index_of_the_executable_jobs_holds_a_lock_column(alias):
    with connections[alias].cursor() as cursor:
        found = connections[alias].introspection.get_constraints(cursor, Job._meta.db_table)
    indexed = {column for index in found.values() if index["index"] or index["unique"] for column in index["columns"]}
    assert indexed == {"id", "category", "deployment_id", "rank", "process_instance_id", "resource", "batch_id"}


@pytest.mark.databases("postgresql")
@pytest.mark.parametrize("name", INSTANCE)
def test_the_index_of_process_instances_is_partial_where_it_can_be(alias, name):
    with connections[alias].cursor() as cursor:
        cursor.execute("SELECT indexdef FROM pg_indexes WHERE indexname = %s", [name])
        definition = cursor.fetchone()[0]
    assert "process_instance_id" in definition.split(" WHERE ")[1]


@pytest.fixture
def plans(alias, monkeypatch):
    """The plans of all statements on job tables that a function sends."""

    def explain(function):
        with CaptureQueriesContext(connections[alias]) as queries:
            function()
        found = []
        with connections[alias].cursor() as cursor:
            if alias == "postgresql":
                cursor.execute("SET LOCAL enable_seqscan = off")
            for query in queries:
                sql = query["sql"].strip()
                if sql.startswith(("SELECT", "DELETE")) and "jobexec_job" in sql:
                    cursor.execute(connections[alias].ops.explain_query_prefix() + " " + sql)
                    found.append("\n".join(str(row) for row in cursor.fetchall()))
        return found

    return explain


@pytest.mark.databases("sqlite", "postgresql")
def test_the_siblings_of_a_process_instance_are_found_by_their_index(alias, plans):
    lock_instances(alias, "one", ["p", "q"])
    make_job(alias, process_instance_id="p")
    seen = plans(lambda: unlock_instances(alias, "one", ["p", "q"]))
    assert seen
    for plan in [*seen, *plans(lambda: list(Job.objects.using(alias).filter(process_instance_id="p")))]:
        assert "jobexec_job_instance" in plan, plan


def test_a_partial_index_can_be_migrated():
    from django.db.models import Q

    index = PartialIndex(name="x", fields=["tenant_id"], where=~Q(tenant_id=""))
    path, args, kwargs = index.deconstruct()
    assert path == "jobexec.models.base.PartialIndex"
    assert PartialIndex(*args, **kwargs) == index
    assert PartialIndex(name="x", fields=["tenant_id"], where=Q(tenant_id="a")) != index
    assert index.clone().where == index.where
    assert index.condition is None, "else Django leaves it out on MariaDB, and warns"


@pytest.mark.databases("postgresql")
@pytest.mark.parametrize("table", ["jobexec_job", "jobexec_processes_execution"])
def test_half_of_each_page_is_left_free(alias, table):
    with connections[alias].cursor() as cursor:
        cursor.execute("SELECT reloptions FROM pg_class WHERE relname = %s", [table])
        options = cursor.fetchone()[0]
    assert "fillfactor=50" in options and "autovacuum_vacuum_scale_factor=0.01" in options


@pytest.mark.nightly
@pytest.mark.transactional
def test_backwards_and_forwards(alias):
    try:
        call_command("migrate", "jobexec", "zero", database=alias, verbosity=0)
        left = [name for name in connections[alias].introspection.table_names() if name.startswith("jobexec_")]
        assert not [name for name in left if not name.startswith("jobexec_processes_")]  # those are of another app
        call_command("migrate", "jobexec", "0001", database=alias, verbosity=0)
    finally:
        call_command("migrate", "jobexec", database=alias, verbosity=0)
    executor = MigrationExecutor(connections[alias])
    assert not executor.migration_plan(executor.loader.graph.leaf_nodes("jobexec"))
    make_job(alias)
    call_command("migrate", "jobexec", "0001", database=alias, verbosity=0)
    call_command("migrate", "jobexec", database=alias, verbosity=0)
    assert Job.objects.using(alias).count() == 1


@pytest.mark.transactional
@pytest.mark.every_database
def test_keys_get_the_tenants_of_their_jobs(alias):
    call_command("migrate", "jobexec", "0006", database=alias, verbosity=0)
    try:
        before = MigrationExecutor(connections[alias]).loader.project_state(("jobexec", "0006_external")).apps
        keys, jobs, timers = (
            before.get_model("jobexec", name).objects.using(alias) for name in ("JobKey", "Job", "TimerJob")
        )
        later = clock.now() + timedelta(hours=1)
        done = JobLog(job_id=uuid7(), tenant_id="acme", state="successful", timestamp=clock.now())
        done.save(using=alias)
        for key, job_id in (
            ("runs", jobs.create(handler_type="pay", tenant_id="acme").pk),
            ("waits", timers.create(handler_type="pay", tenant_id="globex", due_date=later).pk),
            ("of nobody", jobs.create(handler_type="pay").pk),
            ("over", done.job_id),
        ):
            keys.create(handler_type="pay", key=key, job_id=job_id, expiration_time=later)
        ExclusiveLock.objects.using(alias).create(process_instance_id="17", lock_owner="old", acquisition=uuid7())
    finally:
        call_command("migrate", "jobexec", database=alias, verbosity=0)
    tenants = dict(JobKey.objects.using(alias).values_list("key", "tenant_id"))
    assert tenants == {"runs": "acme", "waits": "globex", "of nobody": "", "over": "acme"}
    assert ExclusiveLock.objects.using(alias).get().instance == "17"


@pytest.mark.nightly
@pytest.mark.transactional
@pytest.mark.every_database
def test_back_to_the_release_without_tenants(alias):
    for tenant in ("", "acme", "globex"):
        JobKey.objects.using(alias).create(handler_type="pay", tenant_id=tenant, key="17", job_id=uuid7())
        lock_instances(alias, "new", [serial_key(tenant, "17")])
    try:
        call_command("migrate", "jobexec", "0006", database=alias, verbosity=0)
        before = MigrationExecutor(connections[alias]).loader.project_state(("jobexec", "0006_external")).apps
        assert before.get_model("jobexec", "JobKey").objects.using(alias).count() == 1
        assert before.get_model("jobexec", "ExclusiveLock").objects.using(alias).get().pk == "17"
    finally:
        call_command("migrate", "jobexec", database=alias, verbosity=0)


@pytest.mark.transactional
def test_the_way_back_deletes_incidents_without_a_job(alias):
    open_breaker_incident(alias, "crm", "12 of 20 calls failed")
    job = make_row(DeadLetterJob, alias, retries=0)
    open_incidents(alias, [job])
    try:
        call_command("migrate", "jobexec", "0018", database=alias, verbosity=0)
    finally:
        call_command("migrate", "jobexec", database=alias, verbosity=0)
    assert Incident.objects.using(alias).get().job_id == job.pk
