"""Many failures at once: each job ends as it would alone, in a number of statements that does not grow with them."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from django.db import connections, transaction
from django.db.models import Q
from django.test.utils import CaptureQueriesContext

from jobexec import signals
from jobexec.models import (
    HANDLER_TABLES,
    JOB_TABLES,
    DeadLetterJob,
    ExclusiveLock,
    Job,
    JobLog,
    JobProgress,
    SuspendedJob,
    TimerJob,
)
from jobexec.operations import cancel, fail_job, fail_jobs, release_jobs, suspend
from jobexec.operations.rows import move_statement
from jobexec.operations.rows.progress import Progress, write_progress
from jobexec.retry import RetryPlan
from tests.support.factories import a_failure, a_run, acquire, make_job, table_of, tables_of, work
from tests.support.threads import Undo

pytestmark = pytest.mark.every_database

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)


def failed(alias, jobs, **values):
    return [(job, a_failure(**values), a_run(alias)) for job in jobs]


def works(alias, count, **columns):
    for _ in range(count):
        make_job(alias, **columns)
    return acquire(alias)


#: Each row and what it fails of; the names say where it goes.
MIXTURE = {
    "timer": ({}, {}),
    "timer with another plan": ({"retry_plan": "PT1M,PT10M,PT1H", "retries": 3, "attempts": 1}, {}),
    "timer at a time of its own": ({"priority": 9}, {"retry_at": NOW + timedelta(days=2)}),
    "timer of a suspect": ({"lost_runs": 2, "unknown_since": NOW}, {"message": "x\x00y"}),
    "timer after a conflict": ({"conflicts": 3}, {"kind": "conflict"}),
    "timer with a plan that fails": ({}, {"plan": RetryPlan.from_callable(lambda failures, error: 1 / 0)}),
    "unknown": ({}, {"kind": "unknown"}),
    "interrupted": ({"lost_runs": 1}, {"kind": "interrupted", "retry_at": NOW + timedelta(seconds=5)}),
    "dead letter": ({"retries": 1, "due_date": NOW - timedelta(hours=1)}, {"stack": "s" * 200_000}),
    "fatal": ({}, {"kind": "fatal"}),
    "unknown for too long": ({"unknown_since": NOW - timedelta(days=9999)}, {"kind": "unknown"}),
    "suspended": ({"tenant_id": "suspended"}, {}),
    "suspended by itself": ({"suspend_requested": True}, {"kind": "conflict"}),
    "dead in a suspended tenant": ({"tenant_id": "suspended"}, {"kind": "fatal"}),
    "cancelled": ({"cancel_requested": True}, {}),
    "cancelled by its handler": ({}, {"kind": "cancelled"}),
    "of a process instance": ({"process_instance_id": "p"}, {}),
    "sibling": ({"process_instance_id": "p"}, {}),
    "still running": ({"process_instance_id": "q"}, {"keeps_instance": True}),
}


@pytest.fixture
def mixture(alias):
    """The acquired jobs of MIXTURE with their failures and runs, in the order of their names."""
    suspend(tenant_id="suspended", using=alias)
    rows = {name: make_job(alias, **without(columns)) for name, (columns, _) in MIXTURE.items()}
    acquired = {job.id: job for job in acquire(alias, limit=100)}
    covered = Job.objects.using(alias).exclude(pk__in=acquired)
    assert not covered.exists()
    for name, (columns, _) in MIXTURE.items():
        Job.objects.using(alias).filter(pk=rows[name].pk).update(**columns)
    return [
        (acquired[rows[name].pk], a_failure(**values), a_run(alias, duration=number))
        for number, (name, (_, values)) in enumerate(MIXTURE.items())
    ]


def without(columns):
    """Without what would keep it from being acquired."""
    return {name: columns[name] for name in ("process_instance_id",) if name in columns}


def written(alias):
    """Whatever stands in the tables afterwards."""
    tables = {table: set(table._base_manager.using(alias).values_list("pk", flat=True)) for table in JOB_TABLES}
    rows = {row["id"]: row for table in JOB_TABLES for row in table._base_manager.using(alias).values()}
    log = {entry.pop("job_id"): entry for entry in JobLog.objects.using(alias).values() if entry.pop("id")}
    return tables, rows, log, set(ExclusiveLock.objects.using(alias).values_list("process_instance_id", flat=True))


def undone(alias, act):
    """What `act` returns and what it writes, which is then undone."""
    try:
        with transaction.atomic(alias):
            result = act()
            found = written(alias)
            raise Undo
    except Undo:
        return result, found


@pytest.mark.gate
def test_together_they_end_as_one_by_one(alias, mixture):
    singly, found_singly = undone(alias, lambda: [fail_job(alias, *each) for each in mixture])
    together, found = undone(alias, lambda: fail_jobs(alias, mixture))
    assert found == found_singly
    assert [type(job) for job in together] == [type(job) for job in singly]
    assert [vars_of(job) for job in together] == [vars_of(job) for job in singly]
    tables, _, log, locked = found
    assert [len(tables[table]) for table in HANDLER_TABLES] == [0, 11, 0, 2, 4]
    assert len(log) == len(MIXTURE) - 2, "all but the unknown and the interrupted one"
    assert locked == {"q"}


def vars_of(job):
    return {name: value for name, value in vars(job).items() if name != "_state"}


@pytest.mark.gate
@pytest.mark.parametrize("level", ["none", "failures", "full"])
def test_inside_the_database_they_end_as_through_python(alias, mixture, monkeypatch, configure, level):
    configure(HISTORY_LEVEL=level)
    fast, found = undone(alias, lambda: fail_jobs(alias, mixture))
    with monkeypatch.context() as patch:
        patch.setattr(move_statement, "is_possible", lambda using: False)
        slow, found_slowly = undone(alias, lambda: fail_jobs(alias, mixture))
    assert found == found_slowly
    assert [type(job) for job in fast] == [type(job) for job in slow]
    for one, other in zip(fast, slow, strict=True):
        assert vars_of(one).items() <= vars_of(other).items(), "what was not read is fetched when it is asked for"


@pytest.mark.fast_form
def test_what_was_not_read_is_fetched_from_where_the_job_now_is(alias):
    job = work(alias, handler_configuration={"args": [7]})
    moved = fail_job(alias, job, a_failure(), a_run(alias))
    assert moved.get_deferred_fields() >= {"handler_configuration", "custom_headers"}
    assert (type(moved), moved.handler_configuration) == (TimerJob, {"args": [7]})


@pytest.mark.parametrize("kind", ["error", "fatal"])
def test_a_receiver_is_given_the_whole_row(alias, kind):
    def receiver(**kwargs):
        pass

    signal = signals.job_failed if kind == "error" else signals.job_dead_lettered
    signal.connect(receiver)
    try:
        moved = fail_job(alias, work(alias), a_failure(kind=kind), a_run(alias))
    finally:
        signal.disconnect(receiver)
    assert moved.get_deferred_fields() == set()


def test_the_mixture_goes_everywhere(alias, mixture):
    ends = dict(zip(MIXTURE, fail_jobs(alias, mixture), strict=True))
    for name, job in ends.items():
        expected = TimerJob
        if name.startswith(("dead", "fatal", "unknown for")):
            expected = DeadLetterJob
        elif name.startswith("suspended"):
            expected = SuspendedJob
        elif name.startswith("cancelled"):
            expected = Job
        assert type(job) is expected, name
        assert table_of(alias, job) is (None if expected is Job else expected), name


@pytest.mark.parametrize("kind", ["error", "fatal", "cancelled"])
def test_the_number_of_statements_does_not_grow_with_the_group(alias, kind):
    counts = []
    for size in (3, 20):
        jobs = works(alias, size, process_instance_id=f"p{size}")
        assert len(jobs) == size
        with CaptureQueriesContext(connections[alias]) as queries:
            assert all(fail_jobs(alias, failed(alias, jobs, kind=kind)))
        counts.append(len(queries))
    assert counts[0] == counts[1] <= 12


def test_no_statement_without_a_job(alias, django_assert_num_queries):
    works(alias, 1)
    with django_assert_num_queries(0, using=alias):
        assert fail_jobs(alias, []) == []


@pytest.mark.parametrize("how", ["released", "acquired anew", "settled", "of another"])
def test_what_is_no_longer_ours_is_left_alone_and_the_others_move(alias, how):
    first, late, last = works(alias, 3)
    if how == "settled":
        fail_job(alias, late, a_failure("first"), a_run(alias))
    elif how == "of another":
        late = replace(late, lock_owner="another")
    else:
        release_jobs(alias, [late])
    if how == "acquired anew":
        acquire(alias, "one")
    before = tables_of(alias)[late.id]
    moved = fail_jobs(alias, failed(alias, [last, late, first], message="late"))
    assert [job and job.pk for job in moved] == [last.id, None, first.id]
    assert tables_of(alias) == {first.id: [TimerJob], late.id: before, last.id: [TimerJob]}
    logged = JobLog.objects.using(alias).filter(exception_message="late")
    assert set(logged.values_list("job_id", flat=True)) == {first.id, last.id}


def test_of_two_outcomes_of_one_acquisition_the_first_counts(alias):
    job = work(alias)
    again = replace(job, revision=job.revision + 2)
    moved = fail_jobs(alias, [(each, a_failure(str(n)), a_run(alias)) for n, each in enumerate([again, job, job])])
    assert [row and row.exception_message for row in moved] == [None, "1", None]
    assert JobLog.objects.using(alias).get().exception_message == "1"


def test_jobs_of_several_owners(alias):
    """A node that lost its lease has another owner afterwards, and outcomes of both in one group."""
    jobs = [work(alias, owner, process_instance_id=owner) for owner in ("one", "two")]
    stranger = work(alias, "three", process_instance_id="three")
    assert all(fail_jobs(alias, failed(alias, jobs)))
    assert set(ExclusiveLock.objects.using(alias).values_list("process_instance_id", flat=True)) == {"three"}
    assert tables_of(alias)[stranger.id] == [Job]


def test_a_process_instance_stays_locked_until_its_last_sibling(alias):
    first, second, third = works(alias, 3, process_instance_id="p")
    fail_jobs(alias, failed(alias, [first, second]))
    assert ExclusiveLock.objects.using(alias).exists()
    fail_jobs(alias, failed(alias, [third]))
    assert not ExclusiveLock.objects.using(alias).exists()


def test_the_instance_of_one_that_still_runs_stays_locked_beside_one_that_has_ended(alias):
    still, ended = work(alias, process_instance_id="p"), work(alias, process_instance_id="q")
    fail_jobs(alias, [*failed(alias, [still], keeps_instance=True), *failed(alias, [ended])])
    assert ExclusiveLock.objects.using(alias).get().process_instance_id == "p"


def test_many_cancelled_ones_go_with_their_progress(alias):
    jobs = works(alias, 3)
    write_progress(alias, [Progress(job.id, 1, 5, None) for job in jobs])
    cancel([job.id for job in jobs[:2]], using=alias)
    moved = fail_jobs(alias, failed(alias, jobs))
    assert [type(row) for row in moved] == [Job, Job, TimerJob]
    assert JobProgress.objects.using(alias).get().job_id == jobs[2].id
    states = JobLog.objects.using(alias).filter(Q(job_id__in=[job.id for job in jobs])).order_by("job_id")
    assert [entry.state for entry in states] == ["cancelled", "cancelled", "failed"]


@pytest.mark.slow
def test_many_long_stack_traces(alias):
    """Together they are more than MariaDB takes in one statement."""
    jobs = works(alias, 60)
    groups = [(job, a_failure(stack="ü" * 150_000 + str(number)), a_run(alias)) for number, job in enumerate(jobs)]
    groups.insert(30, (replace(jobs[0], revision=99), a_failure(), a_run(alias)))
    moved = fail_jobs(alias, groups)
    assert [row and row.pk for row in moved] == [job.id for job in jobs[:30]] + [None] + [job.id for job in jobs[30:]]
    for number, job in enumerate(jobs):
        stack = TimerJob.objects.using(alias).get(pk=job.id).exception_stack
        assert stack.endswith(f"ü{number}")
    assert JobLog.objects.using(alias).count() == 60


@pytest.mark.transactional
@pytest.mark.parametrize("where", ["decide", "insert"])
def test_an_error_leaves_the_whole_group_as_it_was(alias, where):
    jobs = works(alias, 3, process_instance_id="p")
    before = written(alias)
    poison = failed(alias, jobs)
    if where == "decide":
        poison[1] = (jobs[1], a_failure(retry_at="soon"), a_run(alias))
    else:  # its row is there already
        twin = make_job(alias, due_date=NOW + timedelta(days=1))
        TimerJob.objects.using(alias).filter(pk=twin.pk).update(id=jobs[1].id)
        before = written(alias)
    with pytest.raises(Exception, match=r"astimezone|UNIQUE|unique|Duplicate"):
        fail_jobs(alias, poison)
    assert written(alias) == before
