"""Whatever workers and people do to external jobs, in whatever order: each is finished once or accounted for."""

from datetime import UTC, datetime, timedelta

import pytest
from django.db import connections, transaction
from django.test import override_settings
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from hypothesis.stateful import run_state_machine_as_test as run

from jobexec.clock import FrozenClock
from jobexec.exceptions import IncidentNotFound, JobNotFound, JobStateError, StaleLease, WrongWorker
from jobexec.handlers import registry
from jobexec.handlers.decorator import job as job_decorator
from jobexec.models import (
    JOB_TABLES,
    DeadLetterJob,
    ExclusiveLock,
    ExternalWorkerJob,
    Incident,
    IncidentState,
    Job,
    JobLog,
    JobType,
    SuspendedJob,
)
from jobexec.operations import activate, cancel, delete_jobs, move_to_dead_letter, requeue, suspend, sweep_suspensions
from jobexec.operations.external import (
    complete_external_job,
    extend_external_deadline,
    fail_external_job,
    lock_external_job,
    resolve_external_incident,
    set_external_retries,
    throw_external_error,
    unlock_external_job,
    yield_jobs,
)
from tests.support.factories import fetch, make_external
from tests.support.suite import tiers

pytestmark = pytest.mark.every_database

EXAMPLES = tiers.current().examples
WORKERS = ("one", "two")
REFUSED = (JobNotFound, JobStateError, StaleLease, WrongWorker)
workers = st.sampled_from(WORKERS)
instances = st.sampled_from(["", "p", "p", "q"])
picks = st.integers(0, 50)
mostly = st.sampled_from([True, True, True, False])


class Workers(RuleBasedStateMachine):
    alias = "default"

    def __init__(self):
        super().__init__()
        self.undo = transaction.atomic(using=self.alias)
        self.undo.__enter__()
        self.clock = FrozenClock(datetime(2026, 3, 1, tzinfo=UTC))
        self.clock.__enter__()
        self.created = {}  # id: key
        self.given = []  # every activation, also those that are over
        self.live = {}  # id: the deadline of whoever holds it
        self.completed, self.caught, self.unwanted = [], [], set()

    def teardown(self):
        self.clock.__exit__(None, None, None)
        transaction.set_rollback(True, using=self.alias)
        self.undo.__exit__(None, None, None)

    @initialize()
    def begin(self):
        for instance in ("p", "p", "q", ""):
            self.create(instance, True, True)

    @rule(instance=instances, exclusive=mostly, callback=st.booleans())
    def create(self, instance, exclusive, callback):
        options = {"process_instance_id": instance, "exclusive": exclusive, "max_deliveries": 4}
        if callback:
            options |= {"on_complete": "tests.after", "on_error": {"CAUGHT": "tests.caught"}}
        row = make_external(self.alias, **options)
        self.created[row.pk] = row.job_key

    def holds(self, id):
        return self.live.get(id, self.clock.now) > self.clock.now

    @rule(worker=workers, limit=st.sampled_from([1, 2, 5]), lease=st.booleans())
    def fetch(self, worker, limit, lease):
        jobs = fetch(self.alias, worker=worker, max_jobs=limit, with_lease=lease, timeout=timedelta(seconds=20))
        for job in jobs:
            assert not self.holds(job.id), "two live leases"
            self.live[job.id] = job.deadline
        self.given += jobs

    @precondition(lambda self: self.given)
    @rule(
        index=picks,
        named=st.booleans(),
        verb=st.sampled_from(["complete", "complete", "fail", "die", "back off", "catch", "throw", "extend", "yield"]),
    )
    def report(self, index, named, verb):
        job = self.given[-1 - index % len(self.given)]
        before = self.row(job.id)
        who = {"worker": job.worker if named else None, "lease": job.lease_token or None}
        try:
            self.say(verb, job, who)
        except REFUSED as error:
            self.check_refusal(error, before, job, verb)
            return
        if verb not in ("extend", "yield"):
            assert before.lease_token == job.lease_token, "somebody else's lease"
            assert not named or before.lock_owner == job.worker, "somebody else's job"

    def say(self, verb, job, who):
        alias, key = self.alias, job.key
        if verb == "complete":
            complete_external_job(alias, key, {"by": job.worker}, **who)
            self.completed.append(job.id)
        elif verb == "extend":
            extend_external_deadline(alias, key, timedelta(seconds=30), **who)
            self.live[job.id] = self.clock.now + timedelta(seconds=30)
            return
        elif verb == "yield":
            if not yield_jobs(alias, [job]):
                raise JobNotFound
        elif verb in ("catch", "throw"):
            throw_external_error(alias, key, code="CAUGHT" if verb == "catch" else "OTHER", **who)
            if Job.objects.using(alias).filter(pk=job.id).exists():
                self.caught.append(job.id)
        else:
            wait = timedelta(seconds=15 if verb == "back off" else 0)
            fail_external_job(alias, key, retries=0 if verb == "die" else 2, back_off=wait, **who)
        self.live.pop(job.id, None)

    def check_refusal(self, error, before, job, verb):
        """What is refused is refused for a reason, and nothing has changed."""
        after = self.row(job.id)
        assert (before is None) == (after is None)
        if isinstance(before, ExternalWorkerJob) and isinstance(after, ExternalWorkerJob):
            assert before.revision == after.revision
        if verb == "yield":
            return
        if isinstance(error, JobNotFound):
            assert before is None or before.job_key is None  # what follows it may stand in every table
        elif isinstance(error, WrongWorker):
            assert before.lock_owner != job.worker
        elif isinstance(error, StaleLease):
            assert before.lease_token != job.lease_token
        elif verb == "extend":
            assert not self.holds(job.id)
        else:
            assert isinstance(before, DeadLetterJob | SuspendedJob)

    @rule(index=picks, worker=workers, on=st.booleans())
    def lock_or_unlock_by_name(self, index, worker, on):
        id, key = self.pick(index)
        before, held = self.row(id), self.holds(id)
        try:
            if on:
                lock_external_job(self.alias, key, worker, timedelta(seconds=10))
                assert not held or before.lock_owner == worker, "two live leases"
                self.live[id] = self.clock.now + timedelta(seconds=10)
            else:
                unlock_external_job(self.alias, key)
                self.live.pop(id, None)
        except REFUSED:
            pass

    @rule(seconds=st.sampled_from([1, 20, 60]))
    def tick(self, seconds):
        self.clock.tick(seconds)

    @rule(instance=st.sampled_from(["p", "q"]), on=st.booleans(), sweeps=st.booleans())
    def switch_an_instance(self, instance, on, sweeps):
        (activate if on else suspend)(process_instance_id=instance, using=self.alias)
        if sweeps:
            sweep_suspensions(self.alias)

    @rule(
        index=picks,
        verb=st.sampled_from([suspend, activate, requeue, delete_jobs, move_to_dead_letter, cancel]),
    )
    def say_it_by_hand(self, index, verb):
        id, _ = self.pick(index)
        held, result = self.holds(id), verb(id, using=self.alias)
        if result and verb in (delete_jobs, cancel):
            self.unwanted.add(id)
            assert not held or self.row(id) is not None, "what a worker has in hand was deleted"

    @rule(index=picks, retries=st.booleans())
    def resolve(self, index, retries):
        dead = list(DeadLetterJob.objects.using(self.alias).filter(job_key__isnull=False).order_by("pk"))
        if dead:
            job = dead[index % len(dead)]
            key = Incident.objects.using(self.alias).get(job_id=job.pk, state=IncidentState.OPEN).incident_key
            if retries:
                set_external_retries(self.alias, job.job_key, 2)
            if retries or job.retries:
                resolve_external_incident(self.alias, key)
            else:
                with pytest.raises(JobStateError):
                    resolve_external_incident(self.alias, key)
                return
            with pytest.raises(IncidentNotFound):
                resolve_external_incident(self.alias, key)

    def pick(self, index):
        return list(self.created.items())[index % len(self.created)]

    def row(self, id):
        for table in JOB_TABLES:
            row = table._base_manager.using(self.alias).filter(pk=id).first()
            if row is not None:
                return row
        return None

    @invariant()
    def what_always_holds(self):
        rows = [row for table in JOB_TABLES for row in table._base_manager.using(self.alias)]
        assert len(rows) == len({row.pk for row in rows}), "in two tables"
        self.check_that_each_job_is_somewhere_or_finished_once({row.pk: row for row in rows})
        external = [row for row in rows if isinstance(row, ExternalWorkerJob)]
        assert {row.pk for row in external if row.locked} == {id for id in self.live if self.holds(id)}
        self.check_exclusive_locks(external)
        self.check_incidents({row.pk: row.job_key for row in rows if isinstance(row, DeadLetterJob)})
        for row in rows:
            assert row.type == JobType.EXTERNAL
            assert row.job_key in (None, self.created[row.pk])
            assert row.job_key is not None or not isinstance(row, ExternalWorkerJob), "no worker can name it"

    def check_that_each_job_is_somewhere_or_finished_once(self, rows):
        ended = [*self.completed, *self.caught]
        assert len(ended) == len(set(ended)), "finished twice"
        for id in self.created:
            row = rows.get(id)
            if row is None:
                assert id in self.unwanted or id in self.completed, "lost"
            elif row.job_key is None:
                assert id in ended, "a callback that nobody has asked for"
            else:
                assert id not in ended, "there is still something to do"
        log = JobLog.objects.using(self.alias).filter(state="successful").values_list("job_id", flat=True)
        assert sorted(log) == sorted(self.completed)

    def check_exclusive_locks(self, external):
        holders = {}
        for row in external:
            if row.lock_owner is not None and row.serial_key:
                assert row.serial_key not in holders, "two jobs of one process instance"
                holders[row.serial_key] = f"external:{row.pk}"
        locks = ExclusiveLock.objects.using(self.alias).values_list("process_instance_id", "lock_owner")
        assert dict(locks) == holders

    def check_incidents(self, dead):
        found = list(Incident.objects.using(self.alias).filter(state=IncidentState.OPEN))
        assert sorted(each.job_id for each in found) == sorted(dead)
        # Workers can name the incidents of their jobs, and not those of what follows these.
        assert all((each.incident_key is not None) == (dead[each.job_id] is not None) for each in found)
        keys = list(Incident.objects.using(self.alias).values_list("incident_key", flat=True))
        keys = [key for key in keys if key is not None]
        assert len({*keys, *self.created.values()}) == len(keys) + len(self.created)


@pytest.mark.databases("sqlite", "postgresql")
@pytest.mark.transactional
@pytest.mark.slow
@pytest.mark.timeout(400 + 5 * EXAMPLES)  # to make a failure small takes time, too
def test_whatever_happens(alias):
    machine = type("Machine", (Workers,), {"alias": alias})
    with registry.isolated(), override_settings(JOBEXEC={"ENGINES": {name: {} for name in connections}}):
        job_decorator(name="tests.after")(lambda variables: None)
        job_decorator(name="tests.caught")(lambda variables, error_code, error_message: None)
        run(
            machine,
            settings=settings(
                max_examples=EXAMPLES,
                stateful_step_count=30,
                deadline=None,
                database=None,
                suppress_health_check=list(HealthCheck),
            ),
        )
