"""Acquisition in one statement means what its portable form means, for whatever is in the tables."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest
from django.db import connections, transaction
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from jobexec import clock
from jobexec.models import JOB_TABLES, ExclusiveLock, Job, Suspension
from jobexec.operations import acquire_jobs
from jobexec.operations.acquire import candidates
from jobexec.operations.acquire.candidates import Request, any_job
from jobexec.operations.acquire.cursor import AcquisitionCursor, Position
from jobexec.operations.acquire.statement import any_free, lock_plain_page
from jobexec.operations.rows import exclusive
from jobexec.operations.values.acquired_job import ServedJobs, batches
from tests.support.factories import LOCK_TIME, make_row
from tests.support.suite import tiers

pytestmark = [pytest.mark.databases("sqlite", "postgresql"), pytest.mark.every_database]

EXAMPLES = tiers.current().examples
ROWS = st.fixed_dictionaries(
    {
        "category": st.sampled_from(["default", "default", "mail", "other"]),
        "deployment_id": st.sampled_from(["", "", "shop:1", "shop:2"]),
        "rank": st.integers(-3, 6),
        "priority": st.integers(-2, 2),
        "lock_owner": st.sampled_from([None, None, None, None, "two"]),
        "suspend_requested": st.sampled_from([False] * 9 + [True]),
        "cancel_requested": st.sampled_from([False, False, True]),
        # The last one is what the instance p of the tenant t is called where it is locked.
        "process_instance_id": st.sampled_from(["", "", "", "p", "q", "locked", "t\x1fp"]),
        "tenant_id": st.sampled_from(["", "", "t"]),
        "exclusive": st.booleans(),
        "timeout": st.sampled_from([None, timedelta(seconds=90.5)]),
        "expires_at": st.sampled_from([None, None, datetime(2026, 3, 1, 12, 0, 0, 7, tzinfo=UTC)]),
        "lost_runs": st.integers(0, 2),
        "handler_configuration": st.sampled_from([{"args": [1], "kwargs": {"ä": None}}, {"args": ["x" * 17_000]}]),
    }
)
SUSPENSIONS = st.sampled_from(
    [
        {},
        {},
        {"scope": "job_definition_id", "value": "nobody's"},
        {"scope": "process_instance_id", "value": "p"},
        {"scope": "process_instance_id", "value": "p", "live": None},
        {"scope": "tenant_id", "value": "", "begins": 5},
        {"scope": "process_instance_id", "value": "q", "begins": -5, "ends": 5},
        {"scope": "process_instance_id", "value": "q", "begins": -5, "ends": 0},
        {"scope": "process_instance_id", "value": "q", "begins": 0},
    ]
)
BOUND = st.sampled_from([None, None, -1, 0, 1])
SCOPES = st.builds(
    ServedJobs,
    categories=st.sampled_from([("default",), ("default", "mail"), ("mail", "other", "none")]),
    deployments=st.sampled_from([(), ("shop:1",), ("shop:2", "shop:1")]),
    priority_min=BOUND,
    priority_max=BOUND,
)
POSITIONS = st.one_of(st.none(), st.builds(Position, st.integers(-3, 6), st.integers(0, 20).map(lambda n: UUID(int=n))))


def make(alias, rows, suspension):
    until = clock.now() + LOCK_TIME
    Job.objects.using(alias).bulk_create(
        Job(
            id=UUID(int=number + 1),
            handler_type="h",
            sequence_counter=number,
            lock_expiration_time=until if row["lock_owner"] else None,
            **row,
        )
        for number, row in enumerate(rows)
    )
    ExclusiveLock.objects.using(alias).create(process_instance_id="locked", lock_owner="two", acquisition=UUID(int=7))
    if suspension:
        values = dict(suspension)
        begins, ends = (values.pop(name, None) for name in ("begins", "ends"))
        dates = [None if each is None else clock.now() + timedelta(seconds=each) for each in (begins, ends)]
        Suspension.objects.using(alias).create(suspend_time=dates[0], activate_time=dates[1], **values)


def state(alias):
    """All that acquisition may change, but for values of chance."""
    names = [field.attname for field in Job._meta.concrete_fields]
    tables = [
        (table, sorted(table._base_manager.using(alias).values_list(*names), key=lambda row: str(row[0])))
        for table in JOB_TABLES
    ]
    locks = sorted(ExclusiveLock.objects.using(alias).values_list("process_instance_id", "lock_owner"))
    return tables, locks


def by_the_orm(patched):
    """Everything that acquisition reads and locks, besides what is plain, in the portable form."""
    patched.setattr(exclusive, "returns_rows", lambda using: False)
    patched.setattr(candidates, "has_statements", lambda request: False)


def portably(act, *args):
    with pytest.MonkeyPatch.context() as patched:
        by_the_orm(patched)
        return act(*args)


def acquired(alias, limit, scope, position, in_several, strategy="skip_locked"):
    """What one call brings, where the cursor goes on at the position."""
    cursor = AcquisitionCursor()
    cursor.not_plain = int(in_several)
    if position is not None:
        cursor.begin()
        cursor.ended([], full=True)
        cursor._position, cursor._head_at = position, clock.monotonic() + 1
    found = acquire_jobs(alias, "one", limit, scope, lock_time=LOCK_TIME, strategy=strategy, cursor=cursor)
    # Which arguments come along at once may differ: what is compressed is measured as it is stored.
    jobs = [(replace(job, configuration=None), job.arguments()) for job in found.jobs]
    return jobs, found.suspended


class Undo(Exception):
    pass


def tried(alias, rows, suspension, act):
    """What ``act`` returns, and what is in the tables then; all is undone."""
    with pytest.raises(Undo), transaction.atomic(using=alias):
        make(alias, rows, suspension)
        result = act(), state(alias)
        raise Undo
    return result


ONE = {
    "category": "default",
    "deployment_id": "",
    "rank": 0,
    "priority": 0,
    "lock_owner": None,
    "suspend_requested": False,
    "cancel_requested": False,
    "process_instance_id": "",
    "exclusive": True,
    "timeout": None,
    "lost_runs": 0,
    "handler_configuration": {},
}


@pytest.mark.gate
@pytest.mark.databases("sqlite", "postgresql", "mariadb")
@pytest.mark.timeout(400 + EXAMPLES)  # a second for each, on a machine that others use, too
@pytest.mark.parametrize("strategy", ["skip_locked", "optimistic"])
def test_all_forms_do_the_same(alias, strategy):
    @settings(max_examples=EXAMPLES, suppress_health_check=list(HealthCheck))
    @given(st.lists(ROWS, max_size=14), SUSPENSIONS, SCOPES, POSITIONS, st.sampled_from([1, 3, 50]))
    @example([ONE | {"process_instance_id": "p"}, ONE], {}, ServedJobs(), None, 50)
    @example([ONE, ONE | {"suspend_requested": True}, ONE], {}, ServedJobs(), None, 2)
    @example([ONE, ONE, ONE], {}, ServedJobs(), Position(0, UUID(int=2)), 50)
    def compare(rows, suspension, scope, position, limit):
        forms = [
            lambda: acquired(alias, limit, scope, position, False, strategy),
            lambda: acquired(alias, limit, scope, position, True, strategy),
            lambda: portably(acquired, alias, limit, scope, position, True, strategy),
        ]
        one, several, orm = (tried(alias, rows, suspension, form) for form in forms)
        assert several == orm
        (fast, fast_suspended), fast_state = one
        (portable, suspended), expected = orm
        keyed = {job.serial_key for job, _ in fast + portable if job.serial_key}
        if not keyed and fast_suspended == suspended:
            assert fast == portable
        if limit == 50:  # else siblings may take the place of jobs that are not exclusive
            assert sorted(map(repr, fast)) == sorted(map(repr, portable))
            assert fast_suspended == suspended
            assert fast_state == expected
        for job, _ in fast:
            row = rows[job.id.int - 1]
            assert row["lock_owner"] is None
            assert not row["suspend_requested"]
            assert job.serial_key != "locked"
        locks = {instance for instance, owner in fast_state[1] if owner == "one"}
        assert locks == {job.serial_key for job, _ in fast if job.serial_key}
        assert len(fast) <= limit

    compare()


@pytest.mark.gate
@pytest.mark.timeout(400 + EXAMPLES)  # a second for each, on a machine that others use, too
def test_what_is_not_plain_is_as_it_was(alias):
    @settings(max_examples=EXAMPLES, suppress_health_check=list(HealthCheck))
    @given(st.lists(ROWS, max_size=14), SUSPENSIONS, SCOPES, POSITIONS, st.sampled_from([1, 3, 50]))
    def check(rows, suspension, scope, position, limit):
        until = clock.now() + LOCK_TIME

        def act():
            before = state(alias)
            return before, lock_plain_page(alias, "one", limit, scope, until, position)

        ((before, page), after) = tried(alias, rows, suspension, act)
        locked = {job.id for job in page.jobs}
        names = [field.attname for field in Job._meta.concrete_fields]
        for (table, old), (_, new) in zip(before[0], after[0], strict=True):
            untouched = [row for row in old if row[0] not in locked]
            assert untouched == [row for row in new if row[0] not in locked], table
        for row in next(new for table, new in after[0] if table is Job):
            values = dict(zip(names, row, strict=True))
            if values["id"] in locked:
                assert (values["lock_owner"], values["lock_expiration_time"], values["revision"]) == ("one", until, 2)
                assert not values["suspend_requested"]
                assert not (values["exclusive"] and values["process_instance_id"])
        assert after[1] == before[1]
        assert [job.id for job in page.jobs] == [
            job.id for job in sorted(page.jobs, key=lambda job: (job.rank, job.id.int))
        ]

    check()


@pytest.mark.gate
@pytest.mark.databases("sqlite", "postgresql", "mariadb")
@pytest.mark.timeout(400 + EXAMPLES)
def test_both_forms_see_whether_there_is_a_job(alias):
    @settings(max_examples=EXAMPLES, suppress_health_check=list(HealthCheck))
    @given(st.lists(ROWS, max_size=5), SCOPES, POSITIONS)
    @example([ONE], ServedJobs(), None)
    @example([ONE], ServedJobs(), Position(0, UUID(int=1)))
    @example([ONE | {"process_instance_id": "locked"}], ServedJobs(), None)
    @example([ONE | {"deployment_id": "shop:1"}], ServedJobs(deployments=("shop:2", "shop:1")), None)
    def compare(rows, scope, position):
        def act():
            request = Request(alias, "one", 1, scope, LOCK_TIME, AcquisitionCursor())
            return any_free(alias, scope, position, scope.pairs()), any_job(request, position)

        (found, expected), _ = tried(alias, rows, {}, act)
        assert found is expected

    compare()


@pytest.mark.databases("sqlite", "postgresql", "mariadb")
def test_whether_there_is_a_job_in_another_order_is_left_to_the_portable_form(alias):
    scope = ServedJobs(categories=("default", "mail"), category_order="strict")
    assert any_free(alias, scope, None, scope.pairs()) is None


@pytest.mark.databases("sqlite", "postgresql", "mariadb")
@pytest.mark.parametrize("count", [99, 100, 101, pytest.param(2_000, marks=pytest.mark.gate)])
def test_any_number_of_deployments(alias, count):
    names = [f"d:{number}" for number in range(count)]
    ids = [make_row(Job, alias, deployment_id=name, rank=-number).pk for number, name in enumerate(names[-20:])]
    ids.append(make_row(Job, alias, rank=5).pk)
    make_row(Job, alias, deployment_id="elsewhere:1", rank=-100)
    scope = ServedJobs(deployments=tuple(names))
    found = acquire_jobs(alias, "one", 50, scope, lock_time=LOCK_TIME)
    assert [job.id for job in found.jobs] == [*reversed(ids[:-1]), ids[-1]]
    assert Job.objects.using(alias).filter(lock_owner=None).count() == 1


@pytest.mark.transactional
def test_a_row_that_cannot_be_read_leaves_nothing_locked_and_the_next_page_goes_on(alias):
    rows = [make_row(Job, alias, rank=number) for number in range(4)]
    broken = {"postgresql": "interval '1999999999 days'", "sqlite": "'no number'"}[connections[alias].vendor]
    with connections[alias].cursor() as cursor:
        cursor.execute(f"UPDATE {Job._meta.db_table} SET timeout = {broken} WHERE rank = 2")
    page = lock_plain_page(alias, "one", 10, ServedJobs(), clock.now() + LOCK_TIME)
    assert page.jobs == []
    assert page.others
    table = Job.objects.using(alias)
    assert set(table.values_list("lock_owner", "revision")) == {(None, 1)}
    cursor, got = AcquisitionCursor(), []
    for _ in range(3):
        got += acquire_jobs(alias, "one", 10, ServedJobs(), lock_time=LOCK_TIME, cursor=cursor).jobs
    assert [job.id for job in got] == [row.pk for row in rows if row.rank != 2]


# Exclusive siblings on a page.


def siblings(alias, **columns):
    return make_row(Job, alias, **{"process_instance_id": "p", "exclusive": True} | columns)


def page(alias, limit, **scope):
    """The jobs of a page, by whatever form."""
    found = acquire_jobs(alias, "one", limit, ServedJobs(**scope), lock_time=LOCK_TIME, cursor=AcquisitionCursor())
    return [job.id for job in found.jobs], [[job.rank for job in batch] for batch in batches(found.jobs)]


@pytest.mark.databases("postgresql", "mariadb")
class TestSiblings:
    def test_they_come_with_the_first_of_them_by_rank_though_others_stand_before_them(self, alias):
        for rank in (9, 1, 30):
            siblings(alias, rank=rank)
        for rank in (2, 3, 4):
            siblings(alias, rank=rank, process_instance_id=f"other{rank}")
        ids, ranks = page(alias, 4)
        assert len(ids) == 4
        assert sorted(ranks)[0] == [1, 9, 30]
        assert sorted(ranks)[1:] == [[2]]

    def test_no_page_has_more_than_was_asked_for_and_the_rest_waits_for_the_instance(self, alias):
        for rank in range(12):
            siblings(alias, rank=rank)
        ids, ranks = page(alias, 5)
        assert ranks == [[0, 1, 2, 3, 4]]
        assert len(ids) == 5
        assert page(alias, 5) == ([], [])

    def test_those_that_fell_off_the_page_are_found_by_the_next(self, alias):
        for rank in range(4):
            siblings(alias, rank=rank)
        alone = siblings(alias, rank=10, process_instance_id="q")
        cursor = AcquisitionCursor()
        got = [acquire_jobs(alias, "one", 4, ServedJobs(), lock_time=LOCK_TIME, cursor=cursor) for _ in range(2)]
        assert [[job.rank for job in each.jobs] for each in got] == [[0, 1, 2, 3], [10]]
        assert got[1].jobs[0].id == alone.pk

    def test_siblings_that_stand_before_the_position_go_first(self, alias, frozen):
        cursor = AcquisitionCursor()
        make_row(Job, alias, rank=0)
        siblings(alias, rank=5)
        cursor.not_plain = 9
        acquire_jobs(alias, "one", 1, ServedJobs(), lock_time=LOCK_TIME, cursor=cursor)
        cursor._head_at, cursor._position = clock.monotonic() + 9, Position(3, UUID(int=0))
        siblings(alias, rank=-7)
        found = acquire_jobs(alias, "one", 10, ServedJobs(), lock_time=LOCK_TIME, cursor=cursor)
        assert [[job.rank for job in batch] for batch in batches(found.jobs)] == [[-7, 5]]

    def test_what_others_hold_or_may_not_run_here_stays(self, alias):
        until = clock.now() + LOCK_TIME
        siblings(alias, rank=0)
        siblings(alias, rank=1, lock_owner="two", lock_expiration_time=until)
        siblings(alias, rank=2, category="other")
        siblings(alias, rank=3, deployment_id="elsewhere:1")
        siblings(alias, rank=4, priority=-9)
        siblings(alias, rank=5, exclusive=False)
        siblings(alias, rank=6)
        _, ranks = page(alias, 50, priority_min=0)
        assert sorted(ranks) == [[0, 6], [5]]

    def test_suspended_ones_are_moved_and_the_others_run(self, alias):
        siblings(alias, rank=0)
        siblings(alias, rank=1, suspend_requested=True)
        siblings(alias, rank=2)
        _, ranks = page(alias, 50)
        assert ranks == [[0, 2]]
        assert Job.objects.using(alias).count() == 2


def test_what_a_page_reads_is_what_the_row_says(alias):
    moment, timeout = clock.now(alias) + timedelta(hours=1, microseconds=7), timedelta(seconds=90.5)
    row = make_row(Job, alias, expires_at=moment, timeout=timeout)
    page = lock_plain_page(alias, "one", 10, ServedJobs(), clock.now(alias) + LOCK_TIME)
    assert [(job.id, job.expires_at, job.timeout) for job in page.jobs] == [(row.pk, moment, timeout)]
