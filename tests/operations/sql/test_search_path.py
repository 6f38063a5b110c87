"""A backend that sets the search path for each cursor, as that of django-tenants does."""

import pytest
from django.db import connections
from django.db.backends.base.base import BaseDatabaseWrapper

from jobexec.models import KeyBlock
from jobexec.operations.history.keys import BLOCK, next_keys
from jobexec.operations.settle.complete import complete_jobs
from jobexec.operations.sql.dialect import dialect
from tests.support.factories import a_run, acquire, make_job

pytestmark = [pytest.mark.databases("postgresql")]


@pytest.fixture
def schema(alias, monkeypatch):
    """A function that chooses the schema in the same way as django-tenants; `acme` has tables of jobs of its own."""
    connection, path = connections[alias], ["public"]
    with connection.cursor() as cursor:
        cursor.execute("CREATE SCHEMA acme")
        for table in ("job", "joblog", "keyblock", "message"):
            cursor.execute(f"CREATE TABLE acme.jobexec_{table} (LIKE public.jobexec_{table} INCLUDING ALL)")

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
