"""A job by its id, in whichever table."""

from uuid import UUID

import pytest
from django.db import connections
from django.test.utils import CaptureQueriesContext

from jobexec.exceptions import JobNotFound
from jobexec.identifiers import uuid7
from jobexec.models import JOB_TABLES
from jobexec.operations import find_job, find_states
from tests.support.factories import make_row

pytestmark = pytest.mark.every_database

NOBODY = UUID("01a1ff0d-1cec-75a7-b672-3d5db566955b")


@pytest.mark.parametrize("table", JOB_TABLES)
def test_finds_a_job_in_every_table(alias, table):
    for other in JOB_TABLES:
        make_row(other, alias)
    row = make_row(table, alias)
    for id in (row.pk, str(row.pk), row.pk.hex):
        found = find_job(id, alias)
        assert (type(found), found.pk, found._state.db) == (table, row.pk, alias)


def test_finds_the_tables_of_many_in_one_statement(alias):
    rows = {make_row(table, alias).pk: table for table in JOB_TABLES}
    with CaptureQueriesContext(
        connections[alias],
    ) as queries:
        assert find_states([*rows, uuid7()], alias) == rows
    assert len(queries) == 1
    assert find_states([], alias) == {}


def test_very_many_need_several_statements(alias, monkeypatch):
    monkeypatch.setattr("jobexec.operations.targets.lookup._PAGE", 3)
    rows = {make_row(table, alias).pk: table for table in JOB_TABLES}
    with CaptureQueriesContext(connections[alias]) as queries:
        assert find_states([*rows, uuid7()], alias) == rows
    assert len(queries) == -(-(len(rows) + 1) // 3)


@pytest.mark.parametrize("id", [NOBODY, str(NOBODY), "", "no id", "'; DROP TABLE jobexec_job"])
def test_says_that_there_is_no_such_job(alias, id):
    with pytest.raises(JobNotFound, match="There is no job"):
        find_job(id, alias)
