"""The figures of a process definition are counted along indexes, up to a limit, whatever else is in the tables."""

from __future__ import annotations

from datetime import timedelta
from typing import Any
from uuid import uuid4

import pytest

from demo_project.benchmarks.bulk import multiply
from demo_project.benchmarks.cases.upkeep.backlog import analyze
from jobexec import clock
from jobexec.models import DeadLetterJob
from jobexec.operations.reports.counts import COUNT_LIMIT
from jobexec.processes.models import ActivityInstance, ProcessInstance
from jobexec.processes.operations import statistics
from jobexec.processes.operations.deploy import deploy
from tests.processes.support.bpmn import process

from .test_failures import explained, no_table_is_read_as_a_whole

pytest.importorskip("lxml")

# ANALYZE TABLE commits on MariaDB, so nothing here could be rolled back.
pytestmark = [pytest.mark.transactional, pytest.mark.nightly]

ROWS = 30_000
CONTENT = """
  <startEvent id="s"/><userTask id="approve"/><endEvent id="e"/>
  <sequenceFlow id="f1" sourceRef="s" targetRef="approve"/><sequenceFlow id="f2" sourceRef="approve" targetRef="e"/>
"""
INDEXES = {
    DeadLetterJob: "jobexec_deadletterjob_element",
    ActivityInstance: "jobexec_activity_element",
    ProcessInstance: "jobexec_procinst_def",
}


@pytest.fixture
def definition(alias: str) -> Any:
    (found,) = deploy(("p.bpmn", process(CONTENT)), using=alias)
    statistics.forget()
    yield found.pk
    statistics.forget()


def fill(alias: str, definition: str) -> None:
    """Rows of a definition, the latest of them of today."""
    start = clock.now() - timedelta(days=1)
    of = {"definition_id": definition, "start_time": start}
    for row in (
        DeadLetterJob(process_definition_id=definition, failed_activity_id="approve", handler_type="continue"),
        ActivityInstance(**of, instance_id=uuid4(), element_id="approve", end_time=start, state="completed"),
        ProcessInstance(**of, definition_key="p", root_id=uuid4()),
    ):
        row.save(using=alias, force_insert=True)
        multiply(row, ROWS)
    analyze(alias, *INDEXES)


@pytest.mark.every_database
def test_nothing_is_read_of_other_definitions(alias: str, definition: str) -> None:
    fill(alias, "other")
    found = explained(alias, lambda: look(alias, definition))
    for table, index in INDEXES.items():
        no_table_is_read_as_a_whole(alias, found, table)
        for sql, plan in found:
            assert index in plan or table._meta.db_table not in sql, f"{sql[:300]}\n{plan}"
    assert look(alias, definition) == ({}, {}, {definition: (0, 0)})


@pytest.mark.every_database
def test_counts_end(alias: str, definition: str) -> None:
    fill(alias, definition)
    runs, incidents, of_definitions = look(alias, definition)
    counts = [runs["approve"].count, incidents["approve"], *of_definitions[definition]]
    assert [(int(count), count.capped) for count in counts] == [(COUNT_LIMIT, True)] * 4


def look(alias: str, definition: str) -> tuple[Any, Any, Any]:
    return (
        statistics.runs(alias, definition),
        statistics.incidents(alias, definition),
        statistics.of_definitions(alias, [definition]),
    )
