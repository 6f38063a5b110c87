"""Processes for jobs that were lost twice: what goes to them, and what becomes of a job whose process fails."""

import sys
import threading
from datetime import timedelta
from uuid import uuid4

import pytest
from django.db import OperationalError

from jobexec import clock
from jobexec.clock import FrozenClock
from jobexec.conf import get_settings
from jobexec.executor import job_executor
from jobexec.executor.job_executor import JobExecutor
from jobexec.executor.loops import solitary
from jobexec.executor.loops.solitary import Held, SolitaryProcesses
from jobexec.models import BlockedJob, ExclusiveLock, Job
from jobexec.operations import complete_jobs, hold_resource
from jobexec.operations.resources.promote import promote
from jobexec.operations.settle.release import release_jobs
from jobexec.operations.settle.take_over import take_over
from jobexec.operations.values.acquired_job import batches
from tests.support.factories import a_run, acquire, make_job
from tests.support.waiting import TIMEOUT, threads, until

pytestmark = pytest.mark.transactional

NOTHING = [sys.executable, "-c", "raise SystemExit(7)"]


@pytest.fixture
def solitude():
    made = SolitaryProcesses(NOTHING)
    yield made
    assert made.stop(60)
    until(lambda: not threads("jobexec-solitary"))


def ids(sifted):
    return [[job.id for job in batch] for batch in sifted]


def test_one_argument_says_which_job_it_is():
    held = Held("default", uuid4(), 3, "node a:1 2:x")
    assert Held.parse(str(held)) == held
    with pytest.raises(ValueError):
        Held.parse("default 17")


def test_all_others_stay_as_they_are(alias, solitude):
    for _number in range(3):
        make_job(alias, process_instance_id="order-1", lost_runs=1)
        make_job(alias)
    page = batches(acquire(alias))
    assert solitude.sift(page) == (page, [])
    assert solitude.empty


@pytest.mark.databases("postgresql", "mariadb")
def test_siblings_in_front_come_first_and_those_behind_later(alias, solitude):
    rows = [make_job(alias, process_instance_id="order-1", lost_runs=2 * (number == 1)) for number in range(3)]
    page = batches(acquire(alias))
    rest, behind = solitude.sift(page)
    assert (ids(rest), ids([behind])) == ([[rows[0].pk]], [[row.pk for row in rows[1:]]])
    assert solitude.empty


@pytest.mark.databases("postgresql", "mariadb")
@pytest.mark.parametrize("command", [NOTHING, ["/nowhere/python"]])
def test_a_job_whose_process_cannot_take_it_over_runs_here(alias, command, caplog):
    solitude = SolitaryProcesses(command)
    row = make_job(alias, lost_runs=2, process_instance_id="order-1")
    make_job(alias, process_instance_id="order-1")
    with FrozenClock(clock.now()) as frozen:
        (page,) = batches(acquire(alias))
        assert solitude.sift([page]) == ([], page[1:])
        release_jobs(alias, page[1:])
        until(lambda: solitude.empty)
        stored = Job.objects.using(alias).get(pk=row.pk)
        assert (stored.lock_owner, stored.lost_runs, stored.attempts) == (None, 2, 0)
        assert "could not run in its own process" in caplog.text
        page = batches(acquire(alias))
        assert solitude.sift(page) == (page, []), "and not one process after the other"
        frozen.tick(300)
        assert solitude.sift(page) == ([], page[0][1:])
        until(lambda: solitude.empty)
    assert solitude.stop(60)
    until(lambda: not threads("jobexec-solitary"))


@pytest.mark.gate
@pytest.mark.databases("postgresql", "mariadb")
@pytest.mark.parametrize("name", ["is_held", "release_jobs"])
def test_a_job_that_could_not_be_released_is_released_later(alias, configure, handle, monkeypatch, name):
    configure()
    seen, failed = [], threading.Event()
    handle(seen.append, name="tests.lost")
    real = getattr(solitary, name)

    def fail(*args):
        if failed.is_set():
            return real(*args)
        failed.set()
        raise OperationalError("away")

    monkeypatch.setattr(solitary, name, fail)
    make_job(alias, handler_type="tests.lost", handler_configuration={"args": [1], "kwargs": {}}, lost_runs=2)
    executor = JobExecutor(command=NOTHING)
    executor.start()
    try:
        until(lambda: seen == [1])
        assert failed.is_set()
    finally:
        assert executor.stop(TIMEOUT)
        until(lambda: not threads())


def test_a_job_that_the_pool_refuses_and_nobody_can_release_is_released_later(alias, configure, monkeypatch):
    configure()
    executor = JobExecutor()
    (engine,) = executor.engines.values()
    (acquisition,) = engine.acquisitions.values()
    engine.node.register()
    row = make_job(alias)

    def refuse(using, jobs):
        raise OperationalError("away")

    with monkeypatch.context() as patched:
        patched.setattr(job_executor, "release_jobs", refuse)
        executor.pool.submit(batches(acquire(alias, engine.node.owner)), 0)
    assert Job.objects.using(alias).get().lock_owner == engine.node.owner
    executor.pool._queue.closed = False
    acquisition.run_once()
    assert [job.id for job in executor.pool.jobs_in_hand()] == [row.pk]
    assert Job.objects.using(alias).get().lost_runs == 0


@pytest.mark.databases("postgresql", "mariadb")
def test_when_it_stops_what_waits_is_given_back(alias, solitude):
    row = make_job(alias, lost_runs=2)
    solitude.ask_to_stop()
    page = batches(acquire(alias))
    assert solitude.sift(page) == (page, []), "the pool, which is closed, gives it back"
    solitude.start()
    solitude.sift(page)
    assert solitude.stop(60)
    until(lambda: Job.objects.using(alias).get(pk=row.pk).lock_owner is None)


def test_a_job_whose_resource_is_held_open_meanwhile_does_not_begin(alias, configure):
    configure(RESOURCES={"pay.example": {"limit": 5}})
    row = make_job(alias, lost_runs=2, resource="pay.example", handler_type="tests.unknown")
    promote(alias, ["pay.example"], 1)
    (job,) = acquire(alias, "node")
    hold_resource("pay.example", using=alias)
    executor = JobExecutor(get_settings(), held=Held(alias, row.pk, job.revision, "node"))
    executor.start()
    until(lambda: BlockedJob.objects.using(alias).filter(pk=row.pk).exists())
    assert BlockedJob.objects.using(alias).get().attempts == 0
    assert executor.stop(TIMEOUT)
    until(lambda: not threads())


@pytest.mark.databases("postgresql", "mariadb")
def test_the_end_of_its_process_lets_its_instance_alone(alias, solitude, monkeypatch):
    """Which this node may hold again by then, for a job past its timeout whose row is somewhere else."""
    row = make_job(alias, lost_runs=2, process_instance_id="order-1")
    (batch,) = batches(acquire(alias, "node"))

    def child(work):
        taken = take_over(Held(alias, row.pk, work.revision, "node"), "child", clock.now(alias))
        complete_jobs(alias, [(taken, a_run(alias))])
        ExclusiveLock.objects.using(alias).create(process_instance_id="order-1", lock_owner="node", acquisition=uuid4())
        return 0

    monkeypatch.setattr(solitude, "_child", child)
    assert solitude.sift([batch]) == ([], [])
    until(lambda: solitude.empty)
    assert ExclusiveLock.objects.using(alias).get().lock_owner == "node"
    assert not Job.objects.using(alias).exists()


class TestTakeOver:
    def test_with_the_lock_of_its_instance(self, alias):
        row = make_job(alias, process_instance_id="order-1", tenant_id="acme")
        (work,) = acquire(alias, "parent")
        until = clock.now(alias) + timedelta(minutes=5)
        taken = take_over(Held(alias, row.pk, work.revision, "parent"), "child", until)
        assert (taken.id, taken.lock_owner, taken.revision) == (row.pk, "child", work.revision + 1)
        stored = Job.objects.using(alias).get()
        assert (stored.lock_owner, stored.revision, stored.lock_expiration_time) == ("child", taken.revision, until)
        assert ExclusiveLock.objects.using(alias).get().lock_owner == "child"
        assert release_jobs(alias, [work]) == 0, "it is the parent's no longer"
        assert take_over(Held(alias, row.pk, work.revision, "parent"), "another", until) is None
        assert ExclusiveLock.objects.using(alias).get().lock_owner == "child"

    @pytest.mark.parametrize("change", ["released", "gone"])
    def test_not_what_the_parent_has_no_longer(self, alias, change):
        row = make_job(alias)
        (work,) = acquire(alias, "parent")
        if change == "released":
            release_jobs(alias, [work])
        else:
            Job.objects.using(alias).all().delete()
        assert take_over(Held(alias, row.pk, work.revision, "parent"), "child", clock.now(alias)) is None
