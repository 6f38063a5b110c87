"""Random models on a database, whose jobs, messages and tasks come in any order: what is in the tables always fits.

The engine alone is tested with far more models, in ``engine/test_random.py``; here are the store, the jobs, the
suspensions and the failures.
"""

import random
from collections import Counter

import pytest
from django.db import transaction
from hypothesis import HealthCheck, given, note, settings
from hypothesis import strategies as st

from jobexec.executor.execute_now import execute_now
from jobexec.models import JOB_TABLES, DeadLetterJob, ExternalWorkerJob, Incident, Job, SuspendedJob, TimerJob
from jobexec.operations import activate, suspend
from jobexec.operations.external.settle import complete_external_job
from jobexec.operations.rows.routing import is_external
from jobexec.processes.definition import Kind
from jobexec.processes.engine.exceptions import BpmnError
from jobexec.processes.engine.inputs import Completed
from jobexec.processes.exceptions import MismatchingMessage, Suspended
from jobexec.processes.handlers.registry import service_task
from jobexec.processes.handlers.signals import DELIVER
from jobexec.processes.handlers.stepping import proceed
from jobexec.processes.models import (
    ActivityInstance,
    EventSubscription,
    Execution,
    ProcessDefinition,
    ProcessInstance,
    UserTask,
    Variable,
)
from jobexec.processes.operations.check import check
from jobexec.processes.operations.events import correlate, signal
from jobexec.processes.operations.flows import define
from jobexec.processes.operations.instances import cancel, set_variables
from jobexec.processes.operations.start import start
from jobexec.processes.operations.user_tasks import complete
from jobexec.processes.store import definitions, load
from tests.processes.support.blocks import blocks, written
from tests.processes.support.notation import model
from tests.support.suite import tiers

EXAMPLES = max(5, tiers.current().examples // 10)
SEEDS = st.integers(0, 2**32)
BOUNDARIES = ("", "", "timer in PT1H", "timer in PT1H keep", "message m", "error", "failure", "signal s keep")
EVENTS = ("", "message n", "timer in PT1H", "error E1")
STEPS = 300
WHOLE = load.FEW
#: Whether work may fail; decided by the chance of a run.
CHANCE: list[random.Random] = []


class Broken(Exception):
    """The work of a task fails."""


def _work():
    if CHANCE and CHANCE[0].random() < 0.2:
        raise CHANCE[0].choice([Broken("no"), BpmnError("E1")])


@service_task("tests.random.inside")
def inside(context):
    _work()


@service_task("tests.random.outside")
def outside(context):
    _work()


@pytest.fixture(autouse=True)
def nothing_is_wrong(monkeypatch):
    """It is looked at after each step, and each example is rolled back."""
    monkeypatch.setattr(load, "FEW", WHOLE)  # the examples change it


class Play:
    """One instance on a database, and what may happen to it."""

    def __init__(self, alias, texts, seed, faults=False):
        note("\n\n".join(f"{key}:\n{text}" for key, text in texts.items()))
        self.alias, self.chance = alias, random.Random(seed)
        self.faults = faults
        load.FEW = self.chance.choice([(0, 0), WHOLE])
        for key, text in texts.items():
            text = text.replace("service x", "service tests.random.inside").replace("outside x", OUTSIDE)
            definition = define(alias, model(text, key))
            # What is called is called by its key: this is the only version of this example.
            ProcessDefinition.objects.using(alias).filter(key=key).update(version=None)
            ProcessDefinition.objects.using(alias).filter(pk=definition).update(version=1)
        self.root = start("process", variables={"yes": True, "no": False}, using=alias).pk
        CHANCE[:] = [self.chance] if faults else []

    @property
    def instance(self):
        return ProcessInstance.objects.using(self.alias).get(pk=self.root)

    def going(self):
        return self.instance.state in ("active", "compensating")

    def deeds(self):
        """All that can bring it on, then what may befall it."""
        alias, found = self.alias, []
        tables = [Job, SuspendedJob, DeadLetterJob] + ([TimerJob] if self.faults else [])
        for table in tables:
            for row in table.objects.using(alias).order_by("pk"):
                found.append(lambda row=row: self.run(row))
        for row in ExternalWorkerJob.objects.using(alias).order_by("pk"):
            found.append(lambda row=row: complete_external_job(alias, row.job_key))
        for task in UserTask.objects.using(alias).order_by("pk"):
            found.append(lambda task=task: complete(task, using=alias))
        for token in Execution.objects.using(alias).filter(state="waiting").order_by("pk"):
            if definitions.process(alias, token.definition_id).node(token.element_id).kind is Kind.RECEIVE_TASK:
                event = Completed(token.pk, token.activity_id)
                found.append(lambda event=event: proceed(alias, self.root, event))
        for row in EventSubscription.objects.using(alias).filter(kind="message").order_by("pk"):
            found.append(lambda row=row: correlate(row.name, instance=row.instance_id, using=alias))
        return found

    def run(self, row):
        if is_external(row):  # suspended: no worker gets it before that is over
            activate(using=self.alias, process_instance_id=row.process_instance_id)
        else:
            execute_now(row.pk, using=self.alias)

    def befall(self):
        alias, of = self.alias, {"process_instance_id": str(self.root)}
        self.chance.choice(
            [
                lambda: suspend(using=alias, **of),
                lambda: activate(using=alias, **of),
                lambda: set_variables(self.root, {"count": self.chance.randrange(9)}, using=alias),
                lambda: signal("s", {"count": 1}, using=alias),
            ]
        )()

    def step(self):
        found = self.deeds()
        assert found, f"nothing can happen: {list(Execution.objects.using(self.alias).values())}"
        try:
            self.chance.choice(found)()
        except (MismatchingMessage, Suspended, Broken) as error:  # whoever runs a job by hand is told its failure
            note(repr(error))
        if self.faults and self.going() and self.chance.random() < 0.2:
            self.befall()
        self.check()

    def check(self):
        assert check(using=self.alias) == []
        dead = set(DeadLetterJob.objects.using(self.alias).values_list("pk", flat=True))
        opened = Incident.objects.using(self.alias).filter(state="open").values_list("job_id", flat=True)
        assert set(opened) == dead

    def to_the_end(self):
        for _ in range(STEPS):
            if not self.going():
                return
            self.step()
        raise AssertionError(f"not ended after {STEPS} steps")

    def assert_nothing_is_left(self):
        for table in (Execution, Variable, UserTask, EventSubscription):
            assert not table.objects.using(self.alias).exists(), table
        rows = [row for table in JOB_TABLES for row in table._base_manager.using(self.alias)]
        assert [row.handler_type for row in rows if row.handler_type != DELIVER] == []


OUTSIDE = "outside tests.random.outside"


def example(alias, texts, seed, act, **how):
    """Nothing of it stays."""
    with transaction.atomic(using=alias):
        play = Play(alias, texts, seed, **how)
        play.check()
        act(play)
        CHANCE.clear()
        transaction.set_rollback(True, using=alias)


def by_chance(function):
    checks = [HealthCheck.function_scoped_fixture, HealthCheck.too_slow, HealthCheck.data_too_large]
    return settings(max_examples=EXAMPLES, suppress_health_check=checks)(function)


@by_chance
@given(blocks(), SEEDS)
def test_all_runs_that_must_run_and_nothing_else(alias, block, seed):
    texts, runs = written(block)

    def act(play):
        play.to_the_end()
        rows = ActivityInstance.objects.using(alias).filter(state="completed").exclude(kind="multiInstanceBody")
        done = Counter(id for id in rows.values_list("element_id", flat=True) if id[0] in "tp")
        assert done == +runs
        assert play.instance.state == "completed"
        play.assert_nothing_is_left()

    example(alias, texts, seed, act)


@pytest.mark.gate
@by_chance
@given(blocks(BOUNDARIES, EVENTS), SEEDS)
def test_it_ends_whatever_fails_and_is_suspended(alias, block, seed):
    texts, _ = written(block)

    def act(play):
        play.to_the_end()
        play.assert_nothing_is_left()

    example(alias, texts, seed, act, faults=True)


@pytest.mark.gate
@by_chance
@given(blocks(BOUNDARIES, EVENTS), SEEDS)
def test_a_cancellation_leaves_nothing_behind(alias, block, seed):
    texts, _ = written(block)

    def act(play):
        for _ in range(play.chance.randrange(6)):
            if play.going():
                play.step()
        if play.going():
            cancel(play.root, using=alias)
        play.assert_nothing_is_left()

    example(alias, texts, seed, act, faults=True)
