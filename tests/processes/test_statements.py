"""How many statements a step sends."""

import pytest
from django.db import connections
from django.test.utils import CaptureQueriesContext

from jobexec import job
from jobexec.processes.definition import Flow, JobOptions, Kind, Node, Process, Work
from jobexec.processes.flows.canvas import chain
from jobexec.processes.handlers.registry import service_task
from jobexec.processes.operations.flows import start_flow
from jobexec.testing import ManualExecutor

pytestmark = [pytest.mark.transactional, pytest.mark.databases("postgresql")]


@pytest.fixture(autouse=True)
def engines(settings):
    settings.JOBEXEC = {"ENGINES": {name: {"NOTIFY": False} for name in connections}}


@service_task("tests.statements.inside")
def inside(context):
    return None


@job(name="tests.statements.outside")
def outside():
    return None


def statements_of_a_run(alias):
    """From the beginning of the run of the next job to its end, with BEGIN and COMMIT."""
    executor = ManualExecutor(alias)
    (acquired,) = executor.acquire(1)
    with CaptureQueriesContext(connections[alias]) as captured:
        executor.run_acquired([acquired], [])
    found = [query["sql"].strip() for query in captured.captured_queries]
    first = found.index("BEGIN") if "BEGIN" in found else 0
    return found[first : found.index("COMMIT", first) + 1 if "COMMIT" in found else None], found


def shape(statements):
    return [" ".join(statement.split())[:150] for statement in statements]


def test_a_step_with_its_task_and_the_end_of_its_job(alias):
    work, jobs = Work(handler="tests.statements.inside"), JobOptions(before=True)
    tasks = [Node(name, Kind.SERVICE_TASK, work=work, jobs=jobs) for name in "abc"]
    pairs = (("s", "a"), ("a", "b"), ("b", "c"))
    model = Process("s", (Node("s", Kind.START_EVENT), *tasks), tuple(Flow(f"{a}-{b}", a, b) for a, b in pairs))
    start_flow(alias, model, {"order": 5})
    statements_of_a_run(alias)  # the definition is read once
    step, _ = statements_of_a_run(alias)
    own = [each for each in shape(step) if "exclusive" not in each]  # what the end of any exclusive job sends
    assert len(own) <= 7, own


def test_the_step_after_a_function_that_ran_outside(alias):
    chain(*[outside.s()] * 3).start(using=alias)
    statements_of_a_run(alias)
    step, _ = statements_of_a_run(alias)
    assert len(step) <= 6, shape(step)


def test_a_job_without_a_process_asks_for_nothing_of_processes(alias):
    outside.using(database=alias).enqueue()
    _, all_of_them = statements_of_a_run(alias)
    assert not [each for each in all_of_them if "jobexec_processes" in each]
