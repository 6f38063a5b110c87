"""Flows from their description to their end."""

import json
import re
from datetime import date, timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID

import pytest
from django.contrib.auth.models import Group
from django.core.management import CommandError, call_command
from django.db import OperationalError, transaction
from django.db.models import TextChoices

from demo_project.bookings.models import Booking
from jobexec import clock, job, publish_message
from jobexec.backends.compat import task, task_backends
from jobexec.exceptions import DoNotRetry, RetryIn
from jobexec.executor.execute_now import execute_now
from jobexec.handlers import registry
from jobexec.handlers.arguments import Arguments
from jobexec.handlers.context import JobContext, current_job
from jobexec.models import (
    Batch,
    BlockedJob,
    DeadLetterJob,
    Incident,
    Job,
    JobDefinition,
    JobLog,
    SuspendedJob,
    TimerJob,
)
from jobexec.operations import cancel as cancel_job
from jobexec.operations import hold_resource, release_resource, requeue
from jobexec.operations.enqueue.stored_calls import create_stored
from jobexec.operations.settle.fail import fail_jobs
from jobexec.operations.values.failure import Failure
from jobexec.operations.values.failure_log import failure_log
from jobexec.operations.values.run import Run
from jobexec.processes import definition
from jobexec.processes.definition import InvalidProcess, Kind, Node, Work
from jobexec.processes.engine.exceptions import BpmnError, StepError
from jobexec.processes.engine.inputs import JobFailed
from jobexec.processes.exceptions import MismatchingMessage
from jobexec.processes.flows import compiling
from jobexec.processes.flows.builder import Flow
from jobexec.processes.flows.calls import call
from jobexec.processes.flows.canvas import chain, parallel
from jobexec.processes.flows.terms import index, item, previous
from jobexec.processes.handlers import steps
from jobexec.processes.handlers.stepping import proceed
from jobexec.processes.models import ActivityInstance, Execution, ProcessDefinition, ProcessInstance, Variable
from jobexec.processes.operations.events import correlate
from jobexec.processes.operations.flows import start_flow
from jobexec.processes.operations.instances import cancel, set_retries, set_variables
from jobexec.processes.operations.query import view_of
from jobexec.processes.operations.suspend import activate, suspend
from jobexec.processes.operations.why import why
from jobexec.processes.signals import incident_opened
from jobexec.processes.store import definitions
from jobexec.processes.store import jobs as job_rows
from jobexec.redaction import load_calls
from jobexec.retry import RetryPlan
from jobexec.signals import job_cancelled, job_failed
from jobexec.testing import ManualExecutor, controlled_clock
from tests.support.threads import finish
from tests.support.threads import start as beside

CALLS = []


@pytest.fixture(autouse=True)
def calls():
    CALLS.clear()
    return CALLS


@job(name="tests.flows.note")
def note(name, result=None):
    CALLS.append(name)
    return result


note_inside = job(name="tests.flows.note_inside", atomic=True)(note.function)


@job(name="tests.flows.refuse", retries="R2/PT0S")
def refuse(name):
    CALLS.append(name)
    raise DoNotRetry("no")


def started(alias, flow):
    return flow.start(using=alias)


def final(alias, instance):
    return ProcessInstance.objects.using(alias).get(pk=instance.pk).final_variables


def state(alias, instance):
    return ProcessInstance.objects.using(alias).get(pk=instance.pk).state


def test_steps_run_one_after_the_other(alias, run_jobs):
    flow = Flow("order", business_key="4711")
    first = flow.step(note, "charge", {"amount": 5})
    flow.step(note, "ship", first.result["amount"], after=first)
    instance = started(alias, flow)
    assert instance.state == "active"
    charging = Job.objects.using(alias).get().pk
    run_jobs()
    assert CALLS == ["charge", "ship"]
    history = ActivityInstance.objects.using(alias)
    assert history.get(element_id="note").job_id == charging
    assert history.get(element_id="note_2").job_id not in (None, charging)
    found = ProcessInstance.objects.using(alias).get(pk=instance.pk)
    assert (found.state, found.business_key) == ("completed", "4711")
    assert found.final_variables["note_2"] == 5
    assert not Execution.objects.using(alias).exists()
    assert not Variable.objects.using(alias).exists()
    assert not Job.objects.using(alias).exists()


@pytest.mark.parametrize("key", ["shop:checkout", "shop:2:checkout", "shop:", "shop#1"])
def test_any_name_is_the_key_of_its_process(alias, run_jobs, key):
    flow = Flow(key)
    flow.step(note, "a", name="charge")
    instance = started(alias, flow)
    assert ProcessInstance.objects.using(alias).of(key).get() == instance
    job = Job.objects.using(alias).get()
    assert (job.process_definition_key, job.job_definition_id) == (key, f"{key}#charge#run")
    assert JobDefinition.objects.using(alias).filter(pk=job.job_definition_id).exists()
    assert suspend(key, using=alias) == 1
    assert run_jobs() == []
    activate(key, using=alias)
    run_jobs()
    assert CALLS == ["a"]


def test_a_join_waits_for_all(alias, run_jobs):
    flow = Flow("join")
    first = flow.step(note, "a")
    ends = [flow.step(note, name, after=first) for name in ("b", "c", "d")]
    flow.step(note, "e", after=ends)
    started(alias, flow)
    run_jobs()
    assert CALLS[0] == "a"
    assert sorted(CALLS[1:4]) == ["b", "c", "d"]
    assert CALLS[4:] == ["e"]


def test_a_step_is_skipped_with_what_comes_only_after_it(alias, run_jobs):
    flow = Flow("skip")
    first = flow.step(note, "a", 10)
    skipped = flow.step(note, "b", after=first, when=first.result > 10)
    after = flow.step(note, "c", after=skipped)
    other = flow.step(note, "d", after=first, when=first.result == 10)
    flow.step(note, "e", after.result, after=[after, other])
    instance = started(alias, flow)
    run_jobs()
    assert CALLS == ["a", "d", "e"]
    assert state(alias, instance) == "completed"


def test_the_first_branch_whose_condition_holds_is_taken(alias, run_jobs):
    flow = Flow("choose")
    first = flow.step(note, "a", "red")
    way = flow.choose(after=first)
    flow.step(note, "blue", after=way.when(first.result == "blue"))
    flow.step(note, "red", after=way.when(first.result == "red"))
    flow.step(note, "other", after=way.otherwise)
    started(alias, flow)
    run_jobs()
    assert CALLS == ["a", "red"]


def test_a_failure_has_a_way_of_its_own(alias, run_jobs):
    flow = Flow("fail")
    first = flow.step(refuse, "a")
    flow.step(note, "b", after=first)
    flow.step(note, "sorry", after=first.failed)
    other = flow.step(note, "other")
    flow.step(note, "always", after=[first.finished, (other, [other])])
    instance = started(alias, flow)
    run_jobs()
    assert sorted(CALLS[:2]) == ["a", "other"]
    assert sorted(CALLS[2:]) == ["always", "sorry"]
    assert state(alias, instance) == "completed"
    assert not DeadLetterJob.objects.using(alias).exists()


@job(name="tests.flows.broke", retries="R2/PT0S")
def broke(name):
    raise ValueError("no money")


broke_inside = job(name="tests.flows.broke_inside", retries="R2/PT0S", atomic=True)(broke.function)


@job(name="tests.flows.broke_async", retries="R2/PT0S")
async def broke_async(name):
    raise ValueError("no money")


@pytest.mark.parametrize("exclusive", [False, True], ids=["beside", "exclusive"])
@pytest.mark.parametrize("function", [broke, broke_inside, broke_async], ids=["outside", "inside", "async"])
def test_a_failure_that_has_a_way_is_recorded_and_needs_no_operator(alias, caplog, function, exclusive):
    flow = Flow("broke")
    first = flow.step(function.using(exclusive=exclusive), "a", name="charge")
    flow.step(note, "sorry", after=first.failed)
    instance = started(alias, flow)
    told = []
    failure_log.forget()

    def hear(error, job, **values):
        told.append(f"{type(job).__name__}: {error}")

    with caplog.at_level("INFO", "jobexec.execution"):
        job_failed.connect(hear)
        results = ManualExecutor(alias, reraise=True).run_until_empty
        try:
            with pytest.raises(ValueError, match="no money"):  # its first attempt
                results()
            ran = results()
        finally:
            job_failed.disconnect(hear)
    assert (CALLS, state(alias, instance)) == (["sorry"], "completed")
    (failed,) = (each for each in ran if not each.successful)
    assert (failed.outcome, str(failed.exception), failed.attempt, failed.became) == ("failed", "no money", 2, None)
    rows = JobLog.objects.using(alias).filter(job_id=failed.id).order_by("timestamp", "pk")
    assert [(row.state, row.attempt, row.retries) for row in rows] == [("failed", 1, 1), ("failed", 2, 0)]
    assert {row.exception_message for row in rows} == {"ValueError: no money"}
    assert all('raise ValueError("no money")' in row.exception_stack for row in rows)
    assert len({row.fingerprint for row in rows}) == 1
    lines = [each.getMessage() for each in caplog.records if each.levelname == "WARNING"]
    assert [line.partition("(attempt ")[2] for line in lines] == [
        "1): ValueError: no money",
        "2): ValueError: no money",
    ]
    assert told == ["TimerJob: no money", "Job: no money"]
    for table in (Job, TimerJob, DeadLetterJob, Incident):
        assert not table.objects.using(alias).exists()


@job(name="tests.flows.broke_cancelled", retries="R1/PT0S")
def broke_cancelled(context):
    cancel_job(context.id, using=context.using)
    raise ValueError("no money")


def test_a_step_that_is_cancelled_while_it_fails_is_told_of_as_cancelled(alias):
    flow = Flow("broke")
    flow.step(note, "sorry", after=flow.step(broke_cancelled, name="charge").failed)
    instance, told = started(alias, flow), []

    def hear(signal, **values):
        told.append("failed" if signal is job_failed else "cancelled")

    for each in (job_failed, job_cancelled):
        each.connect(hear)
    try:
        ManualExecutor(alias, reraise=False).run_until_empty()
    finally:
        for each in (job_failed, job_cancelled):
            each.disconnect(hear)
    logged = JobLog.objects.using(alias).filter(
        process_instance_id=str(instance.pk), handler_type__contains="cancelled"
    )
    assert (told, [row.state for row in logged]) == (["cancelled"], ["cancelled"])
    assert (CALLS, state(alias, instance)) == (["sorry"], "completed")


def test_a_join_does_not_go_on_without_a_step_that_failed(alias, run_jobs):
    flow = Flow("join")
    packed, charged = flow.step(note, "pack"), flow.step(refuse, "charge")
    billed = flow.step(note, "bill", after=charged)
    flow.step(note, "ship", after=[packed, charged])
    flow.step(note, "print", after=[packed, billed])
    flow.step(note, "greet", after=[packed, charged], when=charged.result == None)  # noqa: E711
    flow.step(note, "sorry", after=charged.failed)
    flow.step(note, "report", after=[packed, *charged.finished])
    instance = started(alias, flow)
    run_jobs()
    assert (sorted(CALLS), state(alias, instance)) == (["charge", "pack", "report", "sorry"], "completed")


def test_a_join_goes_on_if_the_step_does_not_fail_that_has_a_way_for_failures(alias, run_jobs):
    flow = Flow("join")
    packed, charged = flow.step(note, "pack"), flow.step(note, "charge", 5)
    flow.step(note, "ship", after=[packed, charged], when=charged.result == 5)
    flow.step(note, "greet", after=[packed, charged], when=charged.result == 6)
    flow.step(note, "sorry", after=charged.failed)
    instance = started(alias, flow)
    run_jobs()
    assert (sorted(CALLS), state(alias, instance)) == (["charge", "pack", "ship"], "completed")


@pytest.mark.gate
def test_a_join_after_very_many_steps_with_ways_for_failures(db):
    flow = Flow("join")
    steps = [flow.step(note, number, name=f"import_{number}_{'x' * 40}") for number in range(200)]
    flow.step(note, "alert", after=[each.failed for each in steps])
    joined = flow.step(note, "report", after=steps)
    for _ in range(3):
        joined = flow.step(note, "more", after=[joined, *steps[:2]])
    process, _ = compiling.compiled(flow)
    assert len(json.dumps(definition.to_json(process))) < 2_000 * len(steps)
    instance = started("default", flow)
    ManualExecutor("default").run_until_empty()
    assert (state("default", instance), CALLS[-4:]) == ("completed", ["report", "more", "more", "more"])


def test_what_a_flow_notes_about_a_failure_is_neither_shown_nor_kept(alias, run_jobs):
    flow = Flow("join")
    packed, charged = flow.step(note, "pack"), flow.step(refuse, "charge", name="charge")
    flow.step(note, "ship", after=[packed, charged])
    flow.step(note, "sorry", after=charged.failed)
    instance = started(alias, flow)
    run_jobs()
    view = view_of(alias, instance.pk)
    assert [each.name for each in view.values if "$" in each.name] == []
    assert not [name for name in view.instance.final_variables if "$" in name]


def test_what_comes_after_a_failure_can_stand_in_for_what_has_failed(alias, run_jobs):
    flow = Flow("join")
    packed, charged = flow.step(note, "pack"), flow.step(refuse, "charge")
    billed = flow.step(note, "bill", after=charged)
    by_hand = flow.step(note, "by hand", after=charged.failed)
    flow.step(note, "ship", after=[packed, billed, by_hand])
    flow.step(note, "greet", after=[packed, billed])
    started(alias, flow)
    run_jobs()
    assert sorted(CALLS) == ["by hand", "charge", "pack", "ship"]


def test_a_join_does_not_go_on_without_a_message_that_did_not_come_in_time(alias, run_jobs):
    flow = Flow("join")
    packed = flow.step(note, "pack")
    approved = flow.wait("approved", "1", timeout="PT1H")
    flow.step(note, "ship", after=[packed, approved])
    flow.step(note, "sorry", after=approved.timed_out)
    instance = started(alias, flow)
    run_jobs()
    with controlled_clock() as time:
        time.advance(timedelta(hours=2))
        run_jobs()
    assert (sorted(CALLS), state(alias, instance)) == (["pack", "sorry"], "completed")


def test_a_failure_that_is_caught_in_a_transaction_undoes_what_its_function_did(alias, run_jobs):
    flow = Flow("broke")
    first = flow.step(coroutine.using(retries="R1/PT0S"), "a", fail=True, name="charge")
    flow.step(note, "sorry", after=first.failed)
    started(alias, flow)
    id = Job.objects.using(alias).get().pk
    run_jobs()
    row = JobLog.objects.using(alias).get(job_id=id)
    assert (row.state, row.exception_message, CALLS) == ("failed", "ValueError: no", ["a", "sorry"])
    assert not Booking.objects.using(alias).exists()


def test_a_step_that_is_executed_now_and_has_a_way_for_its_failure(alias):
    flow = Flow("broke")
    first = flow.step(broke.using(retries="R1/PT0S"), "a", name="charge")
    flow.step(note, "sorry", after=first.failed)
    started(alias, flow)
    id = Job.objects.using(alias).get().pk
    with pytest.raises(ValueError, match="no money"):
        execute_now(id, using=alias)
    assert JobLog.objects.using(alias).get(job_id=id).state == "failed"
    assert Job.objects.using(alias).get().failed_activity_id == "note"
    assert not DeadLetterJob.objects.using(alias).exists()


@job(name="tests.flows.late", retries="R1/PT0S")
def late(context, name):
    """Goes on after its timeout, at which another thread of the executor has settled its job as failed."""
    CALLS.append(name)
    failure = Failure("JobTimeout: too late", kind="error", plan=RetryPlan.parse("R1/PT0S"))
    settled = [(context.work, failure, Run(clock.now(context.using), 1.0, "node"))]
    finish(beside(context.using, lambda: fail_jobs(context.using, settled)))
    context.timed_out = True
    if name != "result":
        raise BpmnError("LATE") if name == "error" else ValueError("late")


late_inside = job(name="tests.flows.late_inside", retries="R1/PT0S", atomic=True)(late.function)


@pytest.mark.transactional
@pytest.mark.databases("postgresql", "mariadb")
@pytest.mark.parametrize("ends", ["result", "error", "failure"])
@pytest.mark.parametrize("function", [late, late_inside], ids=["outside", "inside"])
def test_what_comes_after_the_timeout_is_a_failure_and_leaves_no_dead_letter(alias, run_jobs, function, ends):
    flow = Flow("late")
    first = flow.step(function, ends, name="late")
    flow.step(note, "b", after=first)
    flow.step(note, "sorry", after=first.failed)
    instance = started(alias, flow)
    run_jobs()
    assert (CALLS, state(alias, instance)) == ([ends, "sorry"], "completed")
    assert not DeadLetterJob.objects.using(alias).exists()
    assert not Incident.objects.using(alias).filter(state="open").exists()


@pytest.mark.transactional
@pytest.mark.databases("postgresql", "mariadb")  # another thread writes beside the transaction of the step
@pytest.mark.parametrize("function", [late, late_inside], ids=["outside", "inside"])
def test_a_result_that_comes_after_the_timeout_is_not_taken(alias, run_jobs, function):
    flow = Flow("late")
    flow.step(note, "b", after=flow.step(function, "result", name="late"))
    instance = started(alias, flow)
    run_jobs()
    assert (CALLS, state(alias, instance)) == (["result"], "active")
    assert DeadLetterJob.objects.using(alias).get().failed_activity_id == "late"


@job(name="tests.flows.refuse_inside", atomic=True, retries="R3/PT0S")
def refuse_inside(name):
    CALLS.append(name)
    raise DoNotRetry("no")


@pytest.mark.parametrize("exclusive", [False, True])
def test_a_failure_in_a_transaction_has_its_way_at_once_if_it_must_not_be_tried_again(alias, run_jobs, exclusive):
    flow = Flow("fail")
    first = flow.step(refuse_inside.using(exclusive=exclusive), "a")
    flow.step(note, "b", after=first)
    flow.step(note, "sorry", after=first.failed)
    instance = started(alias, flow)
    run_jobs()
    assert (CALLS, state(alias, instance)) == (["a", "sorry"], "completed")
    assert not DeadLetterJob.objects.using(alias).exists()


def test_a_function_that_must_not_be_tried_again_is_not_because_the_process_cannot_continue(alias, run_jobs):
    flow = Flow("compare")
    first = flow.step(note, "charge", "much")
    second = flow.step(refuse, "a", after=first)
    flow.step(note, "sorry", after=second.failed, when=first.result > 1)
    instance = started(alias, flow)
    run_jobs()
    assert (CALLS, state(alias, instance)) == (["charge", "a"], "active")
    dead = DeadLetterJob.objects.using(alias).get()
    assert (dead.failed_activity_id, dead.attempts) == ("refuse", 1)
    assert "DoNotRetry: no (the process cannot continue after this failure: NoValue: " in dead.exception_message


def test_a_failure_without_a_way_waits_for_an_operator(alias, run_jobs):
    flow = Flow("incident")
    first = flow.step(refuse, "a")
    flow.step(note, "b", after=first)
    instance = started(alias, flow)
    run_jobs()
    assert state(alias, instance) == "active"
    dead = DeadLetterJob.objects.using(alias).get()
    assert dead.failed_activity_id == "refuse"
    requeue(dead)
    run_jobs()
    assert CALLS == ["a", "a"]


def test_a_function_that_has_run_is_not_repeated_because_the_process_cannot_continue(alias, run_jobs):
    flow = Flow("compare")
    first = flow.step(note, "charge", "much")
    flow.step(note, "ship", after=first, when=first.result > 1)
    instance = started(alias, flow)
    run_jobs()
    assert CALLS == ["charge"]
    dead = DeadLetterJob.objects.using(alias).get()
    assert (dead.failed_activity_id, dead.attempts, state(alias, instance)) == ("note", 1, "active")
    assert "It has run, but the process cannot continue after it: NoValue: " in dead.exception_message


@pytest.mark.parametrize(
    ("use", "told"),
    [
        (lambda flow, step: flow.step(note, step.result["amuont"], after=step), "note_2: .* has no item 'amuont'"),
        (
            lambda flow, step: flow.step(note, "b", after=step, when=step.result["amuont"] > 3),
            "if.note_2: .* has no item 'amuont'",
        ),
        (lambda flow, step: flow.map(note, over=step.result["amuont"], after=step), "note_2: .* no item 'amuont'"),
        (lambda flow, step: flow.step(note, step.result["list"][1], after=step), "note_2: .* 1 items, and none at 1"),
    ],
)
def test_an_item_that_a_result_does_not_have_is_an_incident(alias, run_jobs, use, told):
    flow = Flow("order")
    use(flow, flow.step(note, "a", {"amount": 5, "list": [1]}))
    instance = started(alias, flow)
    run_jobs()
    (dead,) = DeadLetterJob.objects.using(alias)
    assert re.search(told, dead.exception_message), dead.exception_message
    assert (CALLS, state(alias, instance)) == (["a"], "active")


def test_an_item_that_may_be_missing_and_those_of_a_step_that_was_skipped_are_none(alias, run_jobs):
    flow = Flow("order")
    first = flow.step(note, "a", {"amount": None})
    skipped = flow.step(note, "b", after=first, when=first.result["amount"] == 5)
    used = [first.result.get("or"), first.result["amount"]["b"], skipped.result["c"][0], skipped.result.get("d")]
    flow.step(note, [*used, first.result.get("e").is_empty()], after=[first, skipped])
    started(alias, flow)
    run_jobs()
    assert CALLS == ["a", [None, None, None, None, True]]


def test_a_map_over_the_result_of_a_step_that_was_skipped_has_no_items(alias, run_jobs):
    flow = Flow("map")
    first = flow.step(note, "a", 1)
    skipped = flow.step(note, "b", after=first, when=first.result > 1)
    mapped = flow.map(note, over=skipped.result, after=[first, skipped])
    flow.step(note, "end", mapped.result, after=mapped)
    instance = started(alias, flow)
    run_jobs()
    assert (CALLS, state(alias, instance)) == (["a", "end"], "completed")


def test_a_step_runs_for_each_item(alias, run_jobs):
    flow = Flow("map")
    listed = flow.step(note, "list", [1, 2, 3])
    mapped = flow.map(note, over=listed.result, after=listed)
    flow.step(note, "end", mapped.result, after=mapped)
    instance = started(alias, flow)
    run_jobs()
    assert (CALLS[0], sorted(CALLS[1:4]), CALLS[4]) == ("list", [1, 2, 3], "end")
    assert ProcessInstance.objects.using(alias).get(pk=instance.pk).final_variables["note_3"] == [None, None, None]


@job(name="tests.flows.coroutine", atomic=True)
async def coroutine(context, name, fail=False):
    CALLS.append(name)
    assert current_job() is context
    days = {"arrival": date(2026, 5, 1), "departure": date(2026, 5, 2)}
    await Booking.objects.using(context.using).acreate(visitor=name, city="Athens", **days)
    if fail:
        raise ValueError("no")
    return context.attempt


@pytest.mark.every_database
@pytest.mark.parametrize("function", [note, note_inside], ids=["outside", "inside"])
def test_any_text_is_an_argument(alias, run_jobs, function):
    """Also one whose JSON has escapes that might be those of U+0000, or of half a character."""
    text = "\N{ROCKET} \\u0000 \\ud83d"
    flow = Flow("texts")
    flow.step(function, text, result=[text], name="step")
    instance = started(alias, flow)
    run_jobs()
    assert (CALLS, final(alias, instance)["step"]) == ([text], [text])


@pytest.mark.parametrize("function", [note, note_inside], ids=["outside", "inside"])
def test_arguments_that_a_function_does_not_have_any_more(alias, run_jobs, monkeypatch, function):
    """It has changed since the flow was started: that is no reason to try again."""
    flow = Flow("changed")
    flow.step(function, "a")
    instance = started(alias, flow)
    monkeypatch.setattr(function, "arguments", Arguments(lambda: None, "tests.note", False, ()))
    run_jobs()
    (dead,) = DeadLetterJob.objects.using(alias)
    assert dead.exception_message.startswith("UnreadableJob: The arguments in the row cannot be read for tests.note")
    assert (dead.attempts, CALLS, state(alias, instance)) == (1, [], "active")


@pytest.mark.transactional
def test_a_coroutine_runs_in_the_transaction_of_a_step(alias, run_jobs):
    flow = Flow("coroutine")
    first = flow.step(coroutine, "a")
    second = flow.step(coroutine.using(retries="R1/PT0S"), "b", fail=True, after=first)
    flow.step(note, "sorry", after=second.failed)
    instance = started(alias, flow)
    run_jobs()
    assert (CALLS, state(alias, instance)) == (["a", "b", "sorry"], "completed")
    assert final(alias, instance)["coroutine"] == 1, "its first attempt"
    assert list(Booking.objects.using(alias).values_list("visitor", flat=True)) == ["a"]


@job(name="tests.flows.beside")
def beside_a_caller(context, name):
    CALLS.append((context, name))
    return name


@pytest.mark.gate
def test_a_function_in_the_step_of_a_caller_has_no_context(alias):
    """No flow has such a step: each of its steps begins with a job."""
    work = Work("tests.flows.beside", arguments={"args": ["a"], "kwargs": {}}, result_variable="told")
    nodes = Node("s", Kind.START_EVENT), Node("t", Kind.SERVICE_TASK, work=work), Node("e", Kind.END_EVENT)
    ways = definition.Flow("1", "s", "t"), definition.Flow("2", "t", "e")
    instance = start_flow(alias, definition.Process("beside", nodes, ways), {})
    assert (CALLS, instance.state) == ([(None, "a")], "completed")
    assert final(alias, instance) == {"told": "a"}


def customer_of(name, customer=""):
    return f"customer:{customer}" if customer else None


@job(name="tests.flows.of_customer", resource=customer_of)
def of_customer(name, customer=""):
    CALLS.append(name)
    return [customer]


of_customer_inside = job(name="tests.flows.of_customer_inside", resource=customer_of, atomic=True)(of_customer.function)
#: As a step of its own, and in the transaction of a step.
BOTH = pytest.mark.parametrize("function", [of_customer, of_customer_inside], ids=["outside", "inside"])


with registry.isolated():  # without a key, the checks of other tests would find it

    @job(name="tests.flows.secret", encrypted=True)
    def secret(name):
        pass


class TestResources:
    @pytest.fixture(autouse=True)
    def limits(self, settings):
        settings.JOBEXEC = {**settings.JOBEXEC, "RESOURCES": {"customer:*": {"limit": 1}, "tenant:acme": {"limit": 2}}}

    def resources(self, alias):
        waiting = BlockedJob.objects.using(alias).values_list("failed_activity_id", "resource")
        return sorted(waiting), Job.objects.using(alias).count()

    @BOTH
    @pytest.mark.gate
    def test_a_step_has_that_which_its_function_makes_of_the_arguments(self, alias, run_jobs, function):
        flow = Flow("resources")
        first = flow.step(function, "first", "17", name="first")
        second = flow.step(function, "second", first.result[0], after=first, name="second")
        flow.step(function, "none", after=second, name="none")
        instance = started(alias, flow)
        assert self.resources(alias) == ([("first", "customer:17")], 0)
        hold_resource("customer:17", using=alias)
        run_jobs()
        assert CALLS == []
        release_resource("customer:17", using=alias)
        ManualExecutor(alias).run_next()
        assert self.resources(alias) == ([("second", "customer:17")], 0)
        run_jobs()
        assert (CALLS, state(alias, instance)) == (["first", "second", "none"], "completed")

    @pytest.mark.parametrize(
        ("function", "most"),
        [(of_customer, 100), (of_customer, 1), (of_customer_inside, 100), (of_customer_inside, 1)],
        ids=["tokens", "batch", "inside", "batch inside"],
    )
    def test_each_item_has_its_own(self, alias, run_jobs, monkeypatch, function, most):
        monkeypatch.setattr(compiling, "BATCH_FROM", most)
        flow = Flow("resources of items")
        flow.map(function, "item", item, over=["17", "18"], name="items")
        instance = started(alias, flow)
        assert self.resources(alias) == ([("items", "customer:17"), ("items", "customer:18")], 0)
        run_jobs()
        assert (CALLS, state(alias, instance)) == (["item", "item"], "completed")

    @BOTH
    def test_that_of_its_tenant_otherwise(self, alias, run_jobs, function):
        flow = Flow("tenants", tenant_id="acme")
        flow.step(note, "a")
        flow.step(note_inside, "b")
        flow.step(function, "c")
        started(alias, flow)
        assert self.resources(alias) == ([("note", "tenant:acme"), ("note_inside", "tenant:acme")], 1)
        run_jobs()
        assert sorted(CALLS) == ["a", "b", "c"]

    def test_that_of_its_tenant_does_not_hold_back_what_follows_the_items(self, alias, run_jobs, monkeypatch):
        monkeypatch.setattr(compiling, "BATCH_FROM", 1)
        flow = Flow("tenants", tenant_id="acme")
        flow.map(of_customer, "item", item, over=["17", "18"], name="items")
        instance = started(alias, flow)
        hold_resource("tenant:acme", using=alias)
        run_jobs()
        assert (CALLS, state(alias, instance)) == (["item", "item"], "completed")

    def test_one_that_cannot_be_used_is_named_with_its_step(self, alias, run_jobs, settings):
        flow = Flow("wrong resource")
        first = flow.step(note.using(retries="R1/PT0S"), "first")
        flow.step(of_customer, "second", "17", after=first, name="second")
        started(alias, flow)
        settings.JOBEXEC = {**settings.JOBEXEC, "RESOURCES": {}}
        run_jobs()
        (dead,) = DeadLetterJob.objects.using(alias)
        assert "second: Its resource cannot be used: resource: expected a name that RESOURCES" in dead.exception_message


PLANS: dict[str, Any] = {"never": lambda failures, error: None, "later": lambda failures, error: timedelta(hours=5)}


def fail_with(kind):
    CALLS.append(kind)
    if kind == "conflict":
        raise OperationalError("database is locked")
    if kind == "snooze":
        raise RetryIn(1, count=False)
    raise ValueError(kind)


def failing(plan, atomic):
    with registry.isolated():
        return job(name=f"tests.flows.fail_{atomic}_{plan}", retries=PLANS.get(plan, plan), atomic=atomic)(fail_with)


#: By their plans, and by whether they run in the transaction of a step.
FAILING = {(plan, atomic): failing(plan, atomic) for plan in ("never", "later", "R1/PT1S") for atomic in (False, True)}


@pytest.mark.every_database
@pytest.mark.parametrize("atomic", [False, True], ids=["outside", "inside"])
class TestFailuresByThePlanOfTheFunction:
    @pytest.fixture(autouse=True)
    def known(self):
        with registry.isolated():
            for function in FAILING.values():
                registry.register(function)
            yield

    def start(self, alias, plan, atomic, kind, has_way=True):
        flow = Flow("fails")
        step = flow.step(FAILING[plan, atomic], kind, name="fails")
        if has_way:
            flow.step(note, "sorry", after=step.failed)
        return started(alias, flow)

    @pytest.mark.parametrize(
        ("plan", "kind"), [("never", "error"), ("R1/PT1S", "conflict"), ("R1/PT1S", "snooze"), ("R1/PT1S", "error")]
    )
    def test_the_last_one_takes_the_way_for_failures(self, alias, settings, run_jobs, plan, kind, atomic):
        """Which is the last one is decided as for every job: by the plan, and by the limits."""
        settings.JOBEXEC = {**settings.JOBEXEC, "MAX_CONFLICTS": 0, "MAX_SNOOZES": 0}
        instance = self.start(alias, plan, atomic, kind)
        run_jobs()
        assert (CALLS, state(alias, instance)) == ([kind, "sorry"], "completed")
        assert not DeadLetterJob.objects.using(alias).exists()

    def test_also_while_the_executor_stops(self, alias, run_jobs, monkeypatch, atomic):
        monkeypatch.setattr(JobContext, "shutting_down", True)
        instance = self.start(alias, "R1/PT1S", atomic, "error")
        run_jobs()
        assert (CALLS, state(alias, instance)) == (["error", "sorry"], "completed")

    @pytest.mark.parametrize("kind", ["conflict", "snooze"])
    def test_one_that_costs_nothing_is_not_the_last(self, alias, run_jobs, kind, atomic):
        self.start(alias, "never", atomic, kind)
        ManualExecutor(alias, reraise=False).run_due()
        assert (CALLS, TimerJob.objects.using(alias).get().retries) == ([kind], 3)

    def test_a_callable_says_when_it_is_tried_again(self, alias, atomic):
        self.start(alias, "later", atomic, "error")
        with controlled_clock():
            now = clock.now(alias)
            ManualExecutor(alias, reraise=False).run_due()
            row = TimerJob.objects.using(alias).get()
        assert (row.retries, row.due_date - now) == (2, timedelta(hours=5))

    def test_a_callable_says_that_it_is_not_tried_again(self, alias, run_jobs, atomic):
        self.start(alias, "never", atomic, "error", has_way=False)
        run_jobs()
        assert (CALLS, DeadLetterJob.objects.using(alias).get().attempts) == (["error"], 1)


OPTIONS: Any = {
    "retries": "R7/PT9S",
    "priority": 5,
    "category": "mail",
    "timeout": "PT9S",
    "headers": {"shop": "north"},
}
with_options = job(name="tests.flows.with_options", **OPTIONS)(lambda name: None)
with_options_inside = job(name="tests.flows.with_options_inside", atomic=True, **OPTIONS)(lambda name: None)


@pytest.mark.every_database
@pytest.mark.parametrize("function", [with_options, with_options_inside], ids=["outside", "inside"])
@pytest.mark.parametrize("by_map", [False, True], ids=["step", "map"])
def test_a_step_has_the_options_of_its_function(alias, settings, function, by_map):
    """Also if the function runs in the transaction of the step; those of the step itself come first."""
    settings.JOBEXEC = {"ENGINES": {alias: {}}, "CATEGORIES": ["default", "mail"]}
    flow = Flow("options")
    if by_map:
        flow.map(function, item, over=["a"], name="usual")
    else:
        flow.step(function, "a", name="usual")
    flow.step(function.using(priority=9, retries="R2/PT1S"), "b", name="special")
    started(alias, flow)
    rows = {row.failed_activity_id: row for row in Job.objects.using(alias)}
    found = {
        name: (row.retry_plan, row.retries, row.priority, row.category, row.timeout, row.custom_headers, row.atomic)
        for name, row in rows.items()
    }
    rest = ("mail", timedelta(seconds=9), {"shop": "north"}, function is with_options_inside)
    assert found == {"usual": ("R7/PT9S", 7, 5, *rest), "special": ("R2/PT1S", 2, 9, *rest)}
    for row in rows.values():
        definition = JobDefinition.objects.using(alias).get(pk=row.job_definition_id)
        said = (definition.retry_plan, definition.priority, definition.category, definition.atomic)
        assert said == (row.retry_plan, row.priority, row.category, row.atomic)


def test_one_shape_is_stored_once(alias, run_jobs):
    for number in range(3):
        flow = Flow("shape")
        flow.step(note, f"order {number}")
        started(alias, flow)
    run_jobs()
    assert sorted(CALLS) == ["order 0", "order 1", "order 2"]
    assert ProcessDefinition.objects.using(alias).count() == 1


@pytest.mark.gate
def test_a_wait_that_nobody_ends_is_an_incident_after_its_timeout(alias, run_jobs):
    flow = Flow("wait")
    flow.wait("approved", key="4711", timeout="P3D")
    with controlled_clock() as clock:
        instance = started(alias, flow)
        run_jobs()
        assert state(alias, instance) == "active"
        clock.advance(timedelta(days=4))
        run_jobs()
    assert DeadLetterJob.objects.using(alias).get().exception_message.startswith("Nothing catches the error TIMEOUT")


class Colour(TextChoices):
    RED = "red"


@pytest.mark.parametrize(
    ("value", "found"),
    [
        ((1, (2,)), [1, [2]]),
        (UUID(int=1), str(UUID(int=1))),
        (Colour.RED, "red"),
        ({1: Colour.RED, None: [UUID(int=2)], Colour.RED: True}, {"1": "red", "null": [str(UUID(int=2))], "red": True}),
        (Decimal("1.5"), "1.5"),
        (date(2026, 5, 1), "2026-05-01"),
    ],
)
def test_values_are_those_that_json_makes_of_them(alias, run_jobs, value, found):
    """As of the arguments of a job: known ones, items, variables and results, alone and beside others."""
    note.using(database=alias).enqueue("usual", value)
    assert Job.objects.using(alias).get().handler_configuration["args"][1] == found
    Job.objects.using(alias).all().delete()
    flow = Flow("values", variables={"order": value})
    first = flow.step(note, value, value, name="first")
    second = flow.map(note, over=(value,), after=first)
    third = flow.step(note, flow.variable("order"), after=second)
    fourth = flow.step(note, [first.result, value], (first.result == "x", {"of": [value]}), after=third)
    flow.step(note, fourth.result, after=fourth)
    instance = started(alias, flow)
    run_jobs()
    assert CALLS[:3] == [found] * 3
    assert CALLS[3:] == [[found, found], [False, {"of": [found]}]]
    assert final(alias, instance)["first"] == found
    assert "2026" not in ProcessDefinition.objects.using(alias).get().model, "what is known is no part of the shape"


def foreign():
    return Flow("other").step(note, "x").result


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        (lambda flow, step: flow.step(note), "missing a required argument: 'name'"),
        (lambda flow, step: flow.step(note, "b", after=Flow("other").step(note, "x")), "belongs to another flow"),
        (lambda flow, step: flow.step(note, "b", after="note"), "expected a step, or steps, of this flow, got 'note'"),
        (lambda flow, step: flow.step(note, "b", after=[[note]]), "expected a step, or steps, of this flow, got <job"),
        (lambda flow, step: flow.step(note, "b", after=step.result), "expected a step, .* got <note>"),
        (lambda flow, step: flow.step(note, step.result), "does not come before it"),
        (lambda flow, step: flow.step(note, "b", name=step.id), "has this name"),
        (lambda flow, step: flow.step(note, "b", when=True), "expected a condition"),
        (lambda flow, step: flow.sleep("five"), "ISO 8601 duration"),
        (lambda flow, step: bool(step.result), "has no value yet"),
        (lambda flow, step: f"amount {step.result['amount']}", "has no text yet"),
        (lambda flow, step: str(step.result), "has no text yet"),
        (lambda flow, step: step.result[-1], "counts from 0, got -1"),
        (lambda flow, step: step.result.get("first-name"), "expected a name of letters"),
        (lambda flow, step: flow.wait("", key="k"), "name of a message"),
        (lambda flow, step: flow.step(secret, "a"), "secret: Expected a function that is not encrypted"),
        (lambda flow, step: flow.step(secret.s("a")), "secret: Expected a function that is not encrypted"),
        (lambda flow, step: flow.map(secret, over=["a"]), "secret: Expected a function that is not encrypted"),
        (lambda flow, step: flow.step(note, "b", compensate=secret.s("a")), "secret: Expected a function that is not"),
        (lambda flow, step: flow.wait("m", key=""), "key: expected"),
        (lambda flow, step: flow.step(note, previous, after=step), "<previous> can be used only in the calls of chain"),
        (lambda flow, step: flow.step(note, item["a"]), "<item.*> can be used only in the arguments of map"),
        (lambda flow, step: flow.map(note, over=index), "<loopCounter> can be used only in the arguments of map"),
        (lambda flow, step: flow.map(note, previous, over=["a"]), "<previous> can be used only in the calls"),
        (lambda flow, step: flow.step(note, "b", compensate=call(note, step.result)), "does not come before it"),
        (lambda flow, step: flow.step(note, "b", compensate=call(note, foreign())), "belongs to another flow"),
        (lambda flow, step: chain(parallel(note.s("a")), call(note, previous["x"])).flow(), "is a list of 1 results"),
        (lambda flow, step: chain(parallel(note.s("a")), call(note, previous[1])).flow(), "is a list of 1 results"),
    ],
)
def test_what_is_wrong_is_said_where_it_is_written(wrong, told):
    flow = Flow("wrong")
    step = flow.step(note, "a")
    with pytest.raises(InvalidProcess, match=told):
        wrong(flow, step)


@pytest.mark.parametrize(
    "add",
    [
        lambda flow, step, way: flow.step(note, "b", after=step),
        lambda flow, step, way: flow.wait("approved", key="k", after=step),
        lambda flow, step, way: way.when(step.result == 1),
    ],
)
def test_nothing_is_added_to_a_flow_that_has_been_started(alias, add):
    flow = Flow("order")
    step = flow.step(note, "a")
    way = flow.choose(after=step)
    instance = started(alias, flow)
    with pytest.raises(InvalidProcess, match=f"has been started, as {instance.pk}"):
        add(flow, step, way)


def test_chains_and_what_runs_beside_each_other(alias, run_jobs):
    flow = chain(
        note.s("a", 1),
        parallel(call(note, "b", 2), chain(call(note, "c", 3), call(note, "d", previous))),
        call(note, "e", previous),
    ).flow("canvas", business_key="4711")
    instance = started(alias, flow)
    run_jobs()
    assert (CALLS[0], sorted(CALLS[1:4]), CALLS[4]) == ("a", ["b", "c", "d"], "e")
    found = ProcessInstance.objects.using(alias).get(pk=instance.pk)
    assert found.definition_key == "canvas"
    assert found.final_variables["note_5"] == [2, 3]
    with pytest.raises(InvalidProcess, match="Nothing comes before"):
        chain(call(note, "a", previous)).flow()


def test_parts_of_the_previous_result(alias, run_jobs):
    both = parallel(call(note, "c", previous["b"]), parallel(call(note, "d", [3]), call(note, "previous", 4)))
    flow = chain(call(note, "a", {"b": 2}), both, call(note, [previous[0] + previous[1][0][0], previous[1]])).flow()
    started(alias, flow)
    run_jobs()
    assert (CALLS[0], sorted(CALLS[1:4]), CALLS[4]) == ("a", ["c", "d", "previous"], [5, [[3], 4]])


def test_what_undoes_a_step_knows_its_result(alias, run_jobs):
    flow = Flow("order")
    first = flow.step(note, "a", {"receipt": 7}, compensate=call(note, ["undo", previous["receipt"], "previous"]))
    second = flow.step(note, "b", 8, after=first, compensate=call(note, [previous, first.result["receipt"]]))
    flow.wait("never", key="k", after=second)
    instance = started(alias, flow)
    run_jobs()
    cancel(instance)
    run_jobs()
    assert CALLS == ["a", "b", [8, 7], ["undo", 7, "previous"]]
    assert state(alias, instance) == "cancelled"


def cannot_be_undone(alias, run_jobs):
    flow = Flow("order")
    first = flow.step(note, "a", "much", compensate=call(note, previous * 2))
    flow.wait("never", key="k", after=first)
    instance = started(alias, flow)
    run_jobs()
    return instance


def test_a_cancellation_says_which_expression_has_no_value(alias, run_jobs):
    instance = cannot_be_undone(alias, run_jobs)
    told = "undo.note: .*'much' is not a number"
    with pytest.raises(StepError, match=told):
        cancel(instance)
    with pytest.raises(CommandError, match=told):
        call_command("processes", "--database", alias, "cancel", str(instance.pk))
    assert state(alias, instance) == "active"
    set_variables(instance, {"note": 4})
    cancel(instance)
    run_jobs()
    assert (CALLS, state(alias, instance)) == (["a", 8], "cancelled")


@pytest.mark.gate
def test_a_cancelled_chain_never_goes_on(alias, run_jobs):
    flow = Flow("order")
    first = flow.step(note, "a", compensate=note.s("undo a"))
    second = flow.step(note, "b", after=first)
    wait = flow.wait("never", key="k", after=second)
    flow.step(note, "c", after=wait)
    instance = started(alias, flow)
    run_jobs()
    cancel(instance)
    run_jobs()
    assert CALLS == ["a", "b", "undo a"]
    assert state(alias, instance) == "cancelled"


def test_a_flow_undoes_what_is_done_when_its_deadline_has_passed(alias, run_jobs):
    with controlled_clock() as clock:
        flow = Flow("order", deadline="PT1H")
        first = flow.step(note, "a", compensate=note.s("undo a"))
        flow.sleep("P1D", after=first)
        instance = started(alias, flow)
        run_jobs()
        clock.advance(timedelta(hours=2))
        run_jobs()
    assert CALLS == ["a", "undo a"]
    found = ProcessInstance.objects.using(alias).get(pk=instance.pk)
    assert (found.state, found.end_element) == ("terminated", "deadline")
    assert found.delete_reason == "The deadline has passed."


def test_a_flow_that_is_cancelled_while_its_deadline_undoes_is_undone_nevertheless(alias, run_jobs):
    with controlled_clock() as clock:
        flow = Flow("order", deadline="PT1H")
        first = flow.step(note, "a", compensate=note.s("undo a"))
        second = flow.step(note, "b", after=first, compensate=note.s("undo b"))
        flow.sleep("P1D", after=second)
        instance = started(alias, flow)
        run_jobs()
        clock.advance(timedelta(hours=2))
        ManualExecutor(alias).run_due(1)  # the deadline
        cancel(instance)
        run_jobs()
    assert CALLS == ["a", "b", "undo b", "undo a"]
    assert state(alias, instance) == "cancelled"


def test_what_a_message_brings_is_the_result_of_its_wait(alias, run_jobs):
    flow = Flow("order")
    wait = flow.wait("approved", key=4711)
    flow.step(note, "go", wait.result["by"], after=wait)
    instance = started(alias, flow)
    with pytest.raises(MismatchingMessage):
        correlate("approved", key="4712", using=alias)
    correlate("approved", key="4711", variables={"by": "anna"}, using=alias)
    run_jobs()
    assert ProcessInstance.objects.using(alias).get(pk=instance.pk).final_variables["note"] == "anna"


def test_a_published_message_reaches_the_flow_that_waits_for_its_key(alias, run_jobs):
    flow = Flow("order")
    wait = flow.wait("approved", key="4711")
    flow.step(note, "go", wait.result["by"], after=wait)
    instance = started(alias, flow)
    publish_message("approved", key="4712", payload={"by": "bert"}, using=alias)
    publish_message("approved", key="4711", payload={"by": "anna"}, using=alias)
    run_jobs()
    assert ProcessInstance.objects.using(alias).get(pk=instance.pk).final_variables["note"] == "anna"
    assert not BlockedJob.objects.using(alias).exists()


@pytest.mark.parametrize("payload", ["yes", ["a", "b"], 7, True, None, {}, {"payload": 1}])
def test_the_payload_is_the_result_of_the_wait(alias, run_jobs, payload):
    """The key may be the result of a step."""
    flow = Flow("order")
    first = flow.step(note, "a", {"id": 4711})
    wait = flow.wait("approved", key=first.result["id"], after=first, name="approval")
    flow.step(note, "go", wait.result, after=wait)
    instance = started(alias, flow)
    run_jobs()
    publish_message("approved", key="4711", payload=payload, using=alias)
    run_jobs()
    found = final(alias, instance)
    assert (found["approval"], found["note_2"]) == (payload, payload)


def test_a_wait_whose_key_is_none_is_an_incident(alias, run_jobs):
    """No message would ever come."""
    flow = Flow("order")
    first = flow.step(note, "a", {"id": None}, name="charged")
    flow.wait("approved", key=first.result["id"], after=first)
    started(alias, flow)
    run_jobs()
    (reason,) = Incident.objects.using(alias).values_list("message", flat=True)
    assert "approved: The key of its message must be a text or a number, not None" in reason


def test_a_message_that_is_kept_reaches_a_flow_that_waits_later(alias, run_jobs):
    publish_message("approved", key="4711", payload={"by": "anna"}, ttl="PT1H", using=alias)
    flow = Flow("order")
    flow.wait("approved", key="4711")
    instance = started(alias, flow)
    run_jobs()
    assert state(alias, instance) == "completed"


def test_nothing_waits_for_a_message_any_more_after_a_correlation_or_a_cancellation(alias, run_jobs):
    for end in (lambda row: correlate("approved", key="4711", using=alias), cancel):
        flow = Flow("order")
        flow.wait("approved", key="4711")
        instance = started(alias, flow)
        assert BlockedJob.objects.using(alias).count() == 1
        end(instance)
        assert not BlockedJob.objects.using(alias).exists()


@job(name="tests.flows.cancel_itself", retries="R1/PT0S")
def cancel_itself(alias):
    cancel(ProcessInstance.objects.using(alias).get())
    raise ValueError("too late")


def test_a_failure_of_what_was_cancelled_meanwhile_is_no_dead_letter(alias, run_jobs):
    flow = Flow("order")
    flow.step(cancel_itself, alias)
    instance = started(alias, flow)
    run_jobs()
    assert state(alias, instance) == "cancelled"
    assert not DeadLetterJob.objects.using(alias).exists()
    assert not Job.objects.using(alias).exists()


@job(name="tests.flows.cancel_and_look", retries="R1/PT0S")
def cancel_and_look(context, alias, looks):
    cancel(ProcessInstance.objects.using(alias).get())
    context.work.cancel_requested = Job.objects.using(alias).get(pk=context.id).cancel_requested  # as its node sees it
    CALLS.append(context.cancelled if looks else context.work.cancel_requested)


@pytest.mark.parametrize("looks", [True, False])
def test_a_step_that_runs_when_its_flow_is_cancelled_is_asked_to_stop(alias, run_jobs, looks):
    flow = Flow("order")
    flow.step(note, "b", after=flow.step(cancel_and_look, alias, looks, compensate=note.s("undone")))
    instance = started(alias, flow)

    results = run_jobs()
    assert [each.outcome for each in results] == ["cancelled" if looks else "successful"]
    assert (CALLS, state(alias, instance)) == ([True], "cancelled")
    assert not Job.objects.using(alias).exists()


def test_a_message_that_did_not_come_in_time_is_told_in_a_sentence(alias, run_jobs):
    flow = Flow("late")
    flow.wait("approved", "1", timeout="PT1H")
    started(alias, flow)
    with controlled_clock() as time:
        time.advance(timedelta(hours=2))
        run_jobs()
    told = "Nothing catches the error TIMEOUT: No message approved arrived in time."
    assert Incident.objects.using(alias).get().message.endswith(told)


@pytest.mark.parametrize("function", [note_inside, refuse_inside], ids=["waits", "dead letter"])
def test_the_job_of_a_step_in_a_transaction_is_shown_by_its_element(alias, run_jobs, function):
    flow = Flow("order")
    flow.step(function, "a", name="ship")
    started(alias, flow)
    if function is refuse_inside:
        run_jobs()
    table = DeadLetterJob if function is refuse_inside else Job
    (job,) = table.objects.using(alias)
    assert load_calls([job], alias) == {job.pk: "order: ship"}


@pytest.fixture
def long_from_20(monkeypatch):
    """Lists of more than 20 items are long, and their jobs are made in pages of 10."""
    monkeypatch.setattr(compiling, "BATCH_FROM", 20)
    monkeypatch.setattr(job_rows, "_PAGE", 10)


def run_items(run_jobs, begin, then=None):
    """Run the jobs of the items, and what follows them when their batch has looked, which it does from time to time."""
    with controlled_clock() as clock:
        instance = begin()
        for act in (then, None):
            run_jobs()
            clock.advance(timedelta(hours=1))
            run_jobs()
            if act is not None:
                act(instance)
    return instance


@pytest.mark.gate
@pytest.mark.usefixtures("long_from_20")
@pytest.mark.parametrize("function", [note, note_inside], ids=["outside", "inside"])
@pytest.mark.parametrize(("number", "given"), [(3, True), (25, True), (25, False), (0, True)])
def test_results_that_no_step_uses_are_not_kept(alias, run_jobs, settings, monkeypatch, number, given, function):
    """Also objects, which would set variables by their names. Together they are too large for one variable."""
    settings.JOBEXEC = {**settings.JOBEXEC, "PROCESSES": {"MAX_VALUE_SIZE": 300}}
    kept, keep = [], steps.keep_item
    monkeypatch.setattr(steps, "keep_item", lambda *args: kept.append(args) or keep(*args))
    flow = Flow("map")
    listed = flow.step(count_to, number)
    over = list(range(number)) if given else listed.result
    mapped = flow.map(function, "item", {"index": item, "text": "x" * 100}, over=over, after=listed, name="rows")
    flow.step(note, "end", after=mapped)
    instance = run_items(run_jobs, lambda: started(alias, flow))
    assert (CALLS.count("item"), CALLS[-1], kept) == (number, "end", [])
    assert state(alias, instance) == "completed"
    assert not {"rows", "returned", "index", "text"} & final(alias, instance).keys()
    assert Batch.objects.using(alias).count() == (number > 20)


@pytest.mark.gate
@pytest.mark.usefixtures("long_from_20")
def test_what_all_steps_get_may_be_larger_than_a_value(alias, run_jobs, settings):
    """Their arguments, and the list of a map(), are in one variable, which is no value of the project."""
    settings.JOBEXEC = {**settings.JOBEXEC, "PROCESSES": {"MAX_VALUE_SIZE": 500, "MAX_VARIABLES_SIZE": 20_000}}
    flow = Flow("large")
    steps = [flow.step(note, "x" * 50, name=f"s{number}") for number in range(20)]
    flow.map(note, item, over=[f"item {number}" for number in range(100)], after=steps)
    instance = run_items(run_jobs, lambda: started(alias, flow))
    assert state(alias, instance) == "completed"
    assert CALLS.count("x" * 50) == 20 and {"item 0", "item 99"} <= set(CALLS)


def test_a_long_list_keeps_its_order(alias, run_jobs):
    flow = Flow("map")
    mapped = flow.map(note, "item", item, over=list(range(25)))
    flow.step(note, "end", mapped.result, after=mapped)
    instance = run_items(run_jobs, lambda: started(alias, flow))
    assert (len(CALLS), CALLS[-1]) == (26, "end")
    assert ProcessInstance.objects.using(alias).get(pk=instance.pk).final_variables["note_2"] == list(range(25))
    assert not Variable.objects.using(alias).exists()


@pytest.mark.usefixtures("long_from_20")
@pytest.mark.parametrize("exclusive", [False, True])
@pytest.mark.parametrize("function", [note, note_inside], ids=["outside", "inside"])
def test_the_jobs_of_a_long_list_are_those_of_its_function(alias, function, exclusive):
    flow = Flow("map")
    flow.map(function.using(exclusive=True) if exclusive else function, item, over=list(range(25)))
    started(alias, flow)
    found = set(Job.objects.using(alias).exclude(batch_id=None).values_list("handler_type", "exclusive", "atomic"))
    assert found == {(f"item:{function.name}", exclusive, function is note_inside)}


@pytest.mark.usefixtures("long_from_20")
def test_a_long_list_waits_for_its_batch(alias):
    flow = Flow("map")
    flow.map(note, "item", item, over=list(range(25)))
    instance = started(alias, flow)
    process = definitions.process(alias, instance.definition_id)
    view = view_of(alias, instance.pk)
    reason, items = why(view, process, clock.now(alias))
    assert (reason.code, reason.details["batch"]) == ("waits", str(Batch.objects.using(alias).get().pk))
    assert "note has been waiting since" in reason.text
    assert (items.code, items.text) == ("items", "note, the items of its list: 0 done, 25 left, 0 failed.")
    assert view.jobs == [], "the items are counted"


@job(name="tests.flows.count_to")
def count_to(number):
    return list(range(number))


@pytest.mark.gate
@pytest.mark.usefixtures("long_from_20")
@pytest.mark.parametrize(("number", "batches"), [(25, 1), (5, 0), (0, 0)])
def test_a_step_gives_a_list_of_any_length(alias, run_jobs, number, batches):
    flow = Flow("map")
    listed = flow.step(count_to, number)
    mapped = flow.map(note, "item", item, over=listed.result, after=listed)
    flow.step(note, "end", mapped.result, after=mapped)
    instance = run_items(run_jobs, lambda: started(alias, flow))
    assert (len(CALLS), CALLS[-1]) == (number + 1, "end")
    assert ProcessInstance.objects.using(alias).get(pk=instance.pk).final_variables["note_2"] == list(range(number))
    assert Batch.objects.using(alias).count() == batches
    assert not Variable.objects.using(alias).exists()


@job(name="tests.flows.odd", retries="R1/PT0S")
def odd(number):
    CALLS.append(number)
    if number == 7 and CALLS.count(7) < 2:
        raise ValueError(number)
    return number


def long_list(alias, failed=False):
    flow = Flow("map")
    mapped = flow.map(odd, over=list(range(25)))
    flow.step(note, "end", mapped.result, after=mapped)
    if failed:
        flow.step(note, "sorry", after=mapped.failed)
    return started(alias, flow)


@pytest.mark.gate
@pytest.mark.usefixtures("long_from_20")
def test_a_long_list_waits_for_items_that_failed(alias, run_jobs):
    def repair(instance):
        assert state(alias, instance) == "active"
        dead = DeadLetterJob.objects.using(alias).get()
        process = definitions.process(alias, instance.definition_id)
        view = view_of(alias, instance.pk)
        reason, items = why(view, process, clock.now(alias))
        assert (reason.code, reason.details["job"]) == ("dead_letter", str(dead.pk))
        assert items.text == "odd, the items of its list: 24 done, 0 left, 1 failed."
        assert (view.jobs, view.values) == ([dead], []), "the results that are kept are counted"
        requeue(dead)

    instance = run_items(run_jobs, lambda: long_list(alias), repair)
    assert (len(CALLS), CALLS[-1]) == (27, "end")
    assert state(alias, instance) == "completed"


@pytest.mark.gate
@pytest.mark.usefixtures("long_from_20")
def test_items_whose_results_nobody_reads_are_counted_too(alias, run_jobs):
    flow = Flow("map")
    flow.map(odd, over=list(range(25)))

    def look(instance):
        process = definitions.process(alias, instance.definition_id)
        (_, items) = why(view_of(alias, instance.pk), process, clock.now(alias))
        assert items.text == "odd, the items of its list: 24 done, 0 left, 1 failed."

    run_items(run_jobs, lambda: started(alias, flow), look)


@pytest.mark.gate
@pytest.mark.usefixtures("long_from_20")
def test_a_long_list_has_a_way_for_failures(alias, run_jobs):
    instance = run_items(run_jobs, lambda: long_list(alias, failed=True))
    assert CALLS[-1] == "sorry"
    assert state(alias, instance) == "completed"
    assert not DeadLetterJob.objects.using(alias).exists()
    assert not Variable.objects.using(alias).exists()


@job(name="tests.flows.book", atomic=True, retries="R2/PT0S")
def book(alias, number):
    CALLS.append(number)
    Group.objects.using(alias).create(name=f"visitor {number}")
    if number == 7 and CALLS.count(7) == 1:
        raise ValueError(number)
    return number


def booked(alias):
    return Group.objects.using(alias).filter(name__startswith="visitor").count()


@pytest.mark.gate
@pytest.mark.transactional
@pytest.mark.usefixtures("long_from_20")
class TestALongListOfAnAtomicFunction:
    def start(self, alias):
        flow = Flow("map")
        mapped = flow.map(book, alias, item, over=list(range(25)))
        flow.step(note, "end", mapped.result, after=mapped)
        return started(alias, flow)

    def test_each_item_is_one_transaction_with_its_job(self, alias, run_jobs):
        instance = run_items(run_jobs, lambda: self.start(alias))
        assert (len(CALLS), CALLS[-1]) == (27, "end")
        assert final(alias, instance)["note"] == list(range(25))
        assert booked(alias) == 25
        assert Batch.objects.using(alias).count() == 1
        row = JobDefinition.objects.using(alias).get(pk="map#book#batch")
        assert (row.atomic, row.exclusive) == (True, False)
        assert not Variable.objects.using(alias).exists()

    def test_there_is_no_token_for_each_item(self, alias):
        self.start(alias)
        assert Execution.objects.using(alias).count() == 1

    def test_what_an_item_has_written_is_undone_if_its_list_is_cancelled_meanwhile(self, alias, monkeypatch):
        instance = self.start(alias)
        (acquired, *_) = ManualExecutor(alias).acquire(1)
        keep = steps.keep_item

        def keep_late(*args):
            """As if it were cancelled before the result is kept; on SQLite no other connection could do that."""
            with transaction.atomic(using=alias):
                Execution.objects.using(alias).update(job_id=None)
                kept = keep(*args)
                Execution.objects.using(alias).update(job_id=args[4])
            return kept

        monkeypatch.setattr(steps, "keep_item", keep_late)
        results = []
        ManualExecutor(alias).run_acquired([acquired], results)
        assert [each.outcome for each in results] == ["successful"]
        assert (len(CALLS), booked(alias)) == (1, 0)
        assert not Job.objects.using(alias).filter(pk=acquired.id).exists()
        cancel(instance)


@job(name="tests.flows.tell")
def tell(number):
    CALLS.append(number)
    return f"the result of {number}"


@pytest.fixture
def too_long(alias, settings, long_from_20, run_jobs):
    """Begins a flow whose list of results is too large to be one variable."""

    def begin():
        settings.JOBEXEC = {**settings.JOBEXEC, "PROCESSES": {"MAX_VALUE_SIZE": 200}}
        flow = Flow("map")
        flow.map(tell, over=list(range(25)), collect=True)
        return run_items(run_jobs, lambda: started(alias, flow))

    return begin


@pytest.mark.gate
class TestResultsOfALongListThatCannotBeKept:
    def test_they_are_an_incident_at_the_step_at_once(self, alias, settings, run_jobs, too_long):
        opened = []
        receive = lambda sender, using, incidents, **kwargs: opened.extend(incidents)  # noqa: E731
        incident_opened.connect(receive, weak=False)
        try:
            instance = too_long()
        finally:
            incident_opened.disconnect(receive)
        (dead,) = DeadLetterJob.objects.using(alias)
        (incident,) = Incident.objects.using(alias)
        assert [each.pk for each in opened] == [incident.pk]
        assert (dead.attempts, dead.process_definition_key, incident.failed_activity_id) == (1, "map", "tell")
        assert "its result cannot be kept: tell: expected at most 200 bytes" in incident.message
        process = definitions.process(alias, instance.definition_id)
        reason, _ = why(view_of(alias, instance.pk), process, clock.now(alias))
        assert (reason.code, reason.details["job"]) == ("dead_letter", str(dead.pk))
        settings.JOBEXEC = {**settings.JOBEXEC, "PROCESSES": {}}
        assert set_retries(instance, element="tell") == 1
        run_jobs()
        assert len(final(alias, instance)["tell"]) == 25
        assert len(CALLS) == 25

    def test_nothing_is_left_of_it_after_a_cancellation(self, alias, too_long):
        cancel(too_long())
        assert not DeadLetterJob.objects.using(alias).exists()
        assert Incident.objects.using(alias).get().state == "deleted"
        assert not Variable.objects.using(alias).exists()


@pytest.mark.gate
@pytest.mark.usefixtures("long_from_20")
def test_what_follows_a_long_list_is_suspended_with_its_process(alias, run_jobs):
    with controlled_clock() as clock:
        instance = long_list(alias)
        ManualExecutor(alias, reraise=False).run_due(25)
        requeue(DeadLetterJob.objects.using(alias).get())
        ManualExecutor(alias).run_due(1)
        suspend("map", using=alias)
        clock.advance(timedelta(hours=1))
        run_jobs()
        assert SuspendedJob.objects.using(alias).get().handler_type == job_rows.GATHERED
        activate("map", using=alias)
        run_jobs()
    assert state(alias, instance) == "completed"


@pytest.mark.usefixtures("long_from_20")
@pytest.mark.parametrize("follows", ["on_success", "on_failure"])
def test_what_follows_a_long_list_is_not_the_end_of_what_its_token_waits_for_later(alias, run_jobs, follows):
    """An item may have been requeued, and end, when its token has already gone on."""
    instance = long_list(alias, failed=True)
    token, batch = Execution.objects.using(alias).get(), Batch.objects.using(alias).get()
    assert proceed(alias, instance.pk, JobFailed(token.pk, batch.pk)) is not None
    waits_for = Execution.objects.using(alias).get(pk=token.pk).job_id
    following = create_stored(alias, batch.arguments[follows])
    execute_now(following.id, using=alias)
    assert Execution.objects.using(alias).get(pk=token.pk).job_id == waits_for
    run_jobs()
    assert (CALLS, state(alias, instance)) == (["sorry"], "completed")


@pytest.mark.usefixtures("long_from_20")
def test_an_item_that_runs_when_its_list_is_cancelled_is_asked_to_stop_and_leaves_no_dead_letter(alias):
    flow = Flow("map")
    flow.map(broke.using(retries="R1/PT0S"), over=list(range(25)))
    instance, executor = started(alias, flow), ManualExecutor(alias, reraise=False)
    (held, *_) = acquired = executor.acquire(1)
    cancel(instance)
    assert list(Job.objects.using(alias).exclude(execution_id="").values_list("pk", "cancel_requested")) == [
        (held.id, True)
    ]
    results = []
    executor.run_acquired(acquired, results)
    assert [each.outcome for each in results] == ["cancelled"]
    assert not DeadLetterJob.objects.using(alias).exists()


@pytest.mark.usefixtures("long_from_20")
def test_a_long_list_is_cancelled(alias, run_jobs):
    def begin():
        instance = long_list(alias)
        cancel(instance)
        assert not Job.objects.using(alias).filter(handler_type__startswith="item:").exists()

    run_items(run_jobs, begin)
    assert CALLS == []
    assert Batch.objects.using(alias).get().state in ("cancelled", "failed")


# Tasks of django.tasks.


@task
def pack_task(order, *, fail=False):
    CALLS.append(f"pack {order}")
    if fail:
        raise ValueError("broken")
    return {"parcel": order + 1}


@task(takes_context=True)
def ship_task(context, parcel):
    CALLS.append(f"ship {parcel} {context.attempt} {context.task_result.status}")
    return [parcel]


@task
async def tell_task(parcels):
    CALLS.append(f"tell {parcels}")


@pytest.fixture
def tasks(alias, settings):
    """The tasks above belong to jobexec, on the database of the test."""
    backend = {"BACKEND": "jobexec.backends.JobExecutorBackend", "OPTIONS": {"DATABASE": alias}}
    with registry.isolated():
        settings.TASKS = {"default": backend}
        for each in (pack_task, ship_task, tell_task):
            task_backends["default"].validate_task(each)  # as when it is declared
        yield


@pytest.mark.every_database
@pytest.mark.transactional
def test_tasks_of_django_are_steps(alias, tasks, run_jobs):
    flow = Flow("shop")
    packed = flow.step(pack_task, 17)
    shipped = flow.step(ship_task, packed.result["parcel"], after=packed)
    flow.step(tell_task, shipped.result, after=shipped)
    flow.step(note, "job", after=shipped)
    instance = started(alias, flow)
    run_jobs()
    assert CALLS[:2] == ["pack 17", "ship 18 1 RUNNING"]
    assert sorted(CALLS[2:]) == ["job", "tell [18]"]
    assert state(alias, instance) == "completed"
    assert not Job.objects.using(alias).exists()


@pytest.mark.transactional
def test_tasks_of_django_run_in_the_transaction_of_a_step(alias, settings, run_jobs):
    """With what they get otherwise: the context of a task, and signals."""
    options = {"DATABASE": alias, "ATOMIC": True}
    backend = {"BACKEND": "jobexec.backends.JobExecutorBackend", "OPTIONS": options}
    with registry.isolated():
        settings.TASKS = {"default": backend}
        for each in (pack_task, ship_task, tell_task):
            task_backends["default"].validate_task(each)
        flow = Flow("shop")
        packed = flow.step(pack_task, 17)
        shipped = flow.step(ship_task, packed.result["parcel"], after=packed)
        flow.step(tell_task, shipped.result, after=shipped)
        instance = started(alias, flow)
        assert Job.objects.using(alias).get().handler_type == "jobexec.processes.continue"
        run_jobs()
    assert CALLS == ["pack 17", "ship 18 1 RUNNING", "tell [18]"]
    assert state(alias, instance) == "completed"


@pytest.mark.transactional
def test_a_task_of_django_that_fails(alias, tasks, run_jobs):
    flow = Flow("shop")
    packed = flow.step(pack_task, 17, fail=True)
    flow.step(note, "sorry", after=packed.failed)
    with controlled_clock() as at:
        instance = started(alias, flow)
        for _ in range(3):
            run_jobs()
            at.advance(timedelta(days=1))
        run_jobs()
    assert CALLS == ["pack 17", "pack 17", "pack 17", "sorry"]
    assert state(alias, instance) == "completed"
    assert not DeadLetterJob.objects.using(alias).exists()
