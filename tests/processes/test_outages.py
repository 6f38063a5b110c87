"""A database that is away before or after the function of a step: no attempt is spent, and no failure invented."""

from contextlib import ExitStack
from datetime import timedelta

import pytest
from django.db import OperationalError, connections

from jobexec import job
from jobexec.exceptions import DoNotRetry
from jobexec.models import DeadLetterJob, Job
from jobexec.processes.flows import compiling
from jobexec.processes.flows.builder import Flow
from jobexec.processes.flows.terms import item
from jobexec.processes.handlers import steps
from jobexec.processes.handlers.registry import service_task
from jobexec.processes.operations.deploy import deploy
from jobexec.processes.operations.start import start
from jobexec.processes.store import definitions, load
from jobexec.testing import ManualExecutor, controlled_clock
from jobexec.testing.faults import database_away
from tests.processes.support.rows import final, state
from tests.processes.test_bpmn import flows, xml

pytestmark = [pytest.mark.transactional]

ONCE = "R1/PT1S"
#: How a connection says its number, and is ended by it.
ENDS = {
    "postgresql": ("SELECT pg_backend_pid()", "SELECT pg_terminate_backend(%s, 10000)"),
    "mysql": ("SELECT CONNECTION_ID()", "KILL %s"),
}


class Outage:
    """The database that goes away, until :meth:`end`, when a function is the first to be called."""

    def __init__(self, alias):
        self.alias, self.calls, self._away = alias, [], ExitStack()

    def begin(self):
        self._away.enter_context(database_away(self.alias))

    def end(self):
        self._away.close()

    def called(self, name):
        self.calls.append(name)
        if self.calls == [name]:
            self.begin()


current: list[Outage] = []


@pytest.fixture
def outage(alias):
    found = Outage(alias)
    current.append(found)
    yield found
    current.clear()
    found.end()


def end(connection):
    """End a connection without its knowledge."""
    ask, kill = ENDS[connection.vendor]
    with connection.cursor() as cursor:
        cursor.execute(ask)
        (number,) = cursor.fetchone()
    other = connection.copy()
    with other.cursor() as cursor:
        cursor.execute(kill, [number])
    other.close()


@job(name="tests.outages.echo", retries=ONCE)
def echo(value):
    current[0].called(f"echo {value}")
    return value


@job(name="tests.outages.refuse", retries=ONCE)
def refuse(fatal):
    current[0].called("refuse")
    raise DoNotRetry("charged already") if fatal else ValueError("no")


@job(name="tests.outages.inside", retries=ONCE, atomic=True)
def inside(fatal):
    """Its connection is ended by another one, the first time."""
    outage = current[0]
    outage.calls.append("inside")
    if outage.calls == ["inside"]:
        end(connections[outage.alias])
    raise DoNotRetry("charged already") if fatal else ValueError("no")


@job(name="tests.outages.note")
def note(value):
    current[0].calls.append(value)


@service_task("tests.outages.apart", transaction=False)
def apart(context):
    current[0].calls.append(context.element_id)
    return {"receipt": "r1"}


def run_through(outage, *, shares_end=False, later=timedelta(seconds=2)):
    """Run one job, at the end of which the database is back, and later all others.

    ``shares_end``: the first, as in an executor, would leave the step that takes its result to the settlement.
    """
    with controlled_clock() as clock:
        executor = ManualExecutor(outage.alias, reraise=False)
        (work,) = executor.acquire(1)
        executor.host.shares_ends = shares_end
        ran = executor.run(work)
        executor.host.shares_ends = False
        outage.end()
        first = executor.settle(ran)
        clock.advance(later)
        return [first, *executor.run_until_empty()]


@pytest.mark.every_database
@pytest.mark.parametrize("shares_end", [False, True], ids=["its own step", "a step with others"])
def test_after_the_function_it_runs_again_and_spends_no_attempt(alias, outage, shares_end):
    flow = Flow("order")
    flow.step(echo, 17)
    instance = flow.start(using=alias)
    definitions.forget()  # or the process would know it
    results = run_through(outage, shares_end=shares_end)
    assert [each.outcome for each in results] == ["snoozed", "successful"]
    assert outage.calls == ["echo 17", "echo 17"]
    assert state(alias, instance) == "completed"


@pytest.mark.every_database
def test_after_the_function_of_an_item_of_a_list(alias, outage, monkeypatch):
    monkeypatch.setattr(compiling, "BATCH_FROM", 2)
    flow = Flow("mapped")
    flow.map(echo, item, over=[0, 1, 2], collect=True)
    instance = flow.start(using=alias)
    assert {each.handler_type for each in Job.objects.using(alias)} == {"item:tests.outages.echo"}
    results = run_through(outage)
    assert [each.outcome for each in results].count("snoozed") == 1
    assert {each.outcome for each in results} == {"snoozed", "successful"}
    assert state(alias, instance) == "completed"
    assert final(alias, instance)["echo"] == [0, 1, 2]


def test_after_the_last_failure_the_way_for_failures_is_taken_later(alias, outage):
    """And not by a dead letter that says that the database was away."""
    flow = Flow("fail")
    flow.step(note, "sorry", after=flow.step(refuse, False).failed)
    instance = flow.start(using=alias)
    results = run_through(outage)
    assert results[0].outcome == "snoozed"
    assert outage.calls == ["refuse", "refuse", "sorry"]
    assert state(alias, instance) == "completed"
    assert not DeadLetterJob.objects.using(alias).exists()


def test_a_function_that_must_not_run_again_does_not(alias, outage):
    """Its dead letter says what it has said."""
    flow = Flow("fail")
    flow.step(note, "sorry", after=flow.step(refuse, True).failed)
    instance = flow.start(using=alias)
    run_through(outage)
    assert outage.calls == ["refuse"]
    assert DeadLetterJob.objects.using(alias).get().exception_message == "DoNotRetry: charged already"
    assert state(alias, instance) == "active"


@pytest.mark.databases("postgresql", "mariadb")
@pytest.mark.parametrize("exclusive", [False, True])
@pytest.mark.parametrize(("fatal", "calls"), [(False, ["inside", "inside", "sorry"]), (True, ["inside"])])
def test_in_the_transaction_of_a_step(alias, outage, exclusive, fatal, calls):
    """The same: after a failure that cannot be recorded it runs again, unless it must not."""
    flow = Flow("fail")
    flow.step(note, "sorry", after=flow.step(inside.using(exclusive=exclusive), fatal).failed)
    instance = flow.start(using=alias)
    run_through(outage, later=timedelta(minutes=1))
    assert outage.calls == calls
    assert (state(alias, instance) == "completed") == ("sorry" in calls)
    dead = [row.exception_message for row in DeadLetterJob.objects.using(alias)]
    assert dead == ([] if "sorry" in calls else ["DoNotRetry: charged already"])


@pytest.mark.parametrize(("conflicts", "calls"), [(2, ["refuse", "sorry"]), (3, ["refuse"])])
def test_in_conflicts_its_way_for_failures_is_tried_again(alias, outage, monkeypatch, conflicts, calls):
    flow = Flow("fail")
    flow.step(note, "sorry", after=flow.step(refuse, True).failed)
    instance = flow.start(using=alias)
    outage.calls.append("before")
    left, original = [None] * conflicts, steps.proceed

    def in_conflict(*args):
        if left:
            left.pop()
            raise OperationalError("database is locked")
        return original(*args)

    monkeypatch.setattr(steps, "proceed", in_conflict)
    ManualExecutor(alias, reraise=False).run_until_empty()
    assert outage.calls[1:] == calls
    assert (state(alias, instance) == "completed") == ("sorry" in calls)
    assert DeadLetterJob.objects.using(alias).exists() == ("sorry" not in calls)


@pytest.mark.every_database
def test_before_the_function(alias, outage):
    flow = Flow("order")
    flow.step(echo, 17)
    instance = flow.start(using=alias)
    outage.calls.append("before")
    executor = ManualExecutor(alias, reraise=False)
    (work,) = executor.acquire()
    outage.begin()
    ran = executor.run(work)
    outage.end()
    assert (executor.settle(ran).outcome, outage.calls) == ("returned", ["before"])
    assert [each.outcome for each in executor.run_until_empty()] == ["successful"]
    assert state(alias, instance) == "completed"


@pytest.mark.parametrize("moment", ["its variables", "its definition"])
def test_before_a_service_task_outside(alias, outage, monkeypatch, moment):
    """After its token was found: its variables, or its definition, cannot be read."""
    pytest.importorskip("lxml")
    once = f"<camunda:failedJobRetryTimeCycle>{ONCE}</camunda:failedJobRetryTimeCycle>"
    once = f"<extensionElements>{once}</extensionElements>"
    task = f'<serviceTask id="pay" camunda:delegateExpression="${{tests.outages.apart}}">{once}</serviceTask>'
    body = f'<startEvent id="s"/>{task}<endEvent id="e"/>' + flows(("s", "pay"), ("pay", "e"))
    deploy(("order.bpmn", xml(body)), using=alias)
    instance = start("order", using=alias)
    module, name = (load, "load_unlocked") if moment == "its variables" else (definitions, "process")
    original = getattr(module, name)

    def first_away(*args):
        monkeypatch.setattr(module, name, original)
        with database_away(alias):
            definitions.forget()
            return original(*args)

    monkeypatch.setattr(module, name, first_away)
    results = run_through(outage)
    assert [each.outcome for each in results] == ["returned", "successful"]
    assert outage.calls == ["pay"]
    assert state(alias, instance) == "completed"
