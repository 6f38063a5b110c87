"""How many statements a step sends."""

import json
import re
from uuid import UUID

import pytest
from django.db import connections, transaction
from django.test.utils import CaptureQueriesContext

from jobexec import job
from jobexec.clock import FrozenClock
from jobexec.models import Job, TimerJob
from jobexec.operations.sql import dialect, portable
from jobexec.operations.sql.copy import array
from jobexec.processes.definition import Event, Flow, JobOptions, Kind, Mode, Node, Process, TimerKind, Trigger, Work
from jobexec.processes.flows.canvas import chain
from jobexec.processes.handlers import environment
from jobexec.processes.handlers.registry import service_task
from jobexec.processes.handlers.stepping import change_variables
from jobexec.processes.models import ActivityInstance, Execution, ProcessInstance, Variable
from jobexec.processes.operations.flows import start_flow
from jobexec.processes.operations.instances import cancel
from jobexec.testing import ManualExecutor

UUIDS = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")

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


@pytest.mark.parametrize(("took", "most"), [(0.001, 7), (1.0, 11)])
def test_a_step_with_its_task_and_the_end_of_its_job(alias, monkeypatch, took, most):
    """A slow handler is called before the lock: in a savepoint, and the instance is read twice."""
    work, jobs = Work(handler="tests.statements.inside"), JobOptions(before=True)
    tasks = [Node(name, Kind.SERVICE_TASK, work=work, jobs=jobs) for name in "abc"]
    pairs = (("s", "a"), ("a", "b"), ("b", "c"))
    model = Process("s", (Node("s", Kind.START_EVENT), *tasks), tuple(Flow(f"{a}-{b}", a, b) for a, b in pairs))
    start_flow(alias, model, {"order": 5})
    statements_of_a_run(alias)  # the definition is read once
    monkeypatch.setitem(environment._took, "tests.statements.inside", took)
    step, _ = statements_of_a_run(alias)
    assert len(step) <= most, shape(step)  # one of them for the lock of the job, which is exclusive


def test_a_step_that_leaves_a_task_with_a_timer_looks_into_all_tables_at_once(alias):
    """The timer may have become a job, be suspended or dead; mostly it is where it was, or nowhere."""
    work = Work(handler="tests.statements.outside", mode=Mode.OUTSIDE, arguments={"args": [], "kwargs": {}})
    tasks = [Node(name, Kind.SERVICE_TASK, work=work) for name in "ab"]
    timer = Event(Trigger.TIMER, timer=TimerKind.DURATION, when="PT1H")
    late = Node("late", Kind.BOUNDARY_EVENT, event=timer, attached_to="a")
    pairs = (("s", "a"), ("a", "b"), ("late", "e"))
    nodes = (Node("s", Kind.START_EVENT), *tasks, late, Node("e", Kind.END_EVENT))
    start_flow(alias, Process("s", nodes, tuple(Flow(f"{a}-{b}", a, b) for a, b in pairs)), {})
    assert TimerJob.objects.using(alias).count() == 1
    step, _ = statements_of_a_run(alias)
    assert len(step) <= 9, shape(step)
    assert not TimerJob.objects.using(alias).exists()


def test_the_step_after_a_function_that_ran_outside(alias):
    chain(*[outside.s()] * 3).start(using=alias)
    statements_of_a_run(alias)
    step, _ = statements_of_a_run(alias)
    assert len(step) <= 5, shape(step)


def test_a_job_without_a_process_asks_for_nothing_of_processes(alias):
    outside.using(database=alias).enqueue()
    _, all_of_them = statements_of_a_run(alias)
    assert not [each for each in all_of_them if "jobexec_processes" in each]


def test_a_function_whose_instance_the_job_before_it_has_cancelled_is_not_called(alias, monkeypatch):
    """Also if one thread has taken both jobs."""
    instances = [chain(outside.s(), outside.s()).start(using=alias) for _ in range(2)]
    executor, calls = ManualExecutor(alias), []
    acquired = executor.acquire(2)

    def cancel_the_other():
        calls.append(None)
        cancel(instances[1].pk, using=alias)

    monkeypatch.setattr(outside, "function", cancel_the_other)
    executor.run_acquired(acquired, [])
    assert len(calls) == 1


TEXTS = ["", "NULL", "{}", 'a "quote"', "back\\slash", "\\N", "comma, {brace}", "two\nlines\t", "ä€😀", "'"]


def test_texts_are_stored_as_they_are(alias):
    """They go to the server in arrays."""
    instances = [chain(outside.s(), outside.s()).flow(f"key {text}"[:9] if text else "empty") for text in TEXTS]
    for instance, text in zip(instances, TEXTS, strict=True):
        with transaction.atomic(using=alias):
            started = instance.start(using=alias)
            change_variables(alias, started.pk, started.pk, {text or "none": text, "all": TEXTS, "nothing": None})
        found = dict(Variable.objects.using(alias).filter(root_id=started.pk).values_list("name", "value"))
        assert (found[text or "none"], found["all"], found["nothing"]) == (text, TEXTS, None)


def columns_of(table, rows):
    """The columns of rows; of ids, and keys, only whether there is one."""
    names = [field.attname for field in table._meta.concrete_fields]
    found = sorted(rows.values_list(*names), key=repr)
    return [
        {
            name: value is not None if name == "key" or isinstance(value, UUID) else value
            for name, value in zip(names, row, strict=True)
        }
        for row in found
    ]


def rows_of_a_start(alias, process):
    """The rows of a new instance, in each table."""
    root = start_flow(alias, process, {"order": 5, "nothing": None}, business_key="b").pk
    tables = {Execution: "root_id", Variable: "root_id", ActivityInstance: "instance_id", ProcessInstance: "root_id"}
    found = {
        table: columns_of(table, table.objects.using(alias).filter(**{name: root})) for table, name in tables.items()
    }
    for jobs in (Job, TimerJob):
        rows = jobs.objects.using(alias).filter(root_process_instance_id=str(root))
        found[jobs] = [{**row, "id": None} for row in columns_of(jobs, rows)]
    text = json.dumps([found[table] for table in found], default=str)
    for id in {*UUIDS.findall(text)}:
        text = text.replace(id, "id")
    return text, {table.__name__: len(rows) for table, rows in found.items()}


@pytest.mark.parametrize("shape", ["a job", "a timer", "at its end"])
def test_the_rows_are_those_of_the_portable_form(alias, monkeypatch, shape):
    """A single row, and a single job, have a form of their own in the statement."""
    work = Work(handler="tests.statements.inside")
    nodes = [Node("s", Kind.START_EVENT), Node("e", Kind.END_EVENT)]
    if shape == "a timer":
        event = Event(Trigger.TIMER, timer=TimerKind.DURATION, when="PT1H")
        nodes.insert(1, Node("a", Kind.CATCH_EVENT, event=event))
    else:
        nodes.insert(1, Node("a", Kind.SERVICE_TASK, work=work, jobs=JobOptions(before=shape == "a job")))
    process = Process("alike", tuple(nodes), (Flow("s-a", "s", "a"), Flow("a-e", "a", "e")))
    start_flow(alias, process, {})  # its shape is stored
    with FrozenClock():
        native = rows_of_a_start(alias, process)
        monkeypatch.setitem(dialect._DIALECTS, "postgresql", portable.Dialect())
        assert rows_of_a_start(alias, process) == native
    expected = {"a job": (1, 0), "a timer": (0, 1), "at its end": (0, 0)}[shape]
    assert (native[1]["Job"], native[1]["TimerJob"]) == expected


def test_arrays():
    assert array([None, "NULL", 'a"b', "a\\b", "", True, 7]) == '{NULL,"NULL","a\\"b","a\\\\b","","t","7"}'
