"""What the job log tells of each event, at each level, in every form of the statements."""

from collections import Counter
from datetime import timedelta

import pytest

from jobexec import job
from jobexec.handlers import registry
from jobexec.models import Job, JobLog, TimerJob
from jobexec.operations import (
    cancel,
    complete_jobs,
    create_jobs,
    delete_jobs,
    fail_jobs,
    recover_node,
    requeue,
    suspend,
)
from jobexec.operations.values.acquired_job import ALONE_FROM
from tests.support.factories import HANDLER, a_failure, a_run, acquire, make_job, make_node
from tests.support.forms import MOVES, VERBS, move, verbs

EXPECTED = {
    "none": set(),
    "failures": {"failed"},
    "activity": {"failed", "successful", "deleted", "cancelled"},
    "full": {"created", "failed", "successful", "deleted", "cancelled"},
}
COMMON = {"process_instance_id": "order-1", "process_definition_key": "order", "tenant_id": "acme", "priority": 2}


@pytest.fixture(params=EXPECTED)
def level(request, configure):
    configure(HISTORY_LEVEL=request.param, MAX_CONFLICTS=0)
    return request.param


def states(alias, **conditions):
    return Counter(JobLog.objects.using(alias).filter(**conditions).values_list("state", flat=True))


def expected(level, **counts):
    return Counter({state: count for state, count in counts.items() if state in EXPECTED[level]})


def test_creation_in_every_way(alias, level):
    with registry.isolated():
        handler = job(name="tests.logged", process_definition_key="order")(lambda number=0: None)
        handler = handler.using(database=alias, tenant_id="acme", priority=2)
        made = [handler.enqueue(1), *handler.enqueue_many([(2,), (3,)])]  # by COPY on PostgreSQL
        made.append(handler.using(delay=60).enqueue(4))
        made += handler.using(delay=60).enqueue_many([(5,)])
        made += create_jobs(alias, [{"handler_type": HANDLER, "tenant_id": "acme", "process_definition_key": "order"}])
    assert states(alias) == expected(level, created=6)
    log = {entry.job_id: entry for entry in JobLog.objects.using(alias)}
    for row in made if log else []:
        entry = log[row.pk]
        assert (entry.handler_type, entry.job_definition_id) == (row.handler_type, row.job_definition_id)
        assert (entry.tenant_id, entry.process_definition_key, entry.priority) == ("acme", "order", row.priority)
        assert (entry.due_date, entry.timestamp) == (row.due_date, row.create_time)
        assert (entry.retries, entry.attempt, entry.wait, entry.duration, entry.node) == (3, 0, None, None, "")


@pytest.mark.parametrize("form", MOVES)
def test_the_end_of_a_run_in_every_way(alias, level, frozen, form, monkeypatch):
    move(form, alias, monkeypatch)
    rows = [make_job(alias, retries=retries, **COMMON | {"process_instance_id": f"{retries}"}) for retries in (9, 5, 1)]
    frozen.tick(4)
    works = {work.id: work for work in acquire(alias)}
    run = a_run(alias, duration=1.0)
    good, again, dead = (works[row.pk] for row in rows)
    complete_jobs(alias, [(good, run)])
    failure = a_failure("ValueError: no", stack="Trace")
    fail_jobs(alias, [(again, failure, run), (dead, failure, run)])
    assert states(alias) == expected(level, created=3, successful=1, failed=2)
    for entry in JobLog.objects.using(alias).exclude(state="created"):
        failed = entry.state == "failed"
        left = {good.id: 9, again.id: 4, dead.id: 0}[entry.job_id]
        assert (entry.attempt, entry.retries, entry.node, entry.wait, entry.duration) == (1, left, "node", 3.0, 1.0)
        assert (entry.exception_message, entry.exception_stack) == (("ValueError: no", "Trace") if failed else ("", ""))
        assert bool(entry.fingerprint) == failed
        assert (entry.tenant_id, entry.process_definition_key, entry.priority) == ("acme", "order", 2)
        assert entry.process_instance_id in ("9", "5", "1")
        assert entry.timestamp == frozen.now


@pytest.mark.parametrize("form", VERBS)
def test_cancelled_and_deleted(alias, level, form, monkeypatch):
    verbs(form, alias, monkeypatch)
    waiting, deleted, running, timer = (make_job(alias, **COMMON, exclusive=False) for _ in range(4))
    make_job(alias, due_date=timer.create_time + timedelta(hours=1))
    cancel(waiting, using=alias)
    delete_jobs(deleted, using=alias)
    works = {work.id: work for work in acquire(alias)}
    cancel(running.pk, using=alias)
    fail_jobs(alias, [(works[running.pk], a_failure(), a_run(alias))])
    delete_jobs(TimerJob.objects.using(alias).all(), using=alias)
    assert states(alias) == expected(level, created=5, cancelled=2, deleted=2)
    for entry in JobLog.objects.using(alias).filter(state="cancelled"):
        ran = entry.job_id == running.pk
        assert (entry.attempt, entry.node, entry.duration) == ((1, "node", 1.0) if ran else (0, "", None))


def test_a_lost_run_that_costs_an_attempt(alias, level, frozen):
    node = make_node(alias)
    row = make_job(alias)
    acquire(alias, node.lock_owner)
    Job.objects.using(alias).filter(pk=row.pk).update(lost_runs=ALONE_FROM, start_time=frozen.now)
    recover_node(alias, node)
    assert states(alias, job_id=row.pk) == expected(level, created=1, failed=1)
    for entry in JobLog.objects.using(alias).filter(state="failed"):
        assert entry.exception_message.startswith("The executor process died")
        assert entry.fingerprint


def test_moves_are_no_events(alias, level):
    row = make_job(alias, tenant_id="acme", retries=1)
    suspend(row, using=alias)
    (other,) = [make_job(alias, retries=1)]
    (work,) = acquire(alias)
    fail_jobs(alias, [(work, a_failure(kind="fatal"), a_run(alias))])
    requeue(other.pk, using=alias)
    assert states(alias) == expected(level, created=2, failed=1)
