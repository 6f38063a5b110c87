"""Asynchronous continuations that share a transaction: each counts, or fails, as if it were alone."""

import threading
from contextlib import suppress
from dataclasses import replace
from uuid import UUID

import pytest
from django.contrib.auth.models import Group
from django.db import IntegrityError, connections, transaction

from jobexec import clock
from jobexec.exceptions import DoNotRetry
from jobexec.executor.run import group as run_group
from jobexec.executor.run.execution import execute_batch
from jobexec.executor.run.group import execute_group
from jobexec.models import DeadLetterJob, Job, JobLog, TimerJob
from jobexec.processes.definition import Event, Flow, JobOptions, Kind, Listener, Node, Process, Trigger, When, Work
from jobexec.processes.engine.exceptions import BpmnError
from jobexec.processes.handlers import environment, together
from jobexec.processes.handlers.registry import service_task
from jobexec.processes.models import ActivityInstance, Execution, ProcessInstance, Variable
from jobexec.processes.operations.flows import define, start_flow
from jobexec.signals import job_completed, job_started
from jobexec.testing import ManualExecutor
from tests.support.executor import Host
from tests.support.factories import acquire
from tests.support.threads import TIMEOUT, finish, held, start

pytestmark = [pytest.mark.transactional, pytest.mark.databases("postgresql")]

HANDLER = "tests.groups.work"
NUMBERS = range(5)


class Shop:
    """What the handler does after it has written a row, what it was called for, and in which transactions."""

    alias = ""

    def __init__(self):
        self.calls, self.transactions, self.act = [], set(), lambda context, number: None


shop = Shop()


@service_task(HANDLER)
def work(context):
    number = context.variables["number"]
    shop.calls.append((number, context.element_id))
    Group.objects.using(shop.alias).create(name=f"{number} {context.element_id}")
    with connections[shop.alias].cursor() as cursor:
        cursor.execute("SELECT pg_current_xact_id()::text")
        shop.transactions.add(cursor.fetchone()[0])
    shop.act(context, number)


@pytest.fixture(autouse=True)
def known(alias, monkeypatch):
    """The handler is known to be quick, and there is time for all of a group, however slow the machine is."""
    shop.__init__()
    shop.alias = alias
    monkeypatch.setattr(together, "_alone", {})
    monkeypatch.setattr(together, "is_quick", lambda handler: True)
    monkeypatch.setattr(run_group, "_LONGEST", 600.0)


def a_process(*, exclusive=True, parallel=False, task=None, more=(), **fields):
    """Two asynchronous tasks, one after the other or both at once, which are joined."""
    options = JobOptions(before=True, exclusive=exclusive)
    tasks = [Node(id, Kind.SERVICE_TASK, work=Work(handler=HANDLER), jobs=options, **(task or {})) for id in "ab"]
    nodes = [Node("s", Kind.START_EVENT), *tasks, Node("e", Kind.END_EVENT)]
    ways = [("s", "a"), ("a", "b"), ("b", "e")]
    if parallel:
        nodes += [Node("fork", Kind.PARALLEL_GATEWAY), Node("join", Kind.PARALLEL_GATEWAY)]
        ways = [("s", "fork"), ("fork", "a"), ("fork", "b"), ("a", "join"), ("b", "join"), ("join", "e")]
    return Process("groups", (*nodes, *more), tuple(Flow(f"{a}-{b}", a, b) for a, b in ways), **fields)


def begin(process, numbers=NUMBERS):
    return [start_flow(shop.alias, process, {"number": number}).pk for number in numbers]


def run(jobs=None, host=None):
    """Run jobs as a group, in a thread like one of the pool; returns the host, and the jobs that have not run."""
    host = host or Host()
    jobs = acquire(shop.alias) if jobs is None else jobs
    left = finish(start(shop.alias, lambda: execute_group([[job] for job in jobs], host)))
    return host, [batch[0] for batch in left]


def written():
    return sorted(Group.objects.using(shop.alias).values_list("name", flat=True))


def at(element):
    return Execution.objects.using(shop.alias).filter(element_id=element).count()


def test_steps_of_several_instances_are_one_transaction(alias):
    instances = begin(a_process())
    for element in "ab":
        shop.transactions.clear()
        host, left = run()
        assert (left, host.outcomes, len(shop.transactions)) == ([], [], 1)
        assert written() == [f"{number} {each}" for number in NUMBERS for each in "ab"[: "ab".index(element) + 1]]
    rows = ProcessInstance.objects.using(alias).filter(pk__in=instances)
    assert set(rows.values_list("state", flat=True)) == {"completed"}
    done = ActivityInstance.objects.using(alias).filter(kind="serviceTask", state="completed")
    assert sorted(done.values_list("element_id", flat=True)) == [*"a" * 5, *"b" * 5]
    assert not Job.objects.using(alias).exists()


def test_all_branches_of_an_instance_are_one_step_and_its_join_fires_once(alias):
    (instance,) = begin(a_process(parallel=True, exclusive=False), [1])
    _, left = run()
    assert (left, shop.calls) == ([], [(1, "a"), (1, "b")])
    assert ProcessInstance.objects.using(alias).get(pk=instance).state == "completed"
    assert ActivityInstance.objects.using(alias).filter(element_id="join").count() == 1


def test_one_that_fails_is_undone_and_the_others_count(alias):
    """Its row and its hook are gone; nothing runs twice, and it spends one attempt."""
    begin(a_process())
    hooks = []

    def act(context, number):
        transaction.on_commit(lambda: hooks.append(number), using=alias)
        if number == 2:
            raise ValueError("no")

    shop.act = act
    host, left = run()
    assert left == []
    assert shop.calls == [(number, "a") for number in NUMBERS]
    assert written() == [f"{number} a" for number in NUMBERS if number != 2]
    assert hooks == [0, 1, 3, 4]
    (failed,) = host.outcomes
    assert failed.failure.message == "ValueError: no"
    assert TimerJob.objects.using(alias).get().id == failed.work.id
    assert (at("a"), at("b")) == (1, 4)


def test_the_last_failure_makes_a_dead_letter(alias):
    begin(a_process())

    def act(context, number):
        if number == 0:
            raise DoNotRetry("never")

    shop.act = act
    run()
    assert DeadLetterJob.objects.using(alias).get().exception_message == "DoNotRetry: never"
    assert (at("a"), at("b")) == (1, 4)


def test_an_error_of_the_business_takes_its_way(alias):
    caught = Node("caught", Kind.BOUNDARY_EVENT, attached_to="a", event=Event(Trigger.ERROR))
    process = a_process(more=[caught, Node("other", Kind.END_EVENT)])
    begin(replace(process, flows=(*process.flows, Flow("caught-other", "caught", "other"))))

    def act(context, number):
        if number == 3:
            raise BpmnError("sold_out")

    shop.act = act
    _, left = run()
    assert left == []
    ended = ProcessInstance.objects.using(alias).filter(state="completed")
    assert list(ended.values_list("end_element", flat=True)) == ["other"]
    assert at("b") == 4


def test_what_an_instance_has_done_before_one_of_its_jobs_failed_is_taken_again(alias):
    """Its rows are loaded again; its handlers are not called again."""
    (instance,) = begin(a_process(parallel=True, exclusive=False), [1])

    def act(context, number):
        if context.element_id == "b" and len(shop.calls) == 2:
            raise ValueError("no")
        context.variables[f"by_{context.element_id}"] = len(shop.calls)

    shop.act = act
    _, left = run()
    assert (left, shop.calls) == ([], [(1, "a"), (1, "b")])
    assert written() == ["1 a"]
    assert at("join") == 1
    TimerJob.objects.using(alias).update(due_date=clock.now(alias))
    ManualExecutor(alias).run_until_empty()
    row = ProcessInstance.objects.using(alias).get(pk=instance)
    assert (row.state, row.final_variables) == ("completed", {"number": 1, "by_a": 1, "by_b": 3})
    assert written() == ["1 a", "1 b"]


@pytest.mark.parametrize("way", ["copy", "psycopg"])
def test_statements_that_django_does_not_see_are_undone_too(alias, way):
    begin(a_process())

    def act(context, number):
        if number != 1:
            return
        if way == "copy":
            with connections[alias].cursor() as cursor, cursor.copy("COPY auth_group (name) FROM STDIN") as copy:
                copy.write_row(["hidden"])
        else:
            connections[alias].connection.execute("INSERT INTO auth_group (name) VALUES ('hidden')")
        raise ValueError("no")

    shop.act = act
    host, left = run()
    assert (left, len(host.outcomes)) == ([], 1)
    assert written() == [f"{number} a" for number in NUMBERS if number != 1]


def test_a_hook_that_fails_keeps_no_other_from_running(alias, caplog):
    begin(a_process())
    hooks = []

    def act(context, number):
        transaction.on_commit(lambda: hooks.append(1 // number), using=alias)

    shop.act = act
    host, left = run()
    assert (left, host.outcomes, hooks) == ([], [], [1, 0, 0, 0])
    (said,) = [record for record in caplog.records if "a hook on its commit failed" in record.message]
    assert "ZeroDivisionError" in said.message
    assert at("b") == 5


def test_after_an_error_that_its_handler_hides_each_runs_alone(alias):
    """PostgreSQL refuses every later statement of the transaction: who is to blame comes out alone."""
    begin(a_process())
    Group.objects.using(alias).create(name="taken")

    def act(context, number):
        if number == 1:
            with suppress(IntegrityError), connections[alias].cursor() as cursor:
                cursor.execute("INSERT INTO auth_group (name) VALUES ('taken')")

    shop.act = act
    host, left = run()
    assert len(left) == 5
    assert all(job.alone for job in left)
    assert (host.outcomes, written(), at("a")) == ([], ["taken"], 5)


def test_in_a_deadlock_one_job_is_undone_and_runs_again_at_no_cost(alias):
    """The other party has what it wants as soon as the group is committed."""
    first, second = (Group.objects.using(alias).create(name=name) for name in ("first", "second"))
    begin(a_process())
    has_first, has_second = threading.Event(), threading.Event()

    def lock(row):
        list(Group.objects.using(alias).filter(pk=row.pk).select_for_update())

    def act(context, number):
        if number == 1:
            lock(first)
            has_first.set()
        elif number == 2:
            assert has_second.wait(TIMEOUT)
            lock(second)

    def other():
        with transaction.atomic(using=alias), connections[alias].cursor() as cursor:
            cursor.execute("SET LOCAL deadlock_timeout = '60s'")  # not the one that PostgreSQL ends
            lock(second)
            has_second.set()
            assert has_first.wait(TIMEOUT)
            lock(first)

    shop.act = act
    crossing = start(alias, other)
    host, left = run()
    finish(crossing)
    assert left == []
    (failed,) = host.outcomes
    assert (failed.failure.kind, len(shop.calls)) == ("conflict", 5)
    assert [name for name in written() if "a" in name] == [f"{number} a" for number in NUMBERS if number != 2]
    job = next(row for table in (Job, TimerJob) for row in table.objects.using(alias).filter(pk=failed.work.id))
    assert job.retries == failed.work.retries


def test_after_a_rollback_that_its_handler_has_asked_for_each_runs_alone(alias):
    begin(a_process())

    def act(context, number):
        if number == 1:
            transaction.set_rollback(True, using=alias)

    shop.act = act
    host, left = run()
    assert ([job.alone for job in left], host.outcomes, written(), at("a")) == ([True] * 5, [], [], 5)


@pytest.mark.parametrize(
    "statement", ["SET LOCAL lock_timeout = '7s'", "SELECT set_config('lock_timeout', '7s', true)"]
)
def test_no_other_job_feels_what_a_handler_has_set(alias, statement):
    """Those before it have ended, those after it run alone."""
    begin(a_process())
    found = []

    def act(context, number):
        with connections[alias].cursor() as cursor:
            cursor.execute("SELECT current_setting('lock_timeout')")
            found.append(cursor.fetchone()[0])
            if number == 2:
                cursor.execute(statement)

    shop.act = act
    host, left = run()
    assert ([job.alone for job in left], host.outcomes, at("b")) == ([True] * 2, [], 3)
    for job in left:
        finish(start(alias, lambda job=job: execute_batch([job], Host())))
    assert found == ["0"] * 5


def test_if_one_lock_was_lost_nothing_is_written_and_each_runs_alone(alias):
    """The other node's job is not touched."""
    begin(a_process())
    jobs = acquire(alias)
    Job.objects.using(alias).filter(pk=jobs[2].id).update(lock_owner="another", revision=jobs[2].revision + 1)
    host, left = run(jobs)
    assert ([job.alone for job in left], host.outcomes, written(), at("a")) == ([True] * 5, [], [], 5)
    assert Job.objects.using(alias).count() == 5


def test_one_that_was_cancelled_is_cancelled(alias):
    begin(a_process())
    jobs = acquire(alias)
    jobs[0].cancel_requested = True
    host, left = run(jobs)
    assert left == []
    (cancelled,) = host.outcomes
    assert cancelled.name == "cancelled"
    assert len(shop.calls) == 4
    ProcessInstance.objects.using(alias).filter(pk=jobs[0].process_instance_id).delete()
    for model in (Execution, Variable):
        model.objects.using(alias).filter(root_id=jobs[0].process_instance_id).delete()


@pytest.mark.parametrize(
    "process",
    [
        a_process(listeners=(Listener(When.START, handler="tests.groups.listener"),)),
        a_process(task={"listeners": (Listener(When.END, handler="tests.groups.listener"),)}),
        a_process(more=[Node("caught", Kind.BOUNDARY_EVENT, attached_to="a", event=Event(Trigger.FAILURE))]),
    ],
    ids=["listener of the process", "listener of a task", "failure event"],
)
def test_where_a_step_may_call_more_code_each_runs_alone(alias, process):
    """Only what a step begins with can be undone alone."""
    fits = a_process()
    assert together._fits(alias, ProcessInstance(definition_id=define(alias, fits)))
    assert not together._fits(alias, ProcessInstance(pk=UUID(int=1), definition_id=define(alias, process)))
    assert UUID(int=1) in together._alone


def test_with_shared_transactions_switched_off_each_runs_alone(alias, settings):
    begin(a_process())
    settings.JOBEXEC = {**settings.JOBEXEC, "PROCESSES": {"SHARED_TRANSACTIONS": False}}
    host, left = run()
    assert ([job.alone for job in left], host.outcomes, shop.calls) == ([True] * 5, [], [])


def test_a_handler_that_may_be_slow_runs_alone(alias, monkeypatch):
    """One that was never called here, and one whose last call took long; each call is measured."""
    begin(a_process())
    jobs = acquire(alias)
    monkeypatch.setattr(together, "is_quick", environment.is_quick)
    for took in ({}, {HANDLER: 0.004}):
        monkeypatch.setattr(environment, "_took", took)
        host, left = run(jobs)
        assert (len(left), shop.calls, host.outcomes) == (5, [], [])
    finish(start(alias, lambda: execute_batch([jobs[0]], Host())))
    assert 0 < environment._took[HANDLER] != 0.004


def test_those_for_which_there_is_no_time_may_share_the_next_transaction(alias, monkeypatch):
    begin(a_process())
    monkeypatch.setattr(run_group, "_LONGEST", 0.0)
    _, left = run()
    assert ([job.alone for job in left], len(shop.calls)) == ([False] * 4, 1)
    assert at("b") == 1


def test_instances_that_others_have_locked_are_left(alias):
    first = begin(a_process())[0]
    with held(alias) as inside:
        inside(lambda: ProcessInstance.objects.using(alias).select_for_update().get(pk=first))
        _, left = run()
        assert [job.process_instance_id for job in left] == [str(first)]
        assert left[0].alone
    assert at("b") == 4


def test_if_all_are_locked_each_waits_alone(alias):
    begin(a_process())
    with held(alias) as inside:
        inside(lambda: list(ProcessInstance.objects.using(alias).select_for_update()))
        host, left = run()
    assert ([job.alone for job in left], host.outcomes, shop.calls) == ([True] * 5, [], [])


def test_the_only_instance_is_waited_for(alias):
    """Alone, each of its branches would wait for it."""
    (instance,) = begin(a_process(parallel=True, exclusive=False), [1])
    jobs = acquire(alias)
    with held(alias) as inside:
        inside(lambda: ProcessInstance.objects.using(alias).select_for_update().get(pk=instance))
        waits = start(alias, lambda: run(jobs))
        assert not waits.done()
    _, left = finish(waits)
    assert left == []
    assert ProcessInstance.objects.using(alias).get(pk=instance).state == "completed"


def test_a_job_whose_instance_has_ended_ends_well_alone(alias):
    instances = begin(a_process())
    jobs = acquire(alias)
    ProcessInstance.objects.using(alias).filter(pk=instances[0]).update(state="cancelled")
    _, left = run(jobs)
    assert [job.process_instance_id for job in left] == [str(instances[0])]
    ProcessInstance.objects.using(alias).filter(pk=instances[0]).update(state="active")


def test_each_has_its_entry_in_the_log_and_its_signals(alias, settings):
    heard = {"started": [], "completed": []}
    on_start = lambda job, **_: heard["started"].append(job.id)  # noqa: E731
    on_end = lambda jobs, **_: heard["completed"].extend(job.id for job in jobs)  # noqa: E731
    job_started.connect(on_start)
    job_completed.connect(on_end)
    settings.JOBEXEC = {"ENGINES": {alias: {}}, "HISTORY_LEVEL": "activity"}
    try:
        begin(a_process())
        jobs = acquire(alias)
        run(jobs)
    finally:
        job_started.disconnect(on_start)
        job_completed.disconnect(on_end)
    ids = {job.id for job in jobs}
    assert set(heard["started"]) == set(heard["completed"]) == ids
    assert len(heard["started"]) == len(heard["completed"]) == 5
    assert set(JobLog.objects.using(alias).filter(job_id__in=ids).values_list("job_id", flat=True)) == ids
