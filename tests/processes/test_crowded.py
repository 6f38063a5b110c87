"""Steps of instances with many tokens load those that they are about, and the others only when they need them."""

from uuid import UUID

import pytest
from django.db import connections, transaction
from django.test.utils import CaptureQueriesContext

from jobexec import job
from jobexec.exceptions import InvalidJob
from jobexec.models import Job
from jobexec.processes.definition import Flow, JobOptions, Kind, Node, Process, Work
from jobexec.processes.engine.tokens import Tokens
from jobexec.processes.flows.canvas import parallel
from jobexec.processes.handlers.registry import service_task
from jobexec.processes.models import ActivityInstance, Execution, ProcessDefinition, ProcessInstance, Variable
from jobexec.processes.operations.events import correlate
from jobexec.processes.operations.flows import define, start_flow
from jobexec.processes.operations.instances import set_variables
from jobexec.processes.operations.start import start
from jobexec.processes.store import load
from jobexec.testing import ManualExecutor
from tests.processes.support.notation import model

pytestmark = [pytest.mark.transactional, pytest.mark.every_database]

BRANCHES = 9


@pytest.fixture(autouse=True)
def few(monkeypatch):
    """Where a hierarchy has more than four tokens, they are many."""
    monkeypatch.setattr(load, "FEW", (4, 200))


@pytest.fixture
def completed(monkeypatch):
    """The steps that have needed all rows, and found that not all were at hand."""
    found, take_in = [], Tokens.complete

    def complete(self):
        if self._others is not None:
            found.append(self)
        take_in(self)

    monkeypatch.setattr(Tokens, "complete", complete)
    return found


@service_task("tests.crowded.work")
def work(context):
    return None


@job(name="tests.crowded.function")
def function(number):
    return number


def fork(exclusive=True, end=False):
    """Asynchronous tasks in parallel, which are joined, or each of which comes to the end."""
    options = JobOptions(before=True, exclusive=exclusive)
    tasks = [
        Node(f"t{number}", Kind.SERVICE_TASK, work=Work(handler="tests.crowded.work"), jobs=options)
        for number in range(BRANCHES)
    ]
    nodes = [Node("s", Kind.START_EVENT), Node("fork", Kind.PARALLEL_GATEWAY), *tasks, Node("e", Kind.END_EVENT)]
    ways = [("s", "fork"), *(("fork", task.id) for task in tasks)]
    if end:
        ways += [(task.id, "e") for task in tasks]
    else:
        nodes.append(Node("join", Kind.PARALLEL_GATEWAY))
        ways += [*((task.id, "join") for task in tasks), ("join", "e")]
    return Process("fork", tuple(nodes), tuple(Flow(f"{a}-{b}", a, b) for a, b in ways))


def run_one(alias):
    executor = ManualExecutor(alias)
    (acquired,) = executor.acquire(1)
    executor.run_acquired([acquired], [])


def ended(instance):
    instance.refresh_from_db()
    return instance.state == "completed"


@pytest.mark.parametrize("exclusive", [True, False])
def test_only_the_last_one_at_a_join_needs_the_others(alias, completed, exclusive):
    instance = start_flow(alias, fork(exclusive), {})
    for number in range(BRANCHES):
        assert len(completed) == 0, number
        run_one(alias)
    assert ended(instance)
    ends = ActivityInstance.objects.using(alias).filter(instance_id=instance.pk)
    assert ends.filter(element_id="join").count() == ends.filter(element_id="e").count() == 1


@pytest.mark.parametrize("exclusive", [True, False])
def test_whether_a_scope_is_empty_is_asked_of_the_database(alias, completed, exclusive):
    instance = start_flow(alias, fork(exclusive, end=True), {})
    for number in range(BRANCHES):
        assert not ended(instance), number
        run_one(alias)
    assert ended(instance)


def test_functions_that_end_together_are_counted_together(alias, run_jobs, completed):
    """The first ends find the others; the last one ends the instance."""
    instance = parallel(*[function.s(number) for number in range(BRANCHES)]).start(using=alias)
    for _ in range(3):
        executor = ManualExecutor(alias)
        executor.run_acquired(executor.acquire(2), [])
    assert completed == []
    run_jobs()
    assert ended(instance)


@pytest.mark.databases("postgresql")
def test_a_step_sends_as_many_statements_for_any_number_of_branches(alias):
    start_flow(alias, fork(exclusive=False), {})
    run_one(alias)  # the definition is read once
    executor = ManualExecutor(alias)
    (acquired,) = executor.acquire(1)
    with CaptureQueriesContext(connections[alias]) as captured:
        executor.run_acquired([acquired], [])
    of_executions = [query["sql"] for query in captured if "jobexec_processes_execution" in query["sql"]]
    assert len(of_executions) <= 5, of_executions


def test_those_that_are_known_to_be_crowded_do_not_keep_others_from_being_read_whole(alias):
    small = parallel(function.s(1)).start(using=alias)
    origins = {
        instance.pk: instance for instance in (start_flow(alias, fork(), {}), small, start_flow(alias, fork(), {}))
    }
    places = {root: [Execution.objects.using(alias).filter(root_id=root).first().pk] for root in origins}
    for _ in range(2):  # found to be too many together, then known
        with transaction.atomic(alias):
            loaded = load.load_all(alias, origins, places)
        assert list(loaded) == list(origins)
        assert [tokens._others is None for tokens in loaded.values()] == [False, True, False]
    assert [load._crowded.get(root) for root in origins] == [load._STEPS - 1, None, load._STEPS - 1]


def test_what_was_too_much_is_read_again_after_some_steps(alias, monkeypatch):
    """The instance has nine tokens, one less after each step."""
    looks, read = [], load.read

    def looked(*args):
        rows = read(*args)
        looks.append("many" if rows is None else "few")
        return rows

    monkeypatch.setattr(load, "read", looked)
    monkeypatch.setattr(load, "_STEPS", 2)
    instance = start_flow(alias, fork(end=True), {})
    found = []
    for _ in range(BRANCHES):
        run_one(alias)
        found.append(looks.copy())
        looks.clear()
    assert ended(instance)
    assert found == [["many"], [], [], ["many"], [], [], ["few"], ["few"], ["few"]]
    assert instance.pk not in load._crowded


def test_only_so_many_hierarchies_are_remembered(monkeypatch):
    monkeypatch.setattr(load, "_KEPT", 2)
    monkeypatch.setattr(load, "_crowded", {})
    for number in range(3):
        load._remember(UUID(int=number))
    assert load._crowded == {UUID(int=2): load._STEPS}


CALLS = """
    start -> a -> end
    a = call called loop=9
"""
CALLED = """
    start -> w -> end
    w = receive m
"""


def test_what_waits_in_a_called_instance_is_found_with_its_callers(alias, completed):
    for key, text in (("called", CALLED), ("process", CALLS)):
        definition = define(alias, model(text, key))
        ProcessDefinition.objects.using(alias).filter(pk=definition).update(version=1)
    instance = start("process", using=alias)
    called = ProcessInstance.objects.using(alias).filter(root_id=instance.pk).exclude(pk=instance.pk)
    assert called.count() == BRANCHES
    for each in called:
        assert not ended(instance)
        correlate("m", instance=each.pk, using=alias)
    assert ended(instance)
    assert not Execution.objects.using(alias).exists()


def test_what_is_not_at_hand_counts_for_the_size_of_the_variables(alias, settings):
    settings.JOBEXEC = settings.JOBEXEC | {"PROCESSES": {"MAX_VALUE_SIZE": 1000, "MAX_VARIABLES_SIZE": 5000}}
    instance = start_flow(alias, fork(), {})
    first = Execution.objects.using(alias).order_by("pk").values_list("pk", flat=True)[0]
    of_first = {"root_id": instance.pk, "instance_id": instance.pk, "scope_id": first}
    for number in range(5):
        Variable.objects.using(alias).create(name=f"v{number}", value="ä" * 400, **of_first)
    assert set_variables(instance, {"x": "y" * 500}, using=alias) is not False
    with pytest.raises(InvalidJob, match="MAX_VARIABLES_SIZE"):
        set_variables(instance, {"z": "ä" * 400}, using=alias)
    Variable.objects.using(alias).filter(scope_id=first).delete()
    set_variables(instance, {"z": "ä" * 400}, using=alias)
    assert Job.objects.using(alias).count() == BRANCHES
