"""The reference of the tables names every column."""

import re

import pytest
from django.apps import apps

from jobexec.models import JOB_TABLES, SHARED_COLUMNS, JobLog
from tests.support.suite.databases import ROOT

TEXT = (ROOT / "docs/reference/models.md").read_text()
IN_TABLES = {name for line in TEXT.splitlines() if line.startswith("|") for name in re.findall(r"`(\w+)`", line)}


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
