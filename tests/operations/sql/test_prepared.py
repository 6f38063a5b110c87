"""The plans of statements that a loop executes often are kept: on a connection that has a server process for itself."""

import pytest
from django.db import OperationalError, connections

from jobexec.models import Job
from jobexec.operations.sql import postgresql
from jobexec.operations.sql.dialect import dialect, keep_plans
from jobexec.operations.sql.errors import is_conflict
from jobexec.runtime.connections import refresh_connections
from tests.support.factories import acquire, make_job

pytestmark = [pytest.mark.transactional, pytest.mark.databases("postgresql")]


@pytest.fixture
def execute(alias):
    """A function that executes a statement some times, and returns the last answer and which plans are kept."""

    def execute(statement, *parameters, prepared=True, times=2):
        for _ in range(times):
            with dialect(alias).cursor(connections[alias], prepared=prepared) as cursor:
                cursor.execute(statement, parameters)
                answer = cursor.fetchall()
        return answer, plans(alias)

    connections[alias].close()  # it may keep plans of another test
    yield execute
    connections[alias].close()


def plans(alias):
    with connections[alias].cursor() as cursor:
        cursor.execute("SELECT statement FROM pg_prepared_statements")
        return [text for (text,) in cursor.fetchall()]


def test_the_plan_of_what_is_executed_again_is_kept(alias, execute):
    keep_plans(alias)
    assert execute("SELECT %s::int", 1, times=1) == ([(1,)], [])
    keep_plans(alias)
    assert execute("SELECT %s::int", 2, times=1) == ([(2,)], ["SELECT $1::int"])


def test_nothing_else_is_prepared(alias, execute):
    assert execute("SELECT %s::int", 1) == ([(1,)], [])  # the connection of a handler, or of a request
    keep_plans(alias)
    assert execute("SELECT %s::int", 1, prepared=False) == ([(1,)], [])
    assert connections[alias].connection.prepare_threshold is None


def test_nothing_is_prepared_behind_a_pooler(alias, execute, monkeypatch):
    monkeypatch.setattr(postgresql.PostgreSQL, "is_behind_pooler", lambda self, driver: True)
    keep_plans(alias)
    assert execute("SELECT %s::int", 1) == ([(1,)], [])
    assert setting(alias, "enable_seqscan") == "on"


@pytest.mark.parametrize("place", ["the look for a pooler", "the settings"])
def test_a_connection_that_breaks_there_is_replaced(alias, execute, monkeypatch, place):
    """The thread of a loop: it would keep the broken connection, and never acquire or settle a job again."""
    if place == "the settings":
        monkeypatch.setattr(postgresql.PostgreSQL, "is_behind_pooler", lambda self, driver: False)
    connections[alias].ensure_connection()
    other = connections[alias].copy()
    with other.cursor() as cursor:
        pid = connections[alias].connection.info.backend_pid
        cursor.execute("SELECT pg_terminate_backend(%s, 10000)", [pid])
    other.close()
    with pytest.raises(OperationalError):
        keep_plans(alias)
    refresh_connections()
    keep_plans(alias)
    assert execute("SELECT %s::int", 1) == ([(1,)], ["SELECT $1::int"])


def setting(alias, name):
    with connections[alias].cursor() as cursor:
        cursor.execute(f"SHOW {name}")
        return cursor.fetchone()[0]


def test_a_plan_that_a_migration_has_made_useless_is_a_conflict_and_given_up(alias, execute):
    keep_plans(alias)
    with connections[alias].cursor() as cursor:
        cursor.execute("CREATE TEMPORARY TABLE changing AS SELECT 1 AS number")
        execute("SELECT * FROM changing")
        cursor.execute("ALTER TABLE changing ALTER number TYPE bigint")
    with pytest.raises(OperationalError, match="out of date") as caught:
        execute("SELECT * FROM changing")
    assert is_conflict(caught.value)
    assert execute("SELECT * FROM changing")[0] == [(1,)]


def test_a_pooler_that_looks_like_a_server_costs_one_conflict(alias, execute):
    keep_plans(alias)
    execute("SELECT %s::int", 1)
    with connections[alias].cursor() as cursor:
        cursor.execute("DEALLOCATE ALL")  # as another server process, which knows none of them
    with pytest.raises(OperationalError, match="out of date"):
        execute("SELECT %s::int", 1)
    keep_plans(alias)
    assert execute("SELECT %s::int", 2) == ([(2,)], [])


@pytest.mark.parametrize("beginning", ["UPDATE", "SELECT EXISTS"])
def test_a_plan_that_was_made_for_an_empty_table_finds_its_rows_by_the_index(alias, beginning):
    """That which locks a page, and that which sees whether there is a job."""
    keep_plans(alias)
    for _ in range(8):  # after five executions the server makes a plan that is good for all parameters
        assert acquire(alias, limit=1) == []
    (text,) = [each for each in plans(alias) if each.strip().startswith(beginning)]
    ids = [make_job(alias).pk for _ in range(9)]
    assert [acquire(alias, limit=1)[0].id for _ in range(9)] == ids
    with connections[alias].cursor() as cursor:
        cursor.execute(f"ANALYZE {Job._meta.db_table}")  # as the server does by itself
    assert acquire(alias, limit=1) == []
    with connections[alias].cursor() as cursor:
        cursor.execute("SELECT custom_plans FROM pg_prepared_statements WHERE statement = %s", [text])
        assert cursor.fetchone() == (0,), "it is planned once"
        cursor.execute("SELECT name, parameter_types::text[] FROM pg_prepared_statements WHERE statement = %s", [text])
        name, types = cursor.fetchone()
        values = ", ".join(["NULL"] * len(types))
        cursor.execute(f"EXPLAIN EXECUTE {name}({values})")
        plan = "\n".join(line for (line,) in cursor.fetchall())
    assert "jobexec_job_acquisition" in plan
    assert setting(alias, "jit") == "off", "a sequential scan that cannot be avoided would seem expensive enough"
    assert f"Seq Scan on {Job._meta.db_table}" not in plan
    assert "Sort" not in plan
