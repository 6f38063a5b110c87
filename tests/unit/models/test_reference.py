"""The reference of the tables names every column."""

import re

import pytest
from django.apps import apps

from jobexec.models import JOB_TABLES, SHARED_COLUMNS, JobLog
from tests.support.suite.databases import ROOT

TEXT = (ROOT / "docs/reference/models.md").read_text()
COLUMN = re.compile(r"`(\w+)`")
IN_TABLES = {name for line in TEXT.splitlines() if line.startswith("|") for name in COLUMN.findall(line)}


def test_every_column_of_jobs_is_explained():
    assert set(SHARED_COLUMNS) <= IN_TABLES


@pytest.mark.parametrize("table", JOB_TABLES)
def test_so_are_those_that_a_table_has_alone(table):
    assert {field.name for field in table._meta.fields} <= IN_TABLES


def test_so_are_those_of_the_log():
    assert {field.name for field in JobLog._meta.fields} - {"id"} <= IN_TABLES


@pytest.mark.parametrize("app", ["jobexec", "jobexec_processes"])
def test_every_table_is_explained(app):
    assert {model.__name__ for model in apps.get_app_config(app).get_models()} <= IN_TABLES


def in_the_table_of(name):
    """The first cells of the rows below the head of a table that is about one model."""
    _, _, rest = TEXT.partition(f"| column of `{name}` |")
    return {found for line in rest.partition("\n\n")[0].splitlines() for found in COLUMN.findall(line.split("|")[1])}


@pytest.mark.parametrize("table", [*apps.get_app_config("jobexec_processes").get_models()])
def test_every_column_of_processes_is_explained_in_the_table_of_its_model(table):
    columns = {field.name for field in table._meta.fields} - {"id", "tenant_id"}
    assert in_the_table_of(table.__name__) - {"id"} == columns
