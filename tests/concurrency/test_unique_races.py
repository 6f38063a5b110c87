"""Several who want one key at the same moment: of the jobs one is there, whoever comes first, ends or gives up."""

import threading
from datetime import timedelta

import pytest
from django.db import OperationalError, connections, transaction
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from jobexec import clock, job
from jobexec.exceptions import DuplicateJob
from jobexec.handlers import registry
from jobexec.models import JOB_TABLES, Job, JobKey, TimerJob
from jobexec.operations import complete_jobs, set_due_date, trigger_due_timers
from jobexec.operations.enqueue import unique_keys
from jobexec.operations.maintenance import key_cleanup
from jobexec.operations.maintenance.key_cleanup import freeing_keys
from jobexec.operations.sql.errors import is_conflict
from tests.support.factories import a_run, acquire
from tests.support.threads import TIMEOUT, finish, held, start, together, undo, wait_until_waiting

pytestmark = pytest.mark.transactional
servers = pytest.mark.databases("postgresql", "mariadb")
POLICIES = ("return", "ignore", "replace", "raise")


@pytest.fixture
def unique(alias):
    with registry.isolated():

        @job(name="unique", unique="key", database=alias)
        def handler(number=0):
            pass

        yield handler.using


def jobs_of(alias):
    return [row.pk for table in JOB_TABLES for row in table._base_manager.using(alias).all()]


def over(alias, handler):
    """A key whose job is over."""
    row = handler.enqueue()
    (work,) = acquire(alias)
    complete_jobs(alias, [(work, a_run(alias))])
    return row


def attempt(handler, *args):
    """Enqueue; returns the row, or None if it was refused."""
    try:
        return handler.enqueue(*args)
    except DuplicateJob:
        return None


def of_one(alias, rows):
    """The one job that was inserted, whose key it is; all others were told so."""
    new = [row for row in rows if row is not None and not row.is_duplicate]
    assert len(new) == 1
    assert jobs_of(alias) == [new[0].pk]
    assert JobKey.objects.using(alias).get().job_id == new[0].pk
    assert {row.pk for row in rows if row is not None} == {new[0].pk}
    return new[0]


@pytest.mark.parametrize("before", ["nothing", "over"])
@pytest.mark.parametrize("policy", ["return", "ignore", "raise"])
def test_of_many_one_is_inserted(alias, unique, policy, before):
    handler = unique(on_conflict=policy)
    if before == "over":
        over(alias, handler)
    of_one(alias, together(alias, *[lambda: attempt(handler)] * 6))


@pytest.mark.gate
@pytest.mark.parametrize("before", ["nothing", "over", "waiting"])
def test_of_many_that_replace_each_other_one_is_left(alias, unique, before):
    handler = unique(on_conflict="replace")
    if before == "over":
        over(alias, handler)
    elif before == "waiting":
        handler.enqueue()
    rows = together(alias, *[lambda: handler.enqueue()] * 6)
    (left,) = jobs_of(alias)
    assert left in {row.pk for row in rows if not row.is_duplicate}
    assert JobKey.objects.using(alias).get().job_id == left


def test_calls_with_many_keys_in_any_order_do_not_deadlock(alias, unique):
    handler = unique(unique=lambda number: str(number))
    handler.enqueue_many([(number,) for number in range(0, 20, 2)])
    for work in acquire(alias):
        complete_jobs(alias, [(work, a_run(alias))])
    orders = [range(20), range(19, -1, -1), [*range(10, 20), *range(10)]]
    results = together(alias, *[lambda order=order: handler.enqueue_many([(n,) for n in order]) for order in orders])
    assert len(jobs_of(alias)) == JobKey.objects.using(alias).count() == 20
    new = [row.pk for rows in results for row in rows if not row.is_duplicate]
    assert sorted(new) == sorted(jobs_of(alias))


@servers
@pytest.mark.parametrize("before", ["nothing", "over"])
def test_whoever_comes_second_waits_and_is_a_duplicate(alias, unique, before):
    if before == "over":
        over(alias, unique())
    with held(alias) as inside:
        first = inside(unique().enqueue)
        other = start(alias, unique().enqueue)
        wait_until_waiting(alias, other)
    assert of_one(alias, [first, finish(other)]).pk == first.pk


@servers
@pytest.mark.parametrize("before", ["nothing", "over"])
def test_whoever_comes_second_gets_in_when_the_first_rolls_back(alias, unique, before):
    if before == "over":
        over(alias, unique())
    with held(alias) as inside:
        inside(unique().enqueue)
        other = start(alias, unique().enqueue)
        wait_until_waiting(alias, other)
        inside(undo)
    of_one(alias, [finish(other)])


@servers
def test_a_duplicate_waits_for_nobody(alias, unique):
    first = unique().enqueue()
    with held(alias) as inside:
        inside(lambda: Job.objects.using(alias).select_for_update().get())
        inside(lambda: JobKey.objects.using(alias).select_for_update().get())
        assert finish(start(alias, unique().enqueue)).pk == first.pk


class Pause:
    """Holds whoever calls a function of a module just after it, once: `with Pause(...) as pause: pause.reached()`."""

    def __init__(self, monkeypatch, module, name):
        self._arrived, self._go = threading.Event(), threading.Event()
        original = getattr(module, name)

        def paused(*args, **kwargs):
            value = original(*args, **kwargs)
            if threading.current_thread() is not threading.main_thread() and not self._arrived.is_set():
                self._arrived.set()
                assert self._go.wait(TIMEOUT)
            return value

        monkeypatch.setattr(module, name, paused)

    def reached(self):
        assert self._arrived.wait(TIMEOUT)

    def go_on(self):
        self._go.set()


def test_a_holder_that_ends_before_its_row_is_fetched_leaves_its_key(alias, unique, monkeypatch):
    first = unique().enqueue()
    pause = Pause(monkeypatch, unique_keys, "holders")
    other = start(alias, unique().enqueue)
    pause.reached()
    (work,) = acquire(alias)
    complete_jobs(alias, [(work, a_run(alias))])
    pause.go_on()
    row = finish(other)
    assert row.pk != first.pk
    of_one(alias, [row])


def test_a_holder_that_moves_before_its_row_is_fetched_is_found(alias, unique, monkeypatch):
    first = unique().enqueue()
    pause = Pause(monkeypatch, unique_keys, "holders")
    other = start(alias, unique().enqueue)
    pause.reached()
    set_due_date(first, first.create_time + timedelta(days=1), using=alias)
    pause.go_on()
    row = finish(other)
    assert (row.pk, type(row), row.is_duplicate) == (first.pk, TimerJob, True)


def test_a_key_that_is_taken_over_between_look_and_lock_is_taken(alias, unique, monkeypatch):
    over(alias, unique())
    pause = Pause(monkeypatch, unique_keys, "holders")
    other = start(alias, unique().enqueue)
    pause.reached()
    first = unique().enqueue()
    pause.go_on()
    assert of_one(alias, [first, finish(other)]).pk == first.pk


def test_a_key_that_is_cleaned_up_between_look_and_lock_is_taken_anew(alias, unique, monkeypatch):
    over(alias, unique())
    pause = Pause(monkeypatch, unique_keys, "holders")
    other = start(alias, unique().enqueue)
    pause.reached()
    assert list(freeing_keys(alias)) == [1]
    pause.go_on()
    of_one(alias, [finish(other)])


def test_a_key_that_is_inserted_between_look_and_insert_is_taken(alias, unique, monkeypatch):
    pause = Pause(monkeypatch, unique_keys, "holders")
    other = start(alias, unique().enqueue)
    pause.reached()
    first = unique().enqueue()
    pause.go_on()
    assert of_one(alias, [first, finish(other)]).pk == first.pk


def test_a_key_that_is_taken_over_before_the_cleanup_locks_it_stays(alias, unique, monkeypatch):
    over(alias, unique())
    pause = Pause(monkeypatch, key_cleanup, "_over")
    cleanup = start(alias, lambda: list(freeing_keys(alias)))
    pause.reached()
    row = unique().enqueue()
    pause.go_on()
    assert finish(cleanup) == []
    assert unique().enqueue().pk == row.pk


@servers
def test_the_cleanup_passes_by_a_key_that_is_just_taken_over(alias, unique):
    over(alias, unique())
    with held(alias) as inside:
        row = inside(unique().enqueue)
        assert list(freeing_keys(alias)) == []
    of_one(alias, [row])


@servers
def test_who_takes_a_key_over_waits_for_the_cleanup_and_inserts_it_anew(alias, unique):
    over(alias, unique())
    with held(alias) as inside:
        assert inside(lambda: list(freeing_keys(alias))) == [1]
        other = start(alias, unique().enqueue)
        wait_until_waiting(alias, other)
    of_one(alias, [finish(other)])


@servers
@pytest.mark.parametrize(("scope", "jobs"), [("active", 1), ("waiting", 2)])
def test_a_job_that_is_just_acquired_is_not_replaced(alias, unique, scope, jobs):
    handler = unique(on_conflict="replace", unique_while=scope)
    first = handler.enqueue()
    with held(alias) as inside:
        (work,) = inside(lambda: acquire(alias, strategy="skip_locked"))
        row = finish(start(alias, handler.enqueue))
    assert (row.pk == first.pk, row.is_duplicate) == (scope == "active",) * 2
    assert len(jobs_of(alias)) == jobs
    assert complete_jobs(alias, [(work, a_run(alias))]) == {first.pk}


@pytest.mark.parametrize("turn", range(5))
def test_of_replacing_and_acquiring_one_wins(alias, unique, turn):
    handler = unique(on_conflict="replace")
    first = handler.enqueue()
    row, works = together(alias, handler.enqueue, lambda: acquire(alias))
    if row.is_duplicate:
        assert jobs_of(alias) == [first.pk] == [row.pk]
        assert [work.id for work in works] == [first.pk]
    else:
        assert jobs_of(alias) == [row.pk]
        assert first.pk not in [work.id for work in works]


@servers
def test_a_timer_that_is_just_moved_is_not_replaced(alias, unique):
    handler = unique(on_conflict="replace", delay=3600)
    first = handler.enqueue()
    TimerJob.objects.using(alias).update(due_date=clock.now(alias) - timedelta(seconds=1))
    with held(alias) as inside:
        inside(lambda: trigger_due_timers(alias, 10))
        row = finish(start(alias, handler.enqueue))
    assert (row.pk, row.is_duplicate, jobs_of(alias)) == (first.pk, True, [first.pk])


@pytest.mark.databases("mariadb")
def test_under_repeatable_read_a_key_that_is_younger_than_the_snapshot_is_a_conflict(alias, unique):
    from jobexec.operations.sql.errors import is_conflict

    with connections[alias].cursor() as cursor:
        cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
    with pytest.raises(Exception) as caught, transaction.atomic(alias):
        assert not JobKey.objects.using(alias).exists()
        finish(start(alias, unique().enqueue))
        unique().enqueue()
    assert is_conflict(caught.value)
    assert len(jobs_of(alias)) == 1


STEPS = st.lists(
    st.sampled_from(["return", "replace", "raise", "roll back", "run", "clean up"]), min_size=2, max_size=5
)


@pytest.mark.slow
@settings(max_examples=6, suppress_health_check=list(HealthCheck), deadline=None)
@given(first=STEPS, second=STEPS, third=STEPS)
def test_whatever_happens_beside_each_other(alias, unique, first, second, third):
    """At no time two jobs with the key exist, and never a job without its key."""
    for table in (*JOB_TABLES, JobKey):
        table._base_manager.using(alias).all().delete()
    wrong = []

    def thread(steps, owner):
        def run():
            for step in steps:
                _do(alias, unique, step, owner)
                with transaction.atomic(alias):
                    if Job.objects.using(alias).count() > 1:
                        wrong.append(list(Job.objects.using(alias).values_list("pk", "lock_owner")))

        return run

    together(alias, thread(first, "one"), thread(second, "two"), thread(third, "three"))
    assert not wrong
    holders = set(JobKey.objects.using(alias).values_list("job_id", flat=True))
    assert set(jobs_of(alias)) <= holders


def _do(alias, unique, step, owner):
    try:
        _step(alias, unique, step, owner)
    except OperationalError as error:  # a deadlock of InnoDB, in a transaction that is the test's
        if not is_conflict(error):
            raise


def _step(alias, unique, step, owner):
    if step == "run":
        for work in acquire(alias, owner):
            complete_jobs(alias, [(work, a_run(alias))])
    elif step == "clean up":
        list(freeing_keys(alias))
    elif step == "roll back":
        with pytest.raises(ZeroDivisionError), transaction.atomic(alias):
            unique().enqueue()
            raise ZeroDivisionError
    else:
        attempt(unique(on_conflict=step))
