"""Executors find the tokens that wait for the jobs of a chunk at once."""

import pytest
from django.db import OperationalError

from jobexec import job
from jobexec.executor.job_executor import JobExecutor
from jobexec.executor.pool.throughput import Throughput
from jobexec.executor.run.ahead import look_ahead, looks_ahead
from jobexec.executor.run.execution import execute_batch
from jobexec.models import Job
from jobexec.processes.flows import compiling
from jobexec.processes.flows.builder import Flow
from jobexec.processes.flows.canvas import chain, parallel
from jobexec.processes.flows.terms import item
from jobexec.processes.handlers import steps
from jobexec.processes.models import Execution, Variable
from jobexec.processes.operations.instances import cancel
from jobexec.processes.store import load
from tests.support.executor import Host
from tests.support.factories import acquire, work
from tests.support.threads import finish, start
from tests.support.waiting import until

pytestmark = [pytest.mark.transactional]

calls: list[int] = []


@job(name="tests.ahead.echo")
def echo(number):
    calls.append(number)
    return number


@pytest.fixture(autouse=True)
def nothing_yet(monkeypatch):
    """What is found counts long enough, however slow the machine is."""
    calls.clear()
    monkeypatch.setattr(steps, "_JUST", 600.0)


@pytest.fixture
def alone(monkeypatch):
    """The jobs that were looked up alone."""
    found, waiting = [], load.waiting

    def look(using, id, waits_for):
        found.append(id)
        return waiting(using, id, waits_for)

    monkeypatch.setattr(load, "waiting", look)
    return found


def run(jobs):
    """Run jobs in a thread like one of the pool."""

    def in_thread():
        for each in jobs:
            execute_batch([each], Host())

    finish(start(jobs[0].using, in_thread))


@pytest.mark.every_database
def test_it_finds_what_each_would_find_alone(alias, monkeypatch):
    """Also for the items of a list, which wait for their batch; nothing for a token that has gone on."""
    monkeypatch.setattr(compiling, "BATCH_FROM", 4)
    for number in range(3):
        chain(echo.s(number), echo.s(number)).start(using=alias)
    flow = Flow("mapped")
    flow.map(echo, item, over=list(range(5)))
    flow.start(using=alias)
    parallel(echo.s(7), echo.s(8)).start(using=alias)
    ids = [*Job.objects.using(alias).values_list("pk", "batch_id")]
    assert len(ids) == 10
    gone = next(id for id, batch in ids if batch is None)
    Execution.objects.using(alias).filter(job_id=gone).update(job_id=None)
    alone = {id: load.waiting(alias, id, batch or id) for id, batch in ids}
    assert alone.pop(gone) is None
    assert len(set(alone.values())) == 5, "a token each, and one for all items"
    for form in (load.at_once, lambda using: False):
        monkeypatch.setattr(load, "at_once", form)
        assert load.all_waiting(alias, [id for id, _ in ids]) == alone
    Execution.objects.using(alias).filter(job_id=None).update(job_id=gone)


def test_a_chunk_takes_one_statement(alias, alone):
    for number in range(4):
        chain(echo.s(number)).start(using=alias)
    jobs = acquire(alias)
    look_ahead([[each] for each in jobs])
    assert [each.ahead is not None for each in jobs] == [True] * 4
    run(jobs)
    assert alone == []
    assert sorted(calls) == [0, 1, 2, 3]
    assert [each.ahead for each in jobs] == [None] * 4, "another attempt looks again"


def test_what_was_found_too_long_ago_is_looked_up_again(alias, monkeypatch):
    """So no function of an instance that was cancelled meanwhile is called."""
    instance = chain(echo.s(1)).start(using=alias)
    chain(echo.s(2)).start(using=alias)
    jobs = acquire(alias)
    look_ahead([[each] for each in jobs])
    monkeypatch.setattr(steps, "_JUST", 0.0)
    cancel(instance, using=alias)
    run(jobs)
    assert calls == [2]


def test_the_result_of_a_function_whose_token_has_just_gone_is_not_taken(alias):
    instance = chain(echo.s(1)).start(using=alias)
    jobs = acquire(alias)
    look_ahead([[each] for each in jobs])
    cancel(instance, using=alias)
    run(jobs)
    instance.refresh_from_db()
    assert (instance.state, calls) == ("cancelled", [1])
    assert not Variable.objects.using(alias).exists()


def test_jobs_of_other_handlers_are_none_of_its_business(alias, handle):
    handle(lambda: None, "tests.do_nothing")
    chain(echo.s(1)).start(using=alias)
    (step,) = acquire(alias)
    other, unknown = work(alias), work(alias, handler_type="tests.nobody")
    assert [looks_ahead([each]) for each in (step, other, unknown)] == [True, False, False]
    look_ahead([[step], [other], [unknown]])
    assert [each.ahead is None for each in (step, other, unknown)] == [False, True, True]


def test_after_an_error_each_looks_it_up_alone(alias, alone, monkeypatch):
    def fail(using, jobs):
        raise OperationalError("no")

    chain(echo.s(1)).start(using=alias)
    jobs = acquire(alias)
    monkeypatch.setattr(load, "all_waiting", fail)
    look_ahead([[each] for each in jobs])
    run(jobs)
    assert (alone, calls) == ([jobs[0].id], [1])


@pytest.mark.parametrize("just", [600.0, 0.0])
def test_what_a_step_of_this_node_has_made_is_not_looked_for(alias, settings, monkeypatch, alone, just):
    """Unless it had to wait for its thread: then its token may have gone on."""
    seldom = {"WAIT_TIME": 30, "MAX_WAIT": 30, "MAX_WAIT_WHEN_LISTENING": 30}
    settings.JOBEXEC = {"ENGINES": {alias: seldom}, "GRACE_PERIOD": 10}
    monkeypatch.setattr(steps, "_JUST", just)
    executor = JobExecutor()
    executor.start()
    try:
        until(lambda: all(each.sees_the_end for each in executor.engines[alias].acquisitions.values()))
        chain(*(echo.s(number) for number in range(4))).start(using=alias)
        until(lambda: calls == [0, 1, 2, 3])
        until(lambda: not Job.objects.using(alias).exists())
    finally:
        assert executor.stop(10)
    assert len(alone) == (1 if just else 4)


@pytest.mark.gate
def test_threads_look_ahead(alias, settings, monkeypatch):
    settings.JOBEXEC = {"ENGINES": {alias: {}}, "GRACE_PERIOD": 10}
    looked, all_waiting = [], load.all_waiting

    def look(using, jobs):
        looked.append(len(jobs))
        return all_waiting(using, jobs)

    monkeypatch.setattr(load, "all_waiting", look)
    monkeypatch.setattr(Throughput, "within", lambda throughput, seconds: 1)  # they are short, also where all is slow
    parallel(*(echo.s(number) for number in range(100))).start(using=alias)
    executor = JobExecutor()
    executor.start()
    try:
        until(lambda: not Job.objects.using(alias).exists())
    finally:
        assert executor.stop(10)
    assert sorted(calls) == list(range(100))
    assert max(looked) > 1
