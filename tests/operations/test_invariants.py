"""Whatever happens in whatever order: what must always hold. Found by chance, kept by hypothesis."""

import sys
from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest
from django.db import connections, transaction
from django.test import override_settings
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from jobexec.clock import FrozenClock
from jobexec.exceptions import BatchOver
from jobexec.models import (
    JOB_TABLES,
    Batch,
    BatchPart,
    BatchState,
    DeadLetterJob,
    ExclusiveLock,
    ExecutorNode,
    Incident,
    Job,
    JobDefinition,
    ResultStatus,
    SuspendedJob,
    TaskResult,
)
from jobexec.operations import (
    activate,
    activate_batch,
    batch_progress,
    cancel,
    cancel_batch,
    complete_jobs,
    delete_batch,
    delete_jobs,
    fail_job,
    move_to_dead_letter,
    override_priority,
    recover_node,
    release_jobs,
    requeue,
    retry_now,
    set_retries_by_definition,
    start_batch,
    suspend,
    suspend_batch,
    sweep_suspensions,
    trigger_due_timers,
    unlock,
)
from jobexec.operations.batches import work as batch_work
from jobexec.operations.nodes.leases import declare_dead
from jobexec.operations.rows.suspension_cover import Suspensions
from jobexec.operations.settle.complete import complete_with_results
from jobexec.operations.settle.recover import mark_suspect_started
from jobexec.operations.values.acquired_job import batches
from jobexec.operations.values.run import Result
from tests.support.factories import HANDLER, LEASE_TIME, a_failure, a_run, acquire, make_job, make_node
from tests.support.rules.batches import FOLLOW, Grouping
from tests.support.rules.messages import Messaging
from tests.support.rules.reasons import Reasons
from tests.support.rules.sharing import RESOURCES, Sharing, resources
from tests.support.suite import tiers

pytestmark = pytest.mark.every_database

EXAMPLES = tiers.current().examples
NAMES = ("one", "two", "three")
names = st.sampled_from(NAMES)
instances = st.sampled_from(["", "p", "p", "q", "acme/p"])
mostly = st.sampled_from([True, True, True, False])
ahead = st.sampled_from([None, 1, 20, 30])
picks = st.integers(0, 50)
batch_verbs = st.sampled_from(["requeue", "suspend", "activate", "retry_now", "delete", "cancel"])
#: What the jobs of a batch do.
OF_BATCHES = {
    "jobexec.batch_seed": lambda alias, job, batch: batch_work.seed(alias, batch),
    "jobexec.batch_execution": lambda alias, job, batch, ids, matching: batch_work.execute(
        alias, batch, job.id, [UUID(id) for id in ids], matching
    ),
    "jobexec.batch_monitor": lambda alias, job, batch, idle: batch_work.monitor(alias, batch, idle),
}


class Jobs(Sharing, RuleBasedStateMachine):
    alias = "default"

    def __init__(self):
        super().__init__()
        self.undo = transaction.atomic(using=self.alias)
        self.undo.__enter__()
        self.clock = FrozenClock(datetime(2026, 3, 1, tzinfo=UTC))
        self.clock.__enter__()
        self.created, self.ended, self.batches = [], [], []
        self.tasks = set()  # every second job came through django.tasks
        self.unwanted = set()  # somebody has asked for their end
        self.nodes, self.hands, self.dead = {}, {}, []

    def teardown(self):
        try:
            if sys.exc_info()[0] is None and self.nodes:
                self.run_to_the_end()
                self.what_always_holds()
        finally:
            self.undo_everything()

    def undo_everything(self):
        self.clock.__exit__(None, None, None)
        transaction.set_rollback(True, using=self.alias)
        self.undo.__exit__(None, None, None)

    @initialize()
    def start_nodes(self):
        JobDefinition.objects.using(self.alias).create(pk=HANDLER, handler_type=HANDLER)
        for name in NAMES[: 1 if self.alias == "default" else 3]:
            self.start(name)
        for instance in ("p", "p", "q", "acme/p", ""):
            self.create(instance, True, 0, 0)
        for _ in range(4):
            self.create("", False, 0, 0, "two")
            self.create("", False, 0, 0, "spread")

    def start(self, name):
        self.nodes[name] = make_node(self.alias, name)
        self.hands[name] = []

    def pick(self, index):
        return self.created[index % len(self.created)]

    def there(self, name):
        return name if name in self.nodes else NAMES[0]  # SQLite bears one node

    @rule(
        instance=instances,
        exclusive=mostly,
        priority=st.integers(-2, 2),
        wait=st.sampled_from([0, 0, 30]),
        resource=resources,
    )
    def create_one(self, instance, exclusive, priority, wait, resource):
        self.create(instance, exclusive, priority, wait, resource)

    def create(self, instance, exclusive, priority, wait, resource=None, **more):
        due = {"due_date": self.clock.now + timedelta(seconds=wait)} if wait else {}
        tenant, _, name = instance.rpartition("/")
        columns = {"tenant_id": tenant, "process_instance_id": name, "exclusive": exclusive, "priority": priority}
        columns |= {"resource": resource, **more}
        backend = "default" if len(self.created) % 2 else ""
        self.created.append(make_job(self.alias, **columns, **due, task_backend=backend).pk)
        if resource:
            self.shared.append(self.created[-1])
        if backend:
            self.tasks.add(self.created[-1])

    @rule(name=names, limit=st.sampled_from([4, 2, 1]), strategy=st.sampled_from(["auto", "optimistic"]))
    def acquire(self, name, limit, strategy):
        self.take(self.there(name), limit, strategy)

    def take(self, name, limit, strategy="auto"):
        jobs = acquire(self.alias, self.nodes[name].lock_owner, limit, strategy=strategy)
        in_force = Suspensions.of(self.alias, [job.id for job in jobs])
        assert not any(in_force.cover(job.load()) for job in jobs)
        self.hands[name] += batches(jobs)

    @rule(
        name=names, index=picks, outcome=st.sampled_from(["complete", "complete", "fail", "fatal", "release", "mark"])
    )
    def settle(self, name, index, outcome):
        hand = self.hands[self.there(name)]
        if not hand:
            return
        batch = hand[index % len(hand)]
        job = batch[0]
        if outcome == "mark":
            assert mark_suspect_started(job)
            return
        if outcome == "complete":
            self.complete(job)
        elif outcome == "release":
            assert release_jobs(self.alias, [job]) == 1
        else:
            self.fail(job, "fatal" if outcome == "fatal" else "error")
        self.put_down(hand, batch)

    def put_down(self, hand, batch):
        batch.pop(0)
        if not batch:
            hand.remove(batch)

    def complete(self, job):
        self.work(job)
        assert self.succeed(job) == {job.id}
        if job.handler_type not in OF_BATCHES:
            self.ended.append(job.id)
        self.judge(job)

    def fail(self, job, kind="error"):
        assert fail_job(self.alias, job, a_failure(kind=kind), a_run(self.alias)) is not None
        self.judge(job, "it has failed")

    def succeed(self, job):
        if job.id in self.tasks:
            return {job.id} - complete_with_results(self.alias, [(job, a_run(self.alias), Result("1"))])
        return complete_jobs(self.alias, [(job, a_run(self.alias))])

    @precondition(lambda self: self.batches)
    @rule(name=names, rounds=st.integers(1, 4))
    def go_on_with_batches(self, name, rounds):
        name = self.there(name)
        for _ in range(rounds):
            self.take(name, 50)
            hand = self.hands[name]
            for batch in [each for each in hand if each[0].handler_type in OF_BATCHES]:
                self.complete(batch[0])
                self.put_down(hand, batch)

    def run_all(self):
        """End whatever is in hand, and all that can be acquired."""
        for name, hand in self.hands.items():
            self.take(name, 100)
            while hand:
                self.complete(hand[0][0])
                self.put_down(hand, hand[0])

    def work(self, job):
        """The jobs of a batch change others in the transaction that ends them."""
        if job.handler_type in OF_BATCHES:
            batch, *rest = job.load().handler_configuration["args"]
            before, held = self.present(), self.held()
            OF_BATCHES[job.handler_type](self.alias, job, UUID(batch), *rest)
            assert not (before - self.present()) & held, "a running job was deleted"

    @rule(verb=batch_verbs, first=picks, table=st.sampled_from([None, *JOB_TABLES]))
    def start_a_batch(self, verb, first, table):
        ids = self.created[first % len(self.created) :][:5]
        target = ids if table is None else table._base_manager.using(self.alias).exclude(handler_type__in=OF_BATCHES)
        if verb in {"delete", "cancel"}:
            self.unwanted |= set(ids if table is None else self.created)
        self.batches.append(start_batch(verb, target, using=self.alias).pk)
        self.clock.tick(0.001)  # what is created from now on is none of its business

    @precondition(lambda self: self.batches)
    @rule(
        index=picks, verb=st.sampled_from([suspend_batch, activate_batch, activate_batch, cancel_batch, delete_batch])
    )
    def manage_a_batch(self, index, verb):
        batch = self.batches[index % len(self.batches)]
        try:
            verb(batch, using=self.alias)
        except BatchOver:
            assert Batch.objects.using(self.alias).get(pk=batch).over
        if verb is delete_batch:
            self.batches.remove(batch)

    @rule(priority=st.integers(-2, 2), cascade=st.booleans(), retries=st.sampled_from([None, 3]))
    def say_it_of_a_definition(self, priority, cascade, retries):
        if retries:
            set_retries_by_definition(HANDLER, retries, using=self.alias)
        else:
            override_priority(HANDLER, priority, cascade=cascade, using=self.alias)

    @rule(name=names)
    def die_and_be_recovered(self, name):
        name = self.there(name)
        node = self.nodes.pop(name)
        lost = [job for batch in self.hands.pop(name) for job in batch]
        ExecutorNode.objects.using(self.alias).filter(pk=node.pk).update(
            lease_expiration_time=self.clock.now - timedelta(seconds=1)
        )
        self.when_dead(lost)
        assert [dead.pk for dead in declare_dead(self.alias)] == [node.pk]
        assert recover_node(self.alias, node) == len(lost)
        self.dead += lost
        self.start(name)

    def when_dead(self, lost):
        """A node that holds these jobs is dead, and no other has noticed yet."""

    @precondition(lambda self: self.dead)
    @rule(index=picks, success=st.booleans())
    def an_outcome_from_the_dead(self, index, success):
        job = self.dead[index % len(self.dead)]
        if success:
            assert self.succeed(job) == set()
        else:
            assert fail_job(self.alias, job, a_failure(), a_run(self.alias)) is None

    @rule(instance=st.sampled_from(["p", "q"]), on=st.booleans(), include_jobs=mostly)
    def switch_an_instance(self, instance, on, include_jobs):
        if on:
            activate(process_instance_id=instance, using=self.alias)
        else:
            suspend(process_instance_id=instance, include_jobs=include_jobs, using=self.alias)

    @rule(instance=st.sampled_from(["p", "q"]), index=picks, single=st.booleans(), begin=ahead, end=ahead)
    def suspend_with_dates(self, instance, index, single, begin, end):
        target = {"target": self.pick(index)} if single else {"process_instance_id": instance}
        at, until = (None if each is None else self.clock.now + timedelta(seconds=each) for each in (begin, end))
        if until is None or until > (at or self.clock.now):
            suspend(**target, at=at, until=until, using=self.alias)

    @rule()
    def sweep(self):
        sweep_suspensions(self.alias)
        rows = list(SuspendedJob.objects.using(self.alias))
        in_force = Suspensions.of(self.alias, [row.pk for row in rows])
        assert all(in_force.cover(row) for row in rows), "suspended by nothing"

    @precondition(lambda self: self.created)
    @rule(
        index=picks,
        verb=st.sampled_from([suspend, activate, requeue, delete_jobs, move_to_dead_letter, unlock, cancel, retry_now]),
    )
    def adjust(self, index, verb):
        pk = self.pick(index)
        held = self.held()
        result = verb(pk, using=self.alias)
        if verb in {delete_jobs, cancel} and result:
            self.unwanted.add(pk)
            assert pk not in held or pk in self.present(), "a running job was deleted"
        assert not (verb is unlock and result), "nobody holds a job but nodes that live"

    @rule(seconds=st.sampled_from([1, 20]))
    def tick(self, seconds):
        self.clock.tick(seconds)
        ExecutorNode.objects.using(self.alias).update(lease_expiration_time=self.clock.now + LEASE_TIME)
        trigger_due_timers(self.alias, 3)

    def present(self):
        return {pk for table in JOB_TABLES for pk in table._base_manager.using(self.alias).values_list("pk", flat=True)}

    def held(self):
        return {job.id for hand in self.hands.values() for batch in hand for job in batch}

    @invariant()
    def what_always_holds(self):
        rows = [row for table in JOB_TABLES for row in table._base_manager.using(self.alias)]
        assert len(rows) == len(self.present()), "in two tables"
        self.check_that_every_job_is_in_one_table_or_ended_once(
            [row.pk for row in rows if row.handler_type not in OF_BATCHES]
        )
        self.check_batches([row.batch_id for row in rows])
        self.check_that_locks_are_where_jobs_are_held({row.pk: row for row in rows if row.locked})
        self.check_that_process_instances_have_one_owner_and_one_batch()
        self.check_that_each_dead_letter_has_its_incident(row.pk for row in rows if isinstance(row, DeadLetterJob))
        self.check_that_each_task_lives_or_has_a_final_result({row.pk: type(row) for row in rows})
        for row in rows:
            assert 0 <= row.retries <= 3
            assert row.attempts <= 3
            assert isinstance(row, Job) or not row.locked

    def check_that_every_job_is_in_one_table_or_ended_once(self, present):
        self.ended += self.unwanted - set(present) - set(self.ended)
        everywhere = present + self.ended
        assert len(everywhere) == len(set(everywhere))
        assert set(everywhere) == set(self.created)

    def check_that_each_task_lives_or_has_a_final_result(self, tables):
        found = TaskResult.objects.using(self.alias).values_list("pk", "status", "end_time")
        results = {pk: (status, end is not None) for pk, status, end in found}
        assert results.keys() <= self.tasks
        failed, done = (ResultStatus.FAILED, True), (ResultStatus.SUCCESSFUL, True)
        waits = (ResultStatus.READY, False)
        for pk in self.tasks:
            expected = {None: (failed, done), DeadLetterJob: (failed,)}.get(tables.get(pk), (waits,))
            assert results.get(pk, waits) in expected, (pk, tables.get(pk))

    def check_batches(self, with_jobs):
        for batch in Batch.objects.using(self.alias).filter(pk__in=self.batches):
            progress = batch_progress(batch)
            assert progress.total == progress.changed + progress.skipped + progress.open
            if batch.over:
                assert not BatchPart.objects.using(self.alias).filter(batch_id=batch.pk).exists()
            else:
                assert batch.pk in with_jobs, "nobody goes on with it"
            if batch.state == BatchState.COMPLETED:
                assert batch.pk not in with_jobs

    def check_that_locks_are_where_jobs_are_held(self, rows):
        held = {job.id: (name, job) for name, hand in self.hands.items() for batch in hand for job in batch}
        assert set(rows) == set(held)
        for pk, (name, job) in held.items():
            assert (rows[pk].lock_owner, rows[pk].revision) == (self.nodes[name].lock_owner, job.revision)

    def check_that_each_dead_letter_has_its_incident(self, dead):
        opened = Incident.objects.using(self.alias).filter(state="open", resource=None).values_list("job_id", flat=True)
        assert sorted(opened) == sorted(dead)

    def check_that_process_instances_have_one_owner_and_one_batch(self):
        holders = {}
        for name, hand in self.hands.items():
            for batch in hand:
                (key,) = {job.serial_key for job in batch}
                if key:
                    assert key not in holders, "two batches of one process instance"
                    holders[key] = self.nodes[name].lock_owner
        locks = ExclusiveLock.objects.using(self.alias).values_list("process_instance_id", "lock_owner")
        assert dict(locks) == holders


class Mixtures(Reasons, Messaging, Grouping, Jobs):
    """The same with batches of jobs, and with jobs that wait for messages."""


@pytest.mark.databases("sqlite", "postgresql", "mariadb")
@pytest.mark.transactional
@pytest.mark.slow
@pytest.mark.timeout(400 + 5 * EXAMPLES)  # to make a failure small takes time, too
@pytest.mark.parametrize("rules", [Jobs, Mixtures])
def test_whatever_happens(alias, handle, rules):
    functions = {HANDLER: handle(lambda: None, name=HANDLER, database=alias)}
    functions[FOLLOW] = handle(lambda what: None, name=FOLLOW, database=alias)
    machine = type("Machine", (rules,), {"alias": alias, "functions": functions})
    engines = {"ENGINES": {name: {} for name in connections}, "DEFAULT_RETRY_PLAN": "R3/PT5S", "RESOURCES": RESOURCES}
    count = EXAMPLES if alias == "default" else EXAMPLES * 3 // 5
    with override_settings(JOBEXEC=engines):
        run_state_machine_as_test(
            machine,
            settings=settings(
                max_examples=count // 2 if rules is Mixtures else count,  # one of them takes twice as long
                stateful_step_count=30,
                deadline=None,
                database=None,
                suppress_health_check=list(HealthCheck),
            ),
        )
