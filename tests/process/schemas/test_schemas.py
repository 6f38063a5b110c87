"""Executors of a project with a PostgreSQL schema for each tenant, as in "Serve tenants in their schemas"."""

import json
import subprocess
import sys

import pytest
from django.db import connections

from tests.support.machines import processes
from tests.support.waiting import TIMEOUT

pytest.importorskip("django_tenants")

pytestmark = [pytest.mark.transactional, pytest.mark.slow, pytest.mark.databases("postgresql")]

ORDERS = {"acme": [100, 101, 102, 150, 160], "bolt": [200, 201, 202, 250, 260]}


class Project:
    """The project in a database of its own; `schemas` answers a question about each tenant's schema."""

    def __init__(self, alias, jobs_in):
        self.alias, self.name = alias, f"{connections[alias].settings_dict['NAME']}_schemas"
        self.environment = processes.environment(alias)
        addresses = json.loads(self.environment["JOBEXEC_TEST_CONNECTIONS"])
        addresses["default"]["NAME"] = self.name
        self.environment = {
            "JOBEXEC_TEST_CONNECTIONS": json.dumps(addresses),
            "DJANGO_SETTINGS_MODULE": "tests.process.schemas.settings",
            "JOBS_IN": jobs_in,
        }

    def prepare(self):
        command = [sys.executable, "-W", "ignore", "-m", "tests.process.schemas", *ORDERS]
        environment = processes.environment(self.alias) | self.environment
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=TIMEOUT, check=False)
        assert done.returncode == 0, done.stderr

    def ask(self, question):
        """The rows of a question, as plain values."""
        params = {**connections[self.alias].get_connection_params(), "dbname": self.name}
        with connections[self.alias].Database.connect(**params) as connection:
            return [value for (value,) in connection.execute(question)]

    def of_each(self, question):
        return {schema: self.ask(question.format(schema=schema)) for schema in ORDERS}

    def orders(self):
        return self.of_each("SELECT number FROM {schema}.orders_order ORDER BY number")


@pytest.fixture
def project(alias, request):
    project = Project(alias, request.param)
    with connections[alias].cursor() as cursor:
        cursor.execute(f'CREATE DATABASE "{project.name}"')
        try:
            project.prepare()
            yield project
        finally:
            cursor.execute(f'DROP DATABASE "{project.name}" WITH (FORCE)')


@pytest.mark.parametrize("project", ["shared"], indirect=True)
def test_one_executor_runs_each_job_in_the_schema_of_its_tenant(project, run):
    executor = run("--until-empty", env=project.environment)
    assert executor.ended() == 0, executor.text
    assert project.orders() == ORDERS
    assert project.ask("SELECT count(*) FROM jobexec_job") == [0]
    assert project.ask("SELECT tenant_id FROM jobexec_deadletterjob ORDER BY tenant_id") == ["acme", "bolt"]


@pytest.mark.parametrize("project", ["tenant"], indirect=True)
@pytest.mark.nightly
def test_an_executor_of_one_schema_leaves_the_others_alone(project, run):
    jobs = "SELECT count(*) FROM {schema}.jobexec_job"
    executor = run("--until-empty", env={**project.environment, "EXECUTOR_SCHEMA": "acme"})
    assert executor.ended() == 0, executor.text
    assert project.orders() == {**ORDERS, "bolt": []}
    assert project.of_each(jobs) == {"acme": [0], "bolt": [5]}
    executor = run("--until-empty", env={**project.environment, "EXECUTOR_SCHEMA": "bolt"})
    assert executor.ended() == 0, executor.text
    assert project.orders() == ORDERS
    assert project.of_each("SELECT count(*) FROM {schema}.jobexec_deadletterjob") == {"acme": [1], "bolt": [1]}
