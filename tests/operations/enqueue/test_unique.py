"""Unique keys: when a key is taken, what a duplicate is, what is written and what is rolled back."""

from datetime import timedelta
from functools import partial

import pytest
from django.db import connections, transaction
from django.db.models import Q
from django.test.utils import CaptureQueriesContext

from jobexec import batch, job, signals
from jobexec.exceptions import DuplicateJob, JobStateError
from jobexec.handlers import registry
from jobexec.models import JOB_TABLES, DeadLetterJob, Job, JobKey, JobLog, SuspendedJob, TimerJob
from jobexec.operations import (
    clean_up_history,
    complete_jobs,
    delete_jobs,
    fail_job,
    requeue,
    set_due_date,
    set_retries,
    suspend,
)
from jobexec.operations.external import resolve_external_incident
from jobexec.operations.external.search import search_incidents
from jobexec.operations.maintenance.key_cleanup import freeing_keys
from tests.support.factories import a_failure, a_run, acquire, reload, table_of
from tests.support.threads import finish, held, start, wait_until_waiting

pytestmark = pytest.mark.every_database

POLICIES = ("return", "ignore", "replace", "raise")
SCOPES = ("waiting", "active", "existing")


@pytest.fixture
def unique(alias):
    """Makes a job of one argument with these options."""
    with registry.isolated():

        @job(name="unique", unique=True, database=alias)
        def handler(number=0, text=""):
            pass

        yield handler.using


def jobs_of(alias):
    return {row.pk: table for table in JOB_TABLES for row in table._base_manager.using(alias).all()}


def in_state(alias, row, state):
    """Bring a job that is due and free into a state; returns what is in hand of a node."""
    if state == "timer":
        set_due_date(row, row.create_time + timedelta(days=1), using=alias)
    elif state == "suspended":
        suspend(row, using=alias)
    elif state in ("running", "retry", "dead", "done"):
        (work,) = acquire(alias)
        if state == "retry":
            fail_job(alias, work, a_failure(), a_run(alias))
        elif state == "dead":
            fail_job(alias, work, a_failure(kind="fatal"), a_run(alias))
        elif state == "done":
            complete_jobs(alias, [(work, a_run(alias))])
    elif state == "deleted":
        delete_jobs(row, using=alias)


TAKEN = {
    "due": SCOPES,
    "timer": SCOPES,
    "suspended": SCOPES,
    "retry": SCOPES,
    "running": ("active", "existing"),
    "dead": ("existing",),
    "done": (),
    "deleted": (),
}


@pytest.mark.parametrize("scope", SCOPES)
@pytest.mark.parametrize("state", TAKEN)
def test_what_takes_a_key(alias, unique, state, scope):
    handler = unique(unique_while=scope)
    first = handler.enqueue(1)
    in_state(alias, first, state)
    second = handler.enqueue(1)
    if scope in TAKEN[state]:
        assert (second.pk, second.is_duplicate, second._state.adding) == (first.pk, True, False)
        assert type(second) is table_of(alias, first)
        assert second.handler_configuration == {"args": [1], "kwargs": {}}
        assert len(jobs_of(alias)) == 1
    else:
        assert (second.pk != first.pk, second.is_duplicate) == (True, False)
        assert JobKey.objects.using(alias).get().job_id == second.pk
        assert type(reload(alias, second)) is Job


def test_other_arguments_and_other_handlers_have_other_keys(alias, unique):
    handler = unique()
    other = job(name="other", unique="all", database=alias)(lambda number: None)
    rows = [handler.enqueue(1), handler.enqueue(2), handler.enqueue(1, "a"), other.enqueue(1)]
    assert not any(row.is_duplicate for row in rows)
    assert other.enqueue(2).pk == rows[3].pk
    assert handler.enqueue(number=1, text="").pk == rows[0].pk, "as the function gets it"
    assert len(jobs_of(alias)) == JobKey.objects.using(alias).count() == 4


def test_ordinary_jobs_have_no_keys(alias, unique):
    handler = unique(unique=False)
    assert handler.enqueue(1).is_duplicate is handler.enqueue(1).is_duplicate is False
    assert not JobKey.objects.using(alias).exists()


def test_a_key_lasts_beyond_its_job(alias, unique, frozen):
    handler = unique(unique_for=60)
    first = handler.enqueue(1)
    assert JobKey.objects.using(alias).get().expiration_time == frozen.now + timedelta(seconds=60)
    in_state(alias, first, "done")
    frozen.tick(59)
    second = handler.enqueue(1)
    assert (second.pk, second.is_duplicate, second._state.adding) == (first.pk, True, True)
    assert second.handler_configuration == {"args": [1], "kwargs": {}}
    assert not jobs_of(alias)
    frozen.tick(1)
    third = handler.enqueue(1)
    assert third.is_duplicate is False
    frozen.tick(3600)
    assert handler.enqueue(1).pk == third.pk, "it has not run yet"


def test_ignored_duplicates_are_not_looked_up(alias, unique, django_assert_num_queries):
    handler = unique(on_conflict="ignore")
    first = handler.enqueue(1)
    with django_assert_num_queries(2, using=alias):
        row = handler.enqueue(1)
    assert (row.pk, row.is_duplicate, row._state.adding) == (first.pk, True, True)


@pytest.mark.fast_form
def test_what_a_duplicate_costs(alias, unique, django_assert_num_queries):
    handler = unique()
    with django_assert_num_queries(5 if alias == "mariadb" else 3, using=alias):
        handler.enqueue(1)  # the look, the key, the job; where nobody says what was inserted, another look
    with django_assert_num_queries(3, using=alias):
        handler.enqueue(1)  # the look, the job that has it, its row


def test_a_duplicate_is_an_error_that_leaves_the_transaction_alone(alias, unique):
    handler = unique(on_conflict="raise")
    with transaction.atomic(alias):
        first = handler.enqueue(1)
        with pytest.raises(DuplicateJob, match=r"^unique: the key '\w{64}' is taken by the job") as caught:
            handler.enqueue(1)
        assert handler.enqueue(2).is_duplicate is False
    assert caught.value.job_id == first.pk
    assert (caught.value.handler_type, caught.value.key) == ("unique", JobKey.objects.using(alias).first().key)
    assert len(jobs_of(alias)) == 2


@pytest.mark.parametrize("state", ["due", "timer", "suspended", "retry"])
def test_a_waiting_job_is_replaced(alias, unique, configure, state):
    configure(HISTORY_LEVEL="full")
    handler = unique(unique=lambda number, text="": "key", on_conflict="replace", unique_for=3600)
    first = handler.enqueue(1)
    in_state(alias, first, state)
    second = handler.enqueue(2)
    assert second.is_duplicate is False
    assert jobs_of(alias) == {second.pk: Job}
    assert JobKey.objects.using(alias).get().job_id == second.pk
    entry = JobLog.objects.using(alias).get(state="deleted")
    assert (entry.job_id, entry.exception_message) == (first.pk, f"Replaced by {second.pk}")


@pytest.mark.parametrize("state", ["running", "dead"])
def test_what_runs_or_needs_a_person_is_not_replaced(alias, unique, state):
    handler = unique(unique="key", unique_while="existing", on_conflict="replace")
    first = handler.enqueue(1)
    in_state(alias, first, state)
    assert (handler.enqueue(2).pk, len(jobs_of(alias))) == (first.pk, 1)


def test_beside_a_job_that_runs_one_waits(alias, unique):
    handler = unique(unique="key", unique_while="waiting", on_conflict="replace")
    first = handler.enqueue(1)
    (work,) = acquire(alias)
    second = handler.enqueue(2)
    third = handler.enqueue(3)
    assert jobs_of(alias) == {first.pk: Job, third.pk: Job}
    assert complete_jobs(alias, [(work, a_run(alias))]) == {first.pk}
    assert second.pk not in jobs_of(alias)


def test_a_dead_letter_that_is_requeued_has_its_key_again(alias, unique):
    handler = unique()
    first = handler.enqueue(1)
    in_state(alias, first, "dead")
    assert requeue(first.pk, using=alias)
    again = handler.enqueue(1)
    assert (again.pk, again.is_duplicate) == (first.pk, True)


@pytest.mark.parametrize("verb", [requeue, partial(set_retries, retries=3)])
@pytest.mark.parametrize("many", [False, True])
def test_a_dead_letter_whose_key_another_has_waits_until_that_is_over(alias, unique, verb, many):
    handler = unique()
    dead = []
    for number in (1, 2):
        dead.append(handler.enqueue(number))
        in_state(alias, dead[-1], "dead")
    first, other = dead
    second = handler.enqueue(1)
    result = verb([first.pk, other.pk] if many else first.pk, using=alias)
    assert result.changed == ([other.pk] if many else [])
    assert list(result.skipped) == [first.pk]
    assert result.skipped[first.pk].endswith(f" is taken by the job {second.pk}.")
    delete_jobs(second, using=alias)
    assert verb(first.pk, using=alias)
    assert handler.enqueue(1).pk == first.pk
    assert jobs_of(alias)[first.pk] is Job


def test_an_incident_of_a_dead_letter_whose_key_another_has_stays_open(alias, unique):
    handler = unique(process_instance_id="p", process_definition_key="order")
    first = handler.enqueue(1)
    in_state(alias, first, "dead")
    second = handler.enqueue(1)
    (incident,) = search_incidents(alias, Q())
    with pytest.raises(JobStateError, match=f"incident with key '{incident.incident_key}'.*{second.pk}"):
        resolve_external_incident(alias, incident.incident_key)
    assert jobs_of(alias) == {first.pk: DeadLetterJob, second.pk: Job}
    delete_jobs(second, using=alias)
    resolve_external_incident(alias, incident.incident_key)
    assert jobs_of(alias) == {first.pk: Job}
    assert handler.enqueue(1).pk == first.pk


@pytest.mark.parametrize("cleaned", [False, True])
def test_of_two_dead_letters_of_one_key_one_is_requeued(alias, unique, cleaned):
    handler = unique()
    dead = []
    for _ in range(2):
        dead.append(handler.enqueue(1))
        in_state(alias, dead[-1], "dead")
    in_state(alias, handler.enqueue(1), "done")
    if cleaned:
        JobKey.objects.using(alias).update(expiration_time=None)
        assert sum(freeing_keys(alias)) == 1
    assert requeue(dead, using=alias).changed == [dead[0].pk]
    assert jobs_of(alias) == {dead[0].pk: Job, dead[1].pk: DeadLetterJob}
    in_state(alias, dead[0], "dead")
    assert requeue(dead[1], using=alias).changed == [dead[1].pk]
    assert requeue(dead[0], using=alias).changed == []


@pytest.mark.parametrize("tenant", ["", "acme"])
def test_a_key_that_a_dead_letter_loses_is_that_of_its_tenant(alias, unique, tenant):
    handler = unique(tenant_id=tenant)
    first = handler.enqueue(1)
    in_state(alias, first, "dead")
    unique(tenant_id="globex").enqueue(1)
    assert DeadLetterJob.objects.using(alias).get().lost_key == ""
    assert requeue(first.pk, using=alias)


@pytest.mark.transactional
@pytest.mark.databases("postgresql", "mariadb")
@pytest.mark.parametrize("verb", [requeue, delete_jobs])
def test_a_key_is_taken_from_a_dead_letter_that_somebody_just_changes(alias, unique, verb):
    """Who enqueues waits for the operator, and sees what he has done."""
    handler = unique()
    first = handler.enqueue(1)
    in_state(alias, first, "dead")
    with held(alias) as inside:
        assert inside(lambda: verb(first.pk, using=alias))
        enqueuing = start(alias, lambda: handler.enqueue(1))
        wait_until_waiting(alias, enqueuing)
    row = finish(enqueuing)
    assert row.is_duplicate is (verb is requeue)
    assert jobs_of(alias) == {row.pk: Job}


@pytest.mark.transactional
@pytest.mark.parametrize("savepoint", [False, True])
def test_job_and_key_are_rolled_back_together(alias, unique, savepoint):
    handler = unique()
    with transaction.atomic(alias):
        with pytest.raises(ZeroDivisionError), transaction.atomic(alias):
            assert handler.enqueue(1).is_duplicate is False
            assert handler.enqueue(1).is_duplicate is True
            raise ZeroDivisionError
        if savepoint:
            assert handler.enqueue(1).is_duplicate is False
    assert len(jobs_of(alias)) == JobKey.objects.using(alias).count() == savepoint


@pytest.mark.transactional
def test_a_takeover_that_is_rolled_back_leaves_the_key_as_it_was(alias, unique):
    handler = unique()
    first = handler.enqueue(1)
    in_state(alias, first, "done")
    with pytest.raises(ZeroDivisionError), transaction.atomic(alias):
        handler.enqueue(1)
        raise ZeroDivisionError
    assert JobKey.objects.using(alias).get().job_id == first.pk
    assert not jobs_of(alias)
    assert handler.enqueue(1).is_duplicate is False


@pytest.mark.transactional
def test_only_what_is_inserted_is_announced(alias, unique):
    heard = []

    def receiver(jobs, **kwargs):
        heard.extend(job.pk for job in jobs)

    signals.job_created.connect(receiver)
    try:
        row = unique().enqueue(1)
        unique().enqueue(1)
        rows = unique().enqueue_many([(1,), (2,), (2,)])
    finally:
        signals.job_created.disconnect(receiver)
    assert heard == [row.pk, rows.ids[1]]


# Many at once


def test_many_with_keys(alias, unique):
    first = unique().enqueue(1)
    rows = unique().enqueue_many([(0,), (1,), (2,), (0,), {"number": 2}])
    assert [row.is_duplicate for row in rows] == [False, True, False, True, True]
    assert rows.ids[1] == first.pk
    assert (rows.ids[3], rows.ids[4]) == (rows.ids[0], rows.ids[2]), "the first one counts"
    assert [row.pk for row in rows] == list(rows.ids)
    assert [row.handler_configuration["args"] for row in rows] == [[0], [1], [2], [0], [2]]
    assert set(jobs_of(alias)) == set(rows.ids)
    assert JobKey.objects.using(alias).count() == 3


def test_of_many_the_last_one_replaces(alias, unique):
    handler = unique(unique=lambda number, text="": str(number), on_conflict="replace")
    first = handler.enqueue(1, "old")
    rows = handler.enqueue_many([(0, "a"), (1, "b"), (0, "c")])
    assert [row.is_duplicate for row in rows] == [True, False, False]
    assert rows.ids[0] == rows.ids[2]
    assert [row.handler_configuration["args"] for row in rows] == [[0, "c"], [1, "b"], [0, "c"]]
    assert first.pk not in jobs_of(alias)
    assert len(jobs_of(alias)) == 2


@pytest.mark.parametrize("calls", [[(0,), (1,)], [(2,), (3,), (2,)]])
def test_of_many_a_duplicate_is_an_error_and_nothing_is_inserted(alias, unique, calls):
    handler = unique(on_conflict="raise")
    first = handler.enqueue(1)
    with transaction.atomic(alias):
        with pytest.raises(DuplicateJob):
            handler.enqueue_many(calls)
        assert set(jobs_of(alias)) == {first.pk}, "the transaction goes on"
    assert JobKey.objects.using(alias).count() == 1


def test_many_ignored_ones_are_not_looked_up(alias, unique):
    first = unique().enqueue(1)
    new, old = unique(on_conflict="ignore").enqueue_many([(0,), (1,)])
    assert (new._state.adding, new.is_duplicate) == (False, False)
    assert (old.pk, old._state.adding, old.is_duplicate) == (first.pk, True, True)


def test_many_in_all_states(alias, unique):
    handler = unique(unique_while="active")
    calls = [(number,) for number in range(6)]
    rows = list(handler.enqueue_many(calls))
    states = ["due", "timer", "suspended", "deleted"]
    for row, state in zip(rows, states, strict=False):
        in_state(alias, row, state)
    running, dead = (one for one in acquire(alias) if one.id in {rows[4].pk, rows[5].pk})
    fail_job(alias, dead, a_failure(kind="fatal"), a_run(alias))
    again = list(handler.enqueue_many(calls))
    assert [type(row) for row in again] == [Job, TimerJob, SuspendedJob, Job, Job, Job]
    assert [row.is_duplicate for row in again] == [True, True, True, False, True, False]
    assert running.id == again[4].pk
    assert DeadLetterJob.objects.using(alias).get().pk == rows[5].pk


@pytest.mark.gate
@pytest.mark.fast_form
def test_few_statements_for_a_page_of_keys(alias, unique, django_assert_max_num_queries):
    handler = unique()
    with django_assert_max_num_queries(16, using=alias):
        handler.enqueue_many([(number,) for number in range(1_000)])
    delete_jobs(Job.objects.using(alias).all(), using=alias)
    with django_assert_max_num_queries(16, using=alias):
        rows = handler.enqueue_many([(number,) for number in range(1_000)])
    assert not any(row.is_duplicate for row in rows)
    assert JobKey.objects.using(alias).filter(job_id__in=rows.ids[:3]).count() == 3


# Keys that nobody needs any more


def test_keys_of_jobs_that_are_over_are_cleaned_up(alias, unique, configure, frozen):
    configure(HISTORY_CLEANUP_BATCH_SIZE=2, HISTORY_TIME_TO_LIVE=None)
    handler = unique(unique=lambda number, text="": str(number))
    rows = [handler.enqueue(number) for number in range(6)]
    lasting = handler.using(unique_for=60).enqueue(6)
    in_state(alias, rows[1], "timer")
    in_state(alias, rows[2], "suspended")
    for row in (rows[4], rows[5], lasting):
        in_state(alias, row, "deleted")
    works = {work.id: work for work in acquire(alias)}
    fail_job(alias, works[rows[3].pk], a_failure(kind="fatal"), a_run(alias))
    assert clean_up_history(alias) == 2
    left = JobKey.objects.using(alias).order_by("key")
    assert list(left.values_list("key", flat=True)) == ["0", "1", "2", "3", "6"], "due, later, suspended, dead, in time"
    frozen.tick(60)
    assert clean_up_history(alias) == 1
    assert handler.enqueue(6).is_duplicate is False


def test_keys_in_use_are_not_locked_by_the_cleanup(alias, unique):
    unique().enqueue_many([(number,) for number in range(5)])
    with CaptureQueriesContext(connections[alias]) as queries:
        assert list(freeing_keys(alias)) == []
    assert not any("FOR UPDATE" in query["sql"] for query in queries)


class TestTenants:
    """A key belongs to a tenant: the same call for another one is another job."""

    def test_the_same_call_of_another_tenant_is_no_duplicate(self, alias, unique):
        handler = unique()
        rows = [handler.using(tenant_id=tenant).enqueue(5) for tenant in ("", "acme", "globex")]
        assert not any(row.is_duplicate for row in rows)
        for row in rows:
            again = handler.using(tenant_id=row.tenant_id).enqueue(5)
            assert (again.pk, again.is_duplicate, again.tenant_id) == (row.pk, True, row.tenant_id)
        assert sorted(JobKey.objects.using(alias).values_list("tenant_id", flat=True)) == ["", "acme", "globex"]

    @pytest.mark.parametrize("policy", POLICIES)
    def test_many_at_once(self, alias, unique, policy):
        handler = unique(on_conflict=policy)
        acme = handler.using(tenant_id="acme").enqueue_many([(1,), (2,)])
        globex = handler.using(tenant_id="globex").enqueue_many([(1,), (2,)])
        assert len({row.pk for row in (*acme, *globex)}) == len(jobs_of(alias)) == 4

    @pytest.mark.parametrize("policy", POLICIES)
    def test_children_of_batches_belong_to_the_tenant_of_their_batch(self, alias, unique, policy):
        handler = unique(on_conflict=policy)
        batches = [batch(tenant_id=tenant, using=alias) for tenant in ("acme", "globex")]
        rows = [each.add(handler.s(1)) for each in batches]
        assert [each.add_many([handler.s(2), handler.s(3)]) for each in batches] == [2, 2]
        assert [(row.tenant_id, row.is_duplicate, row.pk in jobs_of(alias)) for row in rows] == [
            ("acme", False, True),
            ("globex", False, True),
        ]
        tenants = JobKey.objects.using(alias).values_list("tenant_id", flat=True)
        assert sorted(tenants) == ["acme"] * 3 + ["globex"] * 3

    def test_nobody_is_replaced_by_another_tenant(self, alias, unique):
        handler = unique(on_conflict="replace", unique_for=60)
        first = handler.using(tenant_id="acme").enqueue(1)
        second = handler.using(tenant_id="globex").enqueue(1)
        third = handler.using(tenant_id="acme").enqueue(1)
        assert set(jobs_of(alias)) == {second.pk, third.pk} != {first.pk}
