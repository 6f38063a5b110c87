"""Ends of runs that are written together: the steps of flows, on the executor's own threads."""

from dataclasses import replace

import pytest
from django.db import InterfaceError, transaction
from opentelemetry import trace

from jobexec import current_job, job
from jobexec.exceptions import DoNotRetry
from jobexec.executor.loops import settlement
from jobexec.executor.run.outcomes import write_alone, write_shared
from jobexec.models import DeadLetterJob, Job
from jobexec.operations.sql.locks import atomic, lock_rows
from jobexec.processes.definition import JobOptions, Kind, Listener, Node, When, Work
from jobexec.processes.engine.inputs import JobDone
from jobexec.processes.flows.builder import Flow
from jobexec.processes.flows.canvas import chain, parallel
from jobexec.processes.flows.compiling import compiled
from jobexec.processes.handlers import stepping
from jobexec.processes.handlers.stepping import End, proceed_together
from jobexec.processes.models import Execution, ProcessInstance, Variable
from jobexec.processes.operations.check import check
from tests.support.factories import acquire
from tests.support.threads import held
from tests.support.waiting import until

pytestmark = pytest.mark.transactional


TRACE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b716920333{}-01"


@job(name="tests.shared.echo")
def echo(value=None):
    return value


@job(name="tests.shared.large")
def large():
    return "x" * 600


@job(name="tests.shared.within", atomic=True)
def within():
    return None


def ends(alias):
    """All steps that can run now, as they end."""
    found = []
    for work in acquire(alias, "me", limit=100):
        token = Execution.objects.using(alias).get(job_id=work.id)
        found.append((work, End(token.root_id, JobDone(token.pk, work.id, work.handler_type))))
    return found


def over(alias):
    return not ProcessInstance.objects.using(alias).filter(state="active").exists()


def returns_nothing(call):
    """A middleware that does not return what the handler returns."""

    def run(context):
        call(context)

    return run


@pytest.mark.every_database
def test_steps_of_several_instances_are_one_transaction(alias):
    for number in range(4):
        chain(echo.s(number), parallel(echo.s(1), echo.s(2), echo.s(3)), echo.s(9)).start(using=alias)
    found = ends(alias)
    with atomic(alias):
        assert proceed_together(alias, found) == set()
        Job.objects.using(alias).filter(pk__in=[work.id for work, _ in found]).delete()
    assert Job.objects.using(alias).count() == 12
    assert check(using=alias) == []
    found = ends(alias)
    with atomic(alias):  # all branches of each instance, and its join, which fires once
        assert proceed_together(alias, found) == set()
        Job.objects.using(alias).filter(pk__in=[work.id for work, _ in found]).delete()
    assert Job.objects.using(alias).count() == 4
    assert check(using=alias) == []
    with atomic(alias):  # again, after a commit in doubt: the tokens have gone on
        assert proceed_together(alias, found) == set()
    assert Job.objects.using(alias).count() == 4


@pytest.mark.every_database
def test_each_of_them_has_its_trace(alias):
    """Jobs that one step makes for several ends, too; a join belongs to the last."""
    for _ in range(2):
        chain(parallel(chain(echo.s(1), echo.s(2)), chain(echo.s(3), echo.s(4))), echo.s(9)).start(using=alias)
    while found := ends(alias):
        traced = [(work, end._replace(traceparent=TRACE.format(n))) for n, (work, end) in enumerate(found)]
        with atomic(alias):
            assert proceed_together(alias, traced) == set()
            Job.objects.using(alias).filter(pk__in=[work.id for work, _ in found]).delete()
        rows = dict(Job.objects.using(alias).values_list("traceparent", "process_instance_id"))
        last = {str(end.root): end.traceparent for _, end in traced}
        given = {end.traceparent: str(end.root) for _, end in traced}
        joined = {traceparent: root for root, traceparent in last.items()}
        assert rows in (given, joined, {})
    assert check(using=alias) == []


@pytest.mark.gate
def test_runs_of_a_trace_are_written_with_others(alias, make_executor, monkeypatch, spans):
    """Each is a child of the run whose end has made its job."""
    shared = []

    def write(using, outcomes):
        shared.extend(outcome.work.id for outcome in outcomes)
        return write_shared(using, outcomes)

    monkeypatch.setattr(settlement, "write_shared", write)
    with trace.get_tracer("shop").start_as_current_span("order") as order:
        chain(echo.s(1), echo.s(2), echo.s(3)).start(using=alias)
    make_executor().start()
    until(lambda: over(alias) and not Job.objects.using(alias).exists())
    runs = [span for span in spans() if span.name.startswith("process ")]
    assert {str(id) for id in shared} == {span.attributes["messaging.message.id"] for span in runs}
    assert [span.parent.span_id for span in runs] == [
        order.get_span_context().span_id,
        *(span.context.span_id for span in runs[:2]),
    ]
    assert len({span.context.trace_id for span in runs}) == 1


@pytest.mark.gate
@pytest.mark.databases("postgresql")
def test_how_many_statements_that_takes(alias, django_assert_max_num_queries):
    for number in range(10):
        chain(echo.s(number), parallel(*(echo.s(each) for each in range(20)))).start(using=alias)
    found = ends(alias)
    with atomic(alias), django_assert_max_num_queries(6, using=alias):
        proceed_together(alias, found)


@pytest.mark.every_database
@pytest.mark.databases("postgresql", "mariadb")
def test_what_another_step_holds_waits_and_nothing_else_does(alias):
    first, second = (chain(echo.s(1), echo.s(2)).start(using=alias) for _ in range(2))
    found = ends(alias)
    held_up = {work.id for work, end in found if end.root == first.pk}
    with held(alias) as inside:
        inside(lambda: list(lock_rows(ProcessInstance.objects.using(alias).filter(pk=first.pk))))
        with atomic(alias):
            assert proceed_together(alias, found) == held_up
    done = {row.root_id for row in Execution.objects.using(alias).exclude(job_id__in=[work.id for work, _ in found])}
    assert done == {second.pk}


@pytest.mark.every_database
def test_chains_and_branches_on_threads(alias, make_executor):
    instances = [
        chain(echo.s(number), parallel(echo.s(1), echo.s(2)), echo.s(3)).start(using=alias) for number in range(6)
    ]
    instances.append(parallel(*(echo.s(number) for number in range(25))).start(using=alias))
    make_executor().start()
    until(lambda: over(alias) and not Job.objects.using(alias).exists())
    assert not ProcessInstance.objects.using(alias).exclude(state="completed").exists()
    assert not (Execution.objects.using(alias).exists() or Variable.objects.using(alias).exists())
    assert check(using=alias) == []
    assert ProcessInstance.objects.using(alias).count() == len(instances)


@pytest.mark.gate
def test_a_step_that_cannot_be_taken_is_the_failure_of_its_own_run(alias, make_executor):
    """Of several that are written together: the others are taken."""
    executor = make_executor(PROCESSES={"MAX_VALUE_SIZE": 1000, "MAX_VARIABLES_SIZE": 1000})
    bad = chain(large.s(), large.s(), echo.s()).start(using=alias)
    for number in range(3):
        chain(echo.s(number), echo.s(number)).start(using=alias)
    executor.start()
    until(
        lambda: (
            DeadLetterJob.objects.using(alias).exists()
            and ProcessInstance.objects.using(alias).filter(state="completed").count() == 3
        )
    )
    dead = DeadLetterJob.objects.using(alias).get()
    assert dead.process_instance_id == str(bad.pk)
    assert dead.exception_message.startswith("DoNotRetry: It has run, but its result cannot be kept: ")
    assert ProcessInstance.objects.using(alias).get(pk=bad.pk).state == "active"
    assert check(using=alias) == []


@pytest.mark.gate
@pytest.mark.databases("postgresql", "mariadb")
def test_a_locked_instance_holds_up_no_other(alias, make_executor):
    locked, *others = (chain(echo.s(1), echo.s(2)).start(using=alias) for _ in range(4))
    executor = make_executor()
    with held(alias) as inside:
        inside(lambda: list(lock_rows(ProcessInstance.objects.using(alias).filter(pk=locked.pk))))
        executor.start()
        done = ProcessInstance.objects.using(alias).filter(state="completed")
        until(lambda: done.count() == len(others))
        assert not executor.idle
    until(lambda: over(alias))
    until(lambda: executor.idle)
    assert check(using=alias) == []


def test_an_error_of_all_is_tried_again_for_each(alias, make_executor, monkeypatch):
    """Also one that says that the database has chosen one of two transactions."""
    asked = []

    def fails_first(using, outcomes):
        asked.append(len(outcomes))
        if len(asked) < 3:
            raise RuntimeError("not now")
        return write_shared(using, outcomes)

    monkeypatch.setattr(settlement, "write_shared", fails_first)
    chain(echo.s(1), echo.s(2)).start(using=alias)
    make_executor().start()
    until(lambda: len(asked) > 1)
    until(lambda: not Job.objects.using(alias).exists())


@pytest.mark.gate
def test_a_failure_that_cannot_be_written_at_first_stays_one(alias, make_executor, monkeypatch):
    """It is not taken for a success when it is written again."""
    tries = []

    def away_first(using, outcome):
        tries.append(outcome)
        if len(tries) == 1:
            raise InterfaceError("the connection is closed")
        return write_alone(using, outcome)

    monkeypatch.setattr(settlement, "write_alone", away_first)
    bad = chain(large.s(), large.s(), echo.s()).start(using=alias)
    make_executor(PROCESSES={"MAX_VALUE_SIZE": 1000, "MAX_VARIABLES_SIZE": 1000}).start()
    until(lambda: tries and not Job.objects.using(alias).exists())
    assert DeadLetterJob.objects.using(alias).get().process_instance_id == str(bad.pk)
    assert check(using=alias) == []


@job(name="tests.shared.leaves", retries="R1/PT1S")
def leaves_a_transaction_open():
    transaction.set_autocommit(False, using=current_job().using)


def test_a_run_that_fails_after_its_handler_takes_no_step(alias, make_executor):
    instance = chain(leaves_a_transaction_open.s(), echo.s()).start(using=alias)
    make_executor().start()
    until(lambda: DeadLetterJob.objects.using(alias).exists())
    assert "left a transaction open" in DeadLetterJob.objects.using(alias).get().exception_message
    assert Execution.objects.using(alias).get().root_id == instance.pk
    assert not Job.objects.using(alias).exists()


def test_more_instances_than_one_transaction_takes(alias, monkeypatch):
    monkeypatch.setattr(stepping, "_MOST", 2)
    for number in range(3):
        chain(echo.s(number), echo.s(number)).start(using=alias)
    found = ends(alias)
    with atomic(alias):
        assert proceed_together(alias, found) == {found[2][0].id}
    assert Execution.objects.using(alias).filter(job_id__in=[work.id for work, _ in found]).count() == 1


def test_middleware_that_returns_nothing_loses_no_step(alias, make_executor):
    chain(echo.s(1), echo.s(2)).start(using=alias)
    make_executor(MIDDLEWARE=[f"{__name__}.returns_nothing"]).start()
    until(lambda: over(alias))
    assert ProcessInstance.objects.using(alias).get().state == "completed"


def test_a_process_whose_steps_call_code_of_the_project_is_not_written_with_others():
    flow = Flow("f")
    first = flow.step(echo, 1)
    flow.step(within, after=first)  # which begins with a job of its own
    process, _ = compiled(flow)
    assert process.works_in_jobs
    work = Node("work", Kind.SERVICE_TASK, work=Work(handler="tests.shared.echo"))
    assert not replace(process, nodes=(*process.nodes, work)).works_in_jobs
    assert replace(process, nodes=(*process.nodes, replace(work, jobs=JobOptions(before=True)))).works_in_jobs
    assert not replace(process, nodes=(*process.nodes, Node("call", Kind.CALL_ACTIVITY))).works_in_jobs
    assert not replace(process, listeners=(Listener(When.START, "tests.listener"),)).works_in_jobs


def test_a_result_that_cannot_be_kept(alias):
    chain(echo.s(1), echo.s(2)).start(using=alias)
    ((work, (root, end, _)),) = ends(alias)
    with pytest.raises(DoNotRetry, match="cannot be kept"), atomic(alias):
        proceed_together(alias, [(work, End(root, JobDone(end.token, end.job, "x" * 2_000_000)))])
    assert Execution.objects.using(alias).get().job_id == work.id
