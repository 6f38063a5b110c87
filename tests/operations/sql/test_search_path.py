"""A backend that sets the search path for each cursor, as that of django-tenants does."""

from datetime import timedelta
from uuid import uuid4

import pytest
from django.db import connections
from django.db.backends.base.base import BaseDatabaseWrapper

from jobexec import clock
from jobexec.exceptions import TooManyMessages, Unauthenticated
from jobexec.gateways import auth
from jobexec.metrics import JobExecCollector
from jobexec.models import GatewayClient, Job, JobLog, KeyBlock, Message, MeterLog
from jobexec.operations.history.keys import BLOCK, next_keys
from jobexec.operations.manage.gateway_clients import create_client
from jobexec.operations.messages.publish import publish_message
from jobexec.operations.reports import meters
from jobexec.operations.settle.complete import complete_jobs
from jobexec.operations.sql.dialect import dialect
from jobexec.processes.models import Execution
from jobexec.processes.operations import statistics
from tests.support.factories import a_run, acquire, make_job

pytestmark = [pytest.mark.databases("postgresql")]


@pytest.fixture
def schema(alias, monkeypatch):
    """A function that chooses the schema in the same way as django-tenants; `acme` has tables of jobs of its own."""
    connection, path = connections[alias], ["public"]
    with connection.cursor() as cursor:
        cursor.execute("CREATE SCHEMA acme")
        for table in (
            model._meta.db_table for model in (Execution, GatewayClient, Job, JobLog, KeyBlock, Message, MeterLog)
        ):
            cursor.execute(f"CREATE TABLE acme.{table} (LIKE public.{table} INCLUDING ALL)")

    def own(self, name=None):
        cursor = BaseDatabaseWrapper._cursor(self, name)
        cursor.execute(f"SET search_path = {', '.join(path)}")
        return cursor

    monkeypatch.setattr(type(connection), "_cursor", own, raising=False)

    def choose(*names):
        path[:] = names

    return choose


def test_it_holds_for_the_fast_cursor(alias, schema):
    for names in (("acme", "public"), ("public",)):
        schema(*names)
        with dialect(alias).cursor(connections[alias]) as cursor:
            cursor.execute("SHOW search_path")
            assert cursor.fetchall() == [(", ".join(names),)]


def test_jobs_are_acquired_and_completed_in_the_schema(alias, schema):
    make_job(alias)
    schema("acme", "public")
    assert acquire(alias) == []
    job = make_job(alias)
    (work,) = acquire(alias)
    assert work.id == job.pk
    assert complete_jobs(alias, [(work, a_run(alias))]) == {job.pk}
    schema("public")
    (other,) = acquire(alias)
    assert other.id != job.pk


def test_keys_are_of_the_blocks_of_the_schema(alias, schema):
    for names in (("public",), ("acme", "public"), ("public",)):
        schema(*names)
        of = {key // BLOCK for key in next_keys(alias, 2)}
        assert list(KeyBlock.objects.using(alias).values_list("pk", flat=True)) == sorted(of)  # and no other was taken


def test_only_a_backend_that_chooses_a_schema_is_asked(alias, django_assert_num_queries):
    next_keys(alias, 1)
    with django_assert_num_queries(0, using=alias):
        next_keys(alias, 1)


def test_a_client_of_one_schema_is_none_of_another(alias, schema, settings):
    settings.JOBEXEC = {"ENGINES": {alias: {}}, "GATEWAY_DATABASE": alias}
    schema("acme", "public")
    header = f"Bearer {create_client(alias, name='acme')[1]}"
    client = auth.authenticate(header)
    assert auth.authenticate(header) is client
    schema("public")
    with pytest.raises(Unauthenticated):
        auth.authenticate(header)
    other = f"Bearer {create_client(alias, name='bolt', permissions=['search'])[1]}"
    GatewayClient.objects.using(alias).filter(name="bolt").update(id=int(client.key.split(":")[1]))
    assert auth.authenticate(other).key != client.key
    schema("acme", "public")
    assert auth.authenticate(header) is client  # though it was refused in another schema
    # An event loop cannot ask whose clients are meant.
    assert auth.known(header) is None
    assert not auth.was_known(header) and not auth.is_refused(header)


def test_one_schema_may_be_full_of_messages(alias, schema, settings, frozen):
    settings.JOBEXEC = {"ENGINES": {alias: {}}, "MESSAGE_MAX_KEPT": 1}

    def publish():
        publish_message("paid", key="4711", ttl="PT1H", using=alias)

    publish()
    frozen.tick(timedelta(seconds=10))  # it counts again
    with pytest.raises(TooManyMessages):
        publish()
    schema("acme", "public")
    publish()


def test_figures_of_a_definition_are_of_the_schema(alias, schema):
    now = clock.now(alias)
    id = {name: uuid4() for name in ("root_id", "instance_id", "parent_id")}
    Execution.objects.using(alias).create(**id, definition_id="flow", element_id="pay", state="waiting", entered_at=now)
    assert statistics.tokens(alias, "flow") == {"pay": 1}
    schema("acme", "public")
    assert statistics.tokens(alias, "flow") == {}


def test_sums_of_meters_are_of_the_schema(alias, schema, frozen):
    collector = JobExecCollector([alias])

    def total():
        (found,) = [each for each in collector.collect() if each.name == "jobexec_jobs_successful"]
        return sum(sample.value for sample in found.samples)

    meters.flush_meters(alias, "one", {(meters.JOB_SUCCESSFUL, "a"): 3}, clock.now(alias) - timedelta(hours=5))
    assert total() == 3
    schema("acme", "public")
    assert total() == 0
